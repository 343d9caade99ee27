# SPDX-License-Identifier: BSD-2-Clause
"""A master daemon that answers what a test wants, and keeps what it was asked: LUXI on a Unix socket, no cluster."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

END = b"\x03"
SPEC = {"memory-size": 128, "cpu-count": 1, "disk-size": 1024, "disk-count": 1, "nic-count": 1, "spindle-use": 1}
LARGEST = {**SPEC, "memory-size": 32768, "cpu-count": 8, "disk-size": 1048576, "disk-count": 16, "nic-count": 8}
POLICY = {
    "std": SPEC,
    "minmax": [{"min": SPEC, "max": {**LARGEST, "spindle-use": 12}}],
    "disk-templates": ["drbd", "plain"],
    "vcpu-ratio": 4.0,
    "spindle-ratio": 32.0,
}
GROUP = {"name": "default", "uuid": "u1", "alloc_policy": "preferred", "ipolicy": POLICY, "tags": []}
INFO = {"name": "c.x", "master": "n1.x", "tags": [], "ipolicy": POLICY, "default_hypervisor": "fake"}


def node(name: str, **changes: Any) -> dict[str, Any]:
    """A node as queries tell of it."""
    plain = {
        "name": name,
        "group.uuid": "u1",
        "offline": False,
        "drained": False,
        "vm_capable": True,
        "tags": [],
        "ndp/spindle_count": 1,
        "ndp/exclusive_storage": False,
        "ndp/cpu_speed": 1.0,
        "sptotal": 0,
        "spfree": 0,
        "mtotal": 16384,
        "mnode": 1024,
        "mfree": 14000,
        "dtotal": 409600,
        "dfree": 300000,
        "ctotal": 8,
        "cnos": 1,
    }
    return plain | changes


def instance(name: str, primary: str, secondary: str = "", **changes: Any) -> dict[str, Any]:
    """An instance as queries tell of it: mirrored if it has a secondary."""
    plain = {
        "name": name,
        "disk_usage": 10240,
        "disk.sizes": [10112],
        "disk.spindles": [None],
        "forthcoming": False,
        "be/memory": 512,
        "be/vcpus": 1,
        "be/auto_balance": True,
        "be/spindle_use": 1,
        "status": "running",
        "pnode": primary,
        "snodes": [secondary] if secondary else [],
        "tags": [],
        "disk_template": "drbd" if secondary else "plain",
    }
    return plain | changes


class FakeMaster:
    """What the daemon knows, and what it was asked: (method, arguments) in order.

    Jobs are numbered from 101; `statuses` says how each is found at each look, the last one for ever (success if it
    says nothing). `answers` overrules the answer to a method.
    """

    def __init__(self, path: Path, nodes: list[dict[str, Any]], instances: list[dict[str, Any]]) -> None:
        self.path = path
        self.nodes, self.instances, self.groups, self.info = nodes, instances, [GROUP], dict(INFO)
        self.asked: list[tuple[str, list[Any]]] = []
        self.statuses: dict[int, list[str | None]] = {}
        self.results: dict[int, list[Any]] = {}
        self.answers: dict[str, Callable[[list[Any]], tuple[bool, Any]]] = {}
        self.tags: dict[tuple[str, str], list[str]] = {}
        self.next_job = 101

    def arguments_of(self, method: str) -> list[list[Any]]:
        """The arguments of every call of *method*, in order."""
        return [arguments for called, arguments in self.asked if called == method]

    @property
    def submitted(self) -> list[list[list[dict[str, Any]]]]:
        """The sets of jobs that were submitted."""
        return [jobs for (jobs,) in self.arguments_of("SubmitManyJobs")]

    def answer(self, method: str, arguments: list[Any]) -> tuple[bool, Any]:
        if method in self.answers:
            return self.answers[method](arguments)
        return True, getattr(self, f"_{method}")(*arguments)

    def _QueryClusterInfo(self) -> Any:
        return self.info

    def _Query(self, what: str, fields: list[str], _filter: Any) -> Any:
        items = {"node": self.nodes, "instance": self.instances, "group": self.groups}[what]
        return {"fields": [], "data": [[[0, item.get(field)] for field in fields] for item in items]}

    def _SubmitManyJobs(self, jobs: list[Any]) -> Any:
        first, self.next_job = self.next_job, self.next_job + len(jobs)
        return [[True, number] for number in range(first, self.next_job)]

    def _QueryJobs(self, numbers: list[int], fields: list[str]) -> Any:
        return [[self._job_value(number, field) for field in fields] for number in numbers]

    def _job_value(self, number: int, field: str) -> Any:
        if field == "opresult":
            return self.results.get(number, [])
        if field == "id":
            return number
        looks = self.statuses.get(number, ["success"])
        return looks.pop(0) if len(looks) > 1 else looks[0]

    def _QueryTags(self, kind: str, name: str) -> Any:
        return self.tags.get((kind, name), [])

    def converse(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
                while END in received:
                    document, _, received = received.partition(END)
                    call = json.loads(document)
                    self.asked.append((call["method"], call["args"]))
                    success, result = self.answer(call["method"], call["args"])
                    connection.sendall(json.dumps({"success": success, "result": result}).encode() + END)


@contextmanager
def fake_master(
    path: Path, nodes: list[dict[str, Any]] | None = None, instances: list[dict[str, Any]] | None = None
) -> Iterator[FakeMaster]:
    """Serve until the block ends."""
    master = FakeMaster(path, nodes or [], instances or [])
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=master.converse, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield master
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)
