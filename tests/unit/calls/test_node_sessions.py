# SPDX-License-Identifier: BSD-2-Clause
"""What the spawner does before jobs call nodes: it leaves nothing open, and certificates are renewed all the same."""

import os
import threading
from pathlib import Path

import pytest

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.calls import node_sessions
from ganeti.node.certificates import create_authority, issue_node_certificate
from ganeti.system import call_delay
from ganeti.system.tls import client_context

CLUSTER = "cluster.example.com"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(str(tmp_path))
    os.makedirs(paths.data_dir)
    return paths


def write_certificates(paths: Paths) -> None:
    authority = create_authority(CLUSTER)
    pem = issue_node_certificate(authority, "node1.example.com", CLUSTER, ["127.0.0.1"])
    for path, text in ((paths.client_cert, pem), (paths.authority_cert, authority.certificate)):
        Path(f"{path}.new").write_text(text)
        os.rename(f"{path}.new", path)


@pytest.mark.parametrize("with_certificates", [True, False])
def test_preparing_leaves_nothing_open(
    paths: Paths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    with_certificates: bool,
) -> None:
    if with_certificates:
        write_certificates(paths)
    monkeypatch.setenv(call_delay.DELAY, "600000")
    before = os.listdir("/proc/self/fd"), threading.active_count(), sorted(os.listdir(tmp_path))
    node_sessions.prepare(paths, "node1.example.com")
    assert (os.listdir("/proc/self/fd"), threading.active_count(), sorted(os.listdir(tmp_path))) == before
    assert not caplog.records


def test_a_rehearsal_that_cannot_be_had_keeps_nobody_from_starting(
    paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    """Here, as the certificate is another node's."""
    write_certificates(paths)
    before = os.listdir("/proc/self/fd")
    node_sessions.prepare(paths, "node2.example.com")
    assert os.listdir("/proc/self/fd") == before
    assert "the rehearsal of such a call failed" in caplog.text


def test_a_context_is_made_again_when_its_files_are_renewed(paths: Paths) -> None:
    with pytest.raises(TransportError, match="is missing"):
        client_context(paths)
    write_certificates(paths)
    first = client_context(paths)
    assert client_context(paths) is first
    write_certificates(paths)
    assert client_context(paths) is not first
    os.unlink(paths.authority_cert)
    with pytest.raises(TransportError, match="is missing"):
        client_context(paths)
