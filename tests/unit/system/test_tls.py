# SPDX-License-Identifier: BSD-2-Clause
"""Certificates that cannot be used are named, with what makes them anew."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.node.certificates import create_authority, issue_node_certificate
from ganeti.system.tls import ServerFiles, client_context, server_context


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
    with pytest.raises(
        TransportError, match=r"client\.pem cannot be used: It is a directory, not a file: move it away$"
    ):
        client_context(paths)


def test_a_lost_pair_is_put_back_from_its_other_file(tmp_path: Path) -> None:
    """The node daemon of the master needs no other master, and no other node, for that."""
    paths = Paths(str(tmp_path))
    authority = create_authority("cluster.example.com")
    pem = issue_node_certificate(authority, "node1.example.com", "cluster.example.com")
    Path(paths.data_dir).mkdir(parents=True)
    Path(paths.authority_cert).write_text(authority.certificate)
    for lost, load in (
        (paths.server_cert, lambda: server_context(ServerFiles.of(paths))),
        (paths.client_cert, lambda: client_context(paths)),
    ):
        for path in (paths.server_cert, paths.client_cert):
            Path(path).write_text(pem)
        for damage in (lambda file: file.unlink(), lambda file: file.write_text("no certificate")):
            damage(Path(lost))
            with pytest.raises(TransportError) as caught:
                load()
            [command] = re.findall("'(cp -p .*)'", str(caught.value))
            subprocess.run(command.split(), check=True)
            load()
        Path(lost).unlink()
        for path in (paths.server_cert, paths.client_cert):
            Path(path).write_text("no certificate")
        with pytest.raises(TransportError, match="gnt-node add --readd NODE"):
            load()
