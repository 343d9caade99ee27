# SPDX-License-Identifier: BSD-2-Clause
"""Certificates that cannot be used are named, with what makes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.system.tls import client_context


@pytest.mark.parametrize("content", [b"", b"no certificate", bytes(range(256))])
def test_a_damaged_certificate_says_how_it_is_made_anew(tmp_path: Path, content: bytes) -> None:
    paths = Paths(str(tmp_path))
    file = Path(paths.client_cert)
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(TransportError, match=rf"{file} is damaged \(.*\): 'gnt-node add --readd NODE' on the master"):
        client_context(paths)


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path))
    Path(paths.client_cert).mkdir(parents=True)
    with pytest.raises(TransportError, match=r"client\.pem cannot be used: Is a directory$"):
        client_context(paths)
