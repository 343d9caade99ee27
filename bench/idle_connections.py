# SPDX-License-Identifier: BSD-2-Clause
"""What connections cost that want nothing, or never finish: on NodeD's port, LuxiD's sockets and WConfD's.

Of each kind `--connections` (2,000) are opened at one real daemon. While they stand, commands and node calls are timed;
memory is what is the daemon's own (`RssAnon`), at its highest and when all are gone. The spawner has no address anybody
could connect to. `--part` measures one part alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import BIN, report
from tests.fakes.master_daemons import Master, running_master
from tests.system.test_noded import CLUSTER, Noded

from ganeti.node.certificates import digest, issue_node_certificate
from ganeti.wire.framing_sync import connect

GROWTH_MIB, LEFT_MIB, ANSWER_S = 20.0, 5.0, 0.2
TIMES = 10
GONE_WITHIN_S = 60.0
BACK_WITHIN_S = 5.0
LOOK_EVERY_S = 0.02
DRIPS = 3
STRANGER = "node9.example.com"
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The first bytes of a TLS client's hello, which says that more than 500 come."""
HEAD = b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: "
BODY = b'{"epoch":1,"job":0,"attempt":0,"step":0,"arguments":{}}'
ASK_LUXI = b'{"method":"QueryConfigValues","args":[["cluster_name"]],"version":40000}\x03'
ASK_WCONFD = b'{"method":"echo","args":["x"]}\x03'

Open = Callable[[], socket.socket]
"""Opens one connection and does with it what its kind is about."""


class Memory:
    """The highest that a process had while the block lasted."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.before_mib = self.highest_mib = self.now_mib()

    def now_mib(self) -> float:
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        over = threading.Event()

        def look() -> None:
            while not over.wait(LOOK_EVERY_S):
                self.highest_mib = max(self.highest_mib, self.now_mib())

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def open_all(count: int, open_one: Open) -> list[socket.socket]:
    clients = []
    for _ in range(count):
        with contextlib.suppress(OSError):  # who is one too many is let go, and may learn of it here
            clients.append(open_one())
    return clients


def drip(clients: list[socket.socket]) -> None:
    """A byte more from each of them, so that none is quite silent."""
    for client in clients:
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.send(b"1")


def measure(kind: str, pid: int, count: int, open_one: Open, ask: Callable[[], float]) -> bool:
    """Open them, time what others ask meanwhile, let go, and report; gives whether the bars are met."""
    memory, before = Memory(pid), descriptors(pid)
    with memory.watched():
        clients = open_all(count, open_one)
        for _ in range(DRIPS):
            drip(clients)
        answers_s = [ask() for _ in range(TIMES)]
    for client in clients:
        client.close()
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while descriptors(pid) > before + 4 and time.monotonic() < deadline_s:
        time.sleep(LOOK_EVERY_S)
    deadline_s = time.monotonic() + BACK_WITHIN_S
    while memory.now_mib() - memory.before_mib >= LEFT_MIB and time.monotonic() < deadline_s:
        time.sleep(LOOK_EVERY_S)
    grown_mib = memory.highest_mib - memory.before_mib
    left_mib = memory.now_mib() - memory.before_mib
    median_s = statistics.median(answers_s)
    met = grown_mib < GROWTH_MIB, left_mib < LEFT_MIB, median_s < ANSWER_S
    report(f"{count} {kind}: memory at its highest", grown_mib, "MiB", bar=f"{GROWTH_MIB:g} MiB", met=met[0])
    report(f"{count} {kind}: memory afterwards", left_mib, "MiB", bar=f"{LEFT_MIB:g} MiB", met=met[1])
    report(f"{count} {kind}: an answer to others", median_s, "s", bar=f"{ANSWER_S:g} s", met=met[2])
    report(f"{count} {kind}: the slowest of {TIMES}", max(answers_s), "s")
    return all(met)


def timed(work: Callable[[], object]) -> float:
    begun_s = time.monotonic()
    work()
    return time.monotonic() - begun_s


def measure_noded(count: int) -> Iterator[bool]:
    with TemporaryDirectory() as root:
        noded = Noded(Path(root))
        Path(noded.paths.ssconf_file("master_candidates_certs")).write_text(f"uuid-1={digest(noded.pem)}\n")
        stranger = Path(root, "stranger.pem")
        stranger.write_text(issue_node_certificate(noded.authority, STRANGER, CLUSTER))
        noded.start()
        assert noded.process is not None and noded.process.stderr is not None
        log = noded.process.stderr
        threading.Thread(target=lambda: log.read(), daemon=True).start()  # it would block once the pipe is full
        try:
            noded.call("version")
            for kind, open_one in noded_kinds(noded, stranger).items():
                ask = lambda: timed(lambda: noded.call("version", job=0))  # noqa: E731
                yield measure(f"at NodeD, {kind}", noded.process.pid, count, open_one, ask)
        finally:
            noded.end(signal.SIGKILL)


def noded_kinds(noded: Noded, stranger: Path) -> dict[str, Open]:
    def plain(sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", noded.port), 5.0)
        client.sendall(sent)
        return client

    def over_tls(certificate: str | Path | None, sent: bytes, answered: bool = False) -> socket.socket:
        context = contexts[certificate]
        client = context.wrap_socket(plain(), server_hostname="localhost")
        client.sendall(sent)
        if answered:
            client.recv(4096)
        return client

    own = noded.paths.client_cert
    contexts = {certificate: client_context(certificate) for certificate in (own, stranger, None)}
    asked = HEAD + str(len(BODY)).encode() + b"\r\n\r\n" + BODY
    return {
        "silent": plain,
        "in the midst of a hello": lambda: plain(HELLO),
        "without certificate": lambda: over_tls(None, b""),
        "of a node that is no candidate, silent": lambda: over_tls(stranger, b""),
        "of a node that is no candidate, half a request": lambda: over_tls(stranger, HEAD + b"10"),
        "of a node that is no candidate, half a body": lambda: over_tls(stranger, HEAD + b"1000000\r\n\r\n1"),
        "of a candidate, silent": lambda: over_tls(own, b""),
        "of a candidate, half a request": lambda: over_tls(own, HEAD + b"10"),
        "of a candidate, half a body": lambda: over_tls(own, HEAD + b"1000000\r\n\r\n1"),
        "of a candidate, answered": lambda: over_tls(own, asked, answered=True),
    }


def client_context(certificate: str | Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def measure_sockets(count: int) -> Iterator[bool]:
    with TemporaryDirectory() as directory, running_master(Path(directory) / "root") as master:
        master.luxi("QueryConfigValues", ["cluster_name"])
        for name, daemon, path, question in (
            ("LuxiD", "luxid", master.paths.luxi_socket, ASK_LUXI),
            ("LuxiD's second socket", "luxid", master.paths.master_socket, ASK_LUXI),
            ("WConfD", "wconfd", master.paths.wconfd_socket, ASK_WCONFD),
        ):
            for kind, open_one in socket_kinds(path, question).items():
                pid = master.daemons[daemon].pid
                yield measure(f"at {name}, {kind}", pid, count, open_one, lambda: asked_s(master))


def socket_kinds(path: str, question: bytes) -> dict[str, Open]:
    def opened(sent: bytes = b"", answered: bool = False) -> socket.socket:
        client = connect(path, 10.0)
        own = socket.socket(fileno=os.dup(client._socket.fileno()))
        own.settimeout(10.0)
        client.close()
        own.sendall(sent)
        if answered:
            own.recv(4096)
        return own

    return {
        "silent": opened,
        "half a request": lambda: opened(question[:20]),
        "answered": lambda: opened(question, answered=True),
    }


def asked_s(master: Master) -> float:
    return timed(
        lambda: subprocess.run([BIN / "gnt-job", "list"], env=master.environment, capture_output=True, check=True)
    )


PARTS = {"noded": measure_noded, "sockets": measure_sockets}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    met = [verdict for part in options.part or PARTS for verdict in PARTS[part](options.connections)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
