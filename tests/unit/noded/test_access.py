# SPDX-License-Identifier: BSD-2-Clause
"""Whose calls a node takes: what is remembered of a certificate ends with the file that names it."""

from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.noded.access import CandidateCertificates
from ganeti.system.tls import certificate_digest


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(str(tmp_path))
    Path(paths.data_dir).mkdir(parents=True)
    return paths


def name(paths: Paths, *certificates: bytes) -> None:
    """Replace the file, as is always done."""
    file = Path(paths.ssconf_file("master_candidates_certs"))
    fresh = file.with_suffix(".new")
    fresh.write_text("".join(f"uuid={certificate_digest(each)}\n" for each in certificates))
    fresh.rename(file)


def test_who_is_named_no_more_is_refused_at_once(paths: Paths) -> None:
    name(paths, b"one", b"two")
    candidates = CandidateCertificates(paths)
    for _ in range(2):
        assert (candidates.accepts(b"one"), candidates.accepts(b"two"), candidates.accepts(b"three")) == (
            True,
            True,
            False,
        )
    name(paths, b"two", b"three")
    for _ in range(2):
        assert (candidates.accepts(b"one"), candidates.accepts(b"two"), candidates.accepts(b"three")) == (
            False,
            True,
            True,
        )


def test_without_a_list_any_certificate_will_do(paths: Paths) -> None:
    candidates = CandidateCertificates(paths)
    assert candidates.accepts(b"one")
    assert not candidates.accepts(None)
    name(paths, b"two")
    assert not candidates.accepts(b"one")
    Path(paths.ssconf_file("master_candidates_certs")).unlink()
    assert candidates.accepts(b"one")


def test_who_is_promised_to_be_followed_is_admitted_though_nobody_names_it(paths: Paths) -> None:
    name(paths, b"one", b"two")
    candidates = CandidateCertificates(paths)
    candidates.admit_promised("promised", certificate_digest(b"one"))
    name(paths, b"two")
    assert (candidates.accepts(b"one"), candidates.accepts(b"two"), candidates.accepts(b"three")) == (True, True, False)
    candidates.admit_promised("promised", certificate_digest(b"three"))
    assert (candidates.accepts(b"one"), candidates.accepts(b"two"), candidates.accepts(b"three")) == (False, True, True)
    candidates.admit_promised("promised", None)
    assert (candidates.accepts(b"one"), candidates.accepts(b"two"), candidates.accepts(b"three")) == (
        False,
        True,
        False,
    )


def test_a_certificate_that_was_renewed_is_not_admitted_for_a_promise(paths: Paths) -> None:
    name(paths, b"new")
    candidates = CandidateCertificates(paths)
    candidates.admit_promised("uuid", certificate_digest(b"old"))
    assert (candidates.accepts(b"old"), candidates.accepts(b"new")) == (False, True)
