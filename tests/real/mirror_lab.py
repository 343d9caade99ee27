# SPDX-License-Identifier: BSD-2-Clause
"""Two nodes on this machine that mirror disks: real daemons, real TLS, guests that write."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import itertools
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self

from ganeti.base.paths import Paths
from ganeti.calls.maintenance_reports import PORT as MAINTENANCE_PORT
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_requests import DiskSpec
from ganeti.node.certificates import Authority, create_authority, issue_node_certificate
from ganeti.node.storage.mirror.driver import MirroredDisks
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import PORT
from ganeti.noded.world import RealNodeWorld
from ganeti.wire.loss_report import LossReport, read_loss_report

SETTING = "/srv/disks"
MIB = 1024 * 1024
PATIENCE_S = 30.0
KEY = b"the key of the cluster"
_NUMBERS = itertools.count(1)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


class Node:
    """One node below a root of its own, at an address of its own."""

    def __init__(self, root: Path, name: str, address: str, authority: Authority) -> None:
        self.name, self.address = name, address
        self.paths = Paths(str(root / name))
        self.places = Places(self.paths)
        for directory in (self.paths.data_dir, self.paths.sysconf_dir, self.paths.log_dir, self.paths.under(SETTING)):
            os.makedirs(directory)
        pem = issue_node_certificate(authority, name, "cluster.example.com", [address])
        for path in (self.paths.server_cert, self.paths.client_cert):
            Path(path).write_text(pem)
        Path(self.paths.authority_cert).write_text(authority.certificate)
        Path(self.paths.file_storage_paths_file).write_text(f"{SETTING}\n")
        self.daemon: subprocess.Popen[bytes] | None = None
        world = RealNodeWorld(self.paths, name)
        world.log = lambda sentence: None  # type: ignore[method-assign]
        self.driver = MirroredDisks(world)

    def start(self) -> None:
        environment = {**os.environ, "GANETI_ROOTDIR": self.paths.root, "GANETI_HOSTNAME": self.name}
        program = f"{Path(sys.executable).parent}/ganeti-mirrord"
        self.daemon = subprocess.Popen([program, "-f", "-b", self.address], env=environment)
        wait_until(self.answers, f"{self.name} answers")

    def answers(self) -> bool:
        """At both doors: the file of a socket is there before anybody listens."""
        with socket.socket() as client, socket.socket(socket.AF_UNIX) as own:
            return client.connect_ex((self.address, PORT)) == 0 and own.connect_ex(self.places.control) == 0

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(number)
        if number != signal.SIGSTOP:
            self.daemon.wait(10)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.places.control)

    def storage_daemons(self) -> list[int]:
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in Path(self.places.directory).glob("*.pid"):
                with contextlib.suppress(FileNotFoundError, ValueError, IndexError):
                    found.append(int(path.read_text().split()[0]))
        return found

    def pull_the_plug(self) -> None:
        """Every process of the node ends at once, and what lies in memory is gone."""
        for process_id in self.storage_daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        self.kill()
        shutil.rmtree(self.places.directory, ignore_errors=True)

    def image(self, disk: DiskSpec) -> Path:
        return Path(self.paths.under(disk.logical_id[1]))

    def url(self, disk: DiskSpec) -> str:
        """Where a guest reaches an open disk."""
        return f"nbd+unix:///{self.export(disk)}?socket={self.places.socket(disk.uuid)}"

    def export(self, disk: DiskSpec) -> str:
        [opened] = [each for each in self.places.opened() if each.uuid == disk.uuid]
        return opened.export


class Pair:
    """Two nodes, and disks with a copy on each."""

    def __init__(self, root: Path) -> None:
        authority = create_authority("cluster.example.com")
        own = f"127.{100 + os.getpid() % 100}.{next(_NUMBERS) % 250}"
        self.one = Node(root, "node1.example.com", f"{own}.1", authority)
        self.two = Node(root, "node2.example.com", f"{own}.2", authority)
        for node in self.nodes:
            node.start()

    @property
    def nodes(self) -> tuple[Node, Node]:
        return self.one, self.two

    def disk(self, index: int = 0, size_mib: int = 16) -> DiskSpec:
        uuid = f"{os.getpid():08x}-{index:04x}"
        return DiskSpec(
            uuid=uuid,
            template="mirror",
            logical_id=["mirror", f"{SETTING}/web1/{uuid}.mirror.disk{index}"],
            size_mib=size_mib,
            index=index,
            copies={node.name: node.address for node in self.nodes},
        )

    def opened(self, disk: DiskSpec) -> DiskSpec:
        """Made on both nodes, the first one the primary, both copies equal."""
        for node in (self.two, self.one):
            run(node.driver.create(disk))
        self.use(disk, self.one, self.two)
        return disk

    def use(self, disk: DiskSpec, primary: Node, secondary: Node) -> None:
        run(secondary.driver.become_secondary(disk))
        run(primary.driver.activate(disk, "web1"))
        self.wait_equal(disk, primary)

    def wait_equal(self, disk: DiskSpec, primary: Node) -> None:
        wait_until(lambda: not status(primary, disk).is_degraded, "both copies are equal")

    def are_equal(self, disk: DiskSpec) -> bool:
        return self.one.image(disk).read_bytes() == self.two.image(disk).read_bytes()

    def close(self) -> None:
        for node in self.nodes:
            for process_id in node.storage_daemons():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGCONT)
                    os.kill(process_id, signal.SIGKILL)
            if node.daemon is not None and node.daemon.poll() is None:
                node.daemon.send_signal(signal.SIGCONT)
                node.daemon.kill()
                node.daemon.wait()


class Master:
    """Stands for the maintenance daemon on the master of *node*, and answers when it may."""

    def __init__(self, node: Node) -> None:
        own = self
        self.heard: queue.Queue[LossReport] = queue.Queue()
        self.may_answer = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                own.heard.put(read_loss_report(body, time.time(), KEY))
                own.may_answer.wait(PATIENCE_S)
                with contextlib.suppress(OSError):
                    self.send_response(202)
                    self.end_headers()

            def log_message(self, *said: object) -> None:
                return

        address = f"{node.address.rpartition('.')[0]}.9"
        self._server = http.server.ThreadingHTTPServer((address, MAINTENANCE_PORT), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        Path(node.paths.hmac_key).write_bytes(KEY)
        for name, value in (("master_node", "master.example.com"), ("master_ip", address)):
            Path(node.paths.ssconf_file(name)).write_text(f"{value}\n")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def status(node: Node, disk: DiskSpec) -> DiskStatus:
    found = run(node.driver.find(disk))
    assert found is not None
    return found


def wait_until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.05)


class Guest:
    """What a guest's QEMU does with its disk: writes, each acknowledged before the next."""

    def __init__(self, node: Node, disk: DiskSpec) -> None:
        self._size = disk.size_mib * MIB
        self._process = subprocess.Popen(
            ["qemu-io", "--cache", "none", *self._place(node, disk)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.acknowledged: dict[int, int] = {}
        """Pattern by offset, of what the guest was told is written."""

    def _place(self, node: Node, disk: DiskSpec) -> list[str]:
        return ["-f", "raw", node.url(disk)]

    def write(self, offset: int, pattern: int, length: int = 4096) -> bool:
        """True when the write was acknowledged."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"write -f -P {pattern} {offset} {length}\n".encode())
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            return False
        if b"wrote" not in line:
            return False
        self._process.stdout.readline()
        self.acknowledged[offset] = pattern
        return True

    def write_some(self, draw: random.Random, count: int) -> None:
        for _ in range(count):
            assert self.write(draw.randrange(self._size // 4096) * 4096, draw.randrange(1, 255))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class PatientGuest(Guest):
    """One that waits for its storage daemon to be started again, as those of production do."""

    def _place(self, node: Node, disk: DiskSpec) -> list[str]:
        export = node.export(disk)
        words = {"driver": "raw", "file.driver": "nbd", "file.reconnect-delay": "30", "file.export": export}
        words |= {"file.server.type": "unix", "file.server.path": node.places.socket(disk.uuid)}
        return ["--image-opts", ",".join(f"{key}={value}" for key, value in words.items())]
