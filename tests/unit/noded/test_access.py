# SPDX-License-Identifier: BSD-2-Clause
"""Whose calls a node takes: what is remembered of a certificate ends with the file that names it."""

from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.noded import access
from ganeti.noded.access import SPARED_FOR_S, CandidateCertificates
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


def listed(paths: Paths, **certificates: bytes) -> None:
    file = Path(paths.ssconf_file("master_candidates_certs"))
    fresh = file.with_suffix(".new")
    fresh.write_text("".join(f"{node}={certificate_digest(each)}\n" for node, each in certificates.items()))
    fresh.rename(file)


@pytest.fixture
def slept(paths: Paths) -> CandidateCertificates:
    """One that has been sent, by the former certificate, a list with the present one alone."""
    Path(paths.run_dir).mkdir(parents=True)
    Path(paths.authority_cert).write_text("former")
    listed(paths, a=b"former of a", b=b"former of b")
    candidates = CandidateCertificates(paths)
    assert candidates.accepts(b"former of b")
    assert candidates.accepts(b"former of a")
    listed(paths, a=b"present of a", b=b"present of b")
    assert candidates.accepts(b"former of a")
    return candidates


def resumed(paths: Paths) -> CandidateCertificates:
    """That of the next daemon."""
    candidates = CandidateCertificates(paths)
    candidates.resume()
    return candidates


def test_after_a_renewal_it_slept_through_a_node_takes_the_former_certificate_until_it_is_renewed(
    paths: Paths, slept: CandidateCertificates
) -> None:
    assert not slept.accepts(b"former of b"), "not the last caller"
    assert not slept.accepts(b"a stranger's")
    assert slept.accepts(b"present of b"), "another candidate's call ends nothing"
    again = resumed(paths)
    assert slept.accepts(b"former of a") and again.accepts(b"former of a")
    assert not again.accepts(b"former of b")
    Path(paths.authority_cert).write_text("present and former")
    for candidates in (slept, again, resumed(paths)):
        assert not candidates.accepts(b"former of a")
        assert candidates.accepts(b"present of a")
    Path(paths.authority_cert).write_text("former")
    for candidates in (slept, again, resumed(paths)):
        assert not candidates.accepts(b"former of a"), "it is over, whatever comes"
    assert not Path(paths.spared_file).exists()


def test_a_former_certificate_ends_with_the_first_call_by_the_present_one(
    paths: Paths, slept: CandidateCertificates
) -> None:
    assert slept.accepts(b"present of a")
    for candidates in (slept, resumed(paths)):
        assert not candidates.accepts(b"former of a")


def test_a_former_certificate_ends_with_its_day_though_it_is_shown_all_the_time(
    paths: Paths, slept: CandidateCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_s = access._running_s()
    for passed_s, is_taken in ((SPARED_FOR_S - 60, True), (SPARED_FOR_S + 60, False), (0.0, False)):
        monkeypatch.setattr(access, "_running_s", lambda now_s=began_s + passed_s: now_s)
        listed(paths, a=b"present of a %d" % passed_s, b=b"present of b")
        for candidates in (slept, resumed(paths)):
            assert candidates.accepts(b"former of a") is is_taken
    assert not Path(paths.spared_file).exists()


@pytest.mark.parametrize("left", [{"b": b"present of b"}, {}])
def test_the_former_certificate_of_a_candidate_that_is_named_no_more_is_withdrawn(
    paths: Paths, slept: CandidateCertificates, left: dict[str, bytes]
) -> None:
    listed(paths, **left)
    for candidates in (slept, resumed(paths)):
        assert not candidates.accepts(b"former of a")
    listed(paths, a=b"present of a")
    for candidates in (slept, resumed(paths)):
        assert not candidates.accepts(b"former of a")


def test_another_candidate_that_slept_too_ends_nothing(paths: Paths, slept: CandidateCertificates) -> None:
    assert slept.accepts(b"present of b")
    listed(paths, a=b"present of a", b=b"third of b")
    assert slept.accepts(b"former of a")
    assert not slept.accepts(b"present of b")


def test_what_was_spared_before_this_machine_started_is_not(
    paths: Paths, slept: CandidateCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "boot_identity", lambda: "another")
    assert not resumed(paths).accepts(b"former of a")


@pytest.mark.parametrize("torn", ["", "{}", "[]", '{"boot": 1}', "\xff"])
def test_a_torn_file_spares_nothing(paths: Paths, slept: CandidateCertificates, torn: str) -> None:
    Path(paths.spared_file).write_text(torn)
    assert not resumed(paths).accepts(b"former of a")


def test_the_former_certificate_of_a_machine_that_is_added_again_is_withdrawn(paths: Paths) -> None:
    Path(paths.run_dir).mkdir(parents=True)
    candidates = CandidateCertificates(paths)
    listed(paths, a=b"master", b=b"former of b")
    assert candidates.accepts(b"former of b") and candidates.accepts(b"master")
    listed(paths, a=b"master", b=b"present of b")
    for each in (candidates, resumed(paths)):
        assert not each.accepts(b"former of b")
        assert each.accepts(b"master") and each.accepts(b"present of b")


def test_a_node_that_was_awake_withdraws_the_former_certificate_at_once(paths: Paths) -> None:
    Path(paths.run_dir).mkdir(parents=True)
    candidates = CandidateCertificates(paths)
    for certificates in ({"a": b"old"}, {"a": b"old", "a-renewed": b"new"}, {"a": b"new"}):
        listed(paths, **certificates)
        candidates.accepts(b"old")
    for each in (candidates, resumed(paths)):
        assert not each.accepts(b"old")
        assert each.accepts(b"new")
    assert not Path(paths.spared_file).exists()
