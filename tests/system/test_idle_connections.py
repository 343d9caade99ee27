# SPDX-License-Identifier: BSD-2-Clause
"""Connections that want nothing, or never finish, cost the real daemons little, and keep nobody from being served.

`bench/idle_connections.py` does the same with 2,000 of each kind.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.master_daemons import running_master
from tests.system.test_noded import CLUSTER, Noded, wait_for

from ganeti.model.objects import CONFIG_VERSION
from ganeti.node.certificates import digest, issue_node_certificate
from ganeti.system.connection_gate import SILENT_MAX, STRANGERS_MAX, WAITING_MAX
from ganeti.wire.framing_sync import connect

pytestmark = pytest.mark.daemons
COUNT = 300
GROWTH_MIB = 15.0
ANSWER_S = 2.0
OWN_DESCRIPTORS = 60
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
HALF_A_REQUEST = b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 10"


@pytest.fixture
def noded(tmp_path: Path) -> Iterator[Noded]:
    node = Noded(tmp_path)
    Path(node.paths.ssconf_file("master_candidates_certs")).write_text(f"uuid-1={digest(node.pem)}\n")
    node.start()
    assert node.process is not None and node.process.stderr is not None
    log = node.process.stderr
    reader = threading.Thread(target=log.read)  # the daemon would wait for it once the pipe is full
    reader.start()
    try:
        node.call("version")
        yield node
    finally:
        node.process.send_signal(signal.SIGKILL)
        reader.join()
        node.end(signal.SIGKILL)


def memory_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.parametrize(
    ("kind", "certificate", "sent", "room"),
    [
        ("silent", None, None, SILENT_MAX),
        ("in the midst of a hello", None, HELLO, STRANGERS_MAX),
        ("of a node that is no candidate", "stranger.pem", HALF_A_REQUEST, STRANGERS_MAX),
        ("of a candidate", "own", HALF_A_REQUEST, WAITING_MAX),
    ],
)
def test_node_daemon(noded: Noded, tmp_path: Path, kind: str, certificate: str, sent: bytes, room: int) -> None:
    assert noded.process is not None
    pid = noded.process.pid
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(issue_node_certificate(noded.authority, "node9.example.com", CLUSTER))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(noded.paths.client_cert if certificate == "own" else stranger)
    before_mib = memory_mib(pid)
    with contextlib.ExitStack() as clients:
        for _ in range(COUNT):
            with contextlib.suppress(OSError):  # one that was let go to make room for another
                client = clients.enter_context(socket.create_connection(("127.0.0.1", noded.port), 5.0))
                if certificate is not None:
                    client = clients.enter_context(context.wrap_socket(client))
                client.sendall(sent or b"")
        begun_s = time.monotonic()
        assert noded.call("version", job=0) == CONFIG_VERSION
        assert time.monotonic() - begun_s < ANSWER_S
        assert memory_mib(pid) - before_mib < GROWTH_MIB
        assert descriptors(pid) <= room + OWN_DESCRIPTORS
        if certificate != "own":
            wait_for(lambda: descriptors(pid) < OWN_DESCRIPTORS)
    wait_for(lambda: descriptors(pid) < OWN_DESCRIPTORS)


@pytest.mark.parametrize("sent", [b"", b'{"method": "Query'])
def test_master_daemons(tmp_path: Path, sent: bytes) -> None:
    with running_master(tmp_path / "root") as master, contextlib.ExitStack() as clients:
        pids = [master.daemons[name].pid for name in ("luxid", "wconfd")]
        assert master.luxi("QueryConfigValues", ["cluster_name"])
        before_mib = [memory_mib(pid) for pid in pids]
        for path in (master.paths.luxi_socket, master.paths.master_socket, master.paths.wconfd_socket):
            for _ in range(COUNT):
                client = clients.enter_context(connect(path))
                client._socket.sendall(sent)
        begun_s = time.monotonic()
        assert master.luxi("QueryConfigValues", ["cluster_name"])
        assert time.monotonic() - begun_s < ANSWER_S
        for pid, before in zip(pids, before_mib, strict=True):
            assert memory_mib(pid) - before < GROWTH_MIB
