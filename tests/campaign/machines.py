# SPDX-License-Identifier: BSD-2-Clause
"""A testbed whose master changes: who it is, how it is reached from outside, plugs, and what lies on each node."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ganeti.base.errors import TransportError
from ganeti.tools.testbed import bed, cluster, machine, processes
from ganeti.tools.testbed.layout import Layout
from ganeti.wire.framing_sync import SyncConnection, connect
from ganeti.wire.luxi import VERSION

WITHIN_S = 60.0
NO_CRON_S = 86400
MASTER_DAEMONS = ("ganeti-luxid", "ganeti-wconfd")
_LOOK_EVERY_S = 0.01


@contextlib.contextmanager
def machines(directory: Path, nodes: int = 3) -> Iterator[Machines]:
    """A new cluster of fake nodes, all candidates in sync; nothing of it is left afterwards."""
    layout = bed.up(directory, nodes, "fake", watcher_interval_s=NO_CRON_S)
    try:
        cluster.create(layout)
        made = Machines(layout)
        made.settle()
        yield made
    finally:
        bed.down(layout)


class Machines:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.names = [node.name for node in layout.nodes]
        self.master: str | None = self.names[0]
        """Who is the master; None while nobody can know."""

    # From outside

    def root(self, node: str) -> Path:
        """The files of a node that is on, as its own processes see them; raises `TransportError` when it is off."""
        pid = processes.recall(self.layout.node(node).pid_file)
        if pid is None:
            raise TransportError(f"{node} is off")
        return Path(f"/proc/{pid}/root")

    def data(self, node: str) -> Path:
        """What of a node survives a loss of power."""
        return self.layout.node(node).upper / "var/lib/ganeti"

    def is_on(self, node: str) -> bool:
        return processes.recall(self.layout.node(node).pid_file) is not None

    def powered(self) -> list[str]:
        return [node for node in self.names if self.is_on(node)]

    def connection(self, socket: str, node: str | None = None, timeout_s: float = 30.0) -> SyncConnection:
        node = node or self.master
        if node is None:
            raise TransportError("there is no master at the moment")
        return connect(str(self.root(node) / "run/ganeti/socket" / socket), timeout_s)

    def luxi(self, method: str, *arguments: Any, node: str | None = None, timeout_s: float = 30.0) -> tuple[bool, Any]:
        """One call to LuxiD, of the master or of *node*: whether it went well, and the result or the error."""
        with self.connection("ganeti-query", node, timeout_s) as connection:
            connection.send({"method": method, "args": list(arguments), "version": VERSION})
            answer = connection.receive()
        return answer["success"], answer["result"]

    def wconfd(self, method: str, *arguments: Any) -> Any:
        with self.connection("ganeti-wconfd") as connection:
            connection.send({"method": method, "args": list(arguments)})
            answer = connection.receive()
        assert answer["success"], answer["result"]
        return answer["result"]

    def guests(self) -> dict[str, list[str]]:
        """Running guests, and the nodes they run on; one that is being moved runs where it was until it is paused."""
        found: dict[str, list[str]] = {}
        for node in self.names:
            with contextlib.suppress(OSError, TransportError):
                for path in (self.root(node) / "run/ganeti/fake-hypervisor").iterdir():
                    with contextlib.suppress(OSError, ValueError):
                        guest = json.loads(path.read_bytes())
                        if guest["state"] == "running":
                            found.setdefault(guest["name"], []).append(node)
        return found

    def daemons(self, node: str) -> list[str]:
        """Which of the master's daemons run on a node."""
        reference = Path(f"/proc/{processes.recall(self.layout.node(node).pid_file)}/ns/pid")
        found = []
        for pid in processes.in_namespace("pid", reference):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found += [name for name in MASTER_DAEMONS if any(word.endswith(name.encode()) for word in words)]
        return found

    # Commands and plugs

    def run(self, node: str, *words: str, expect: int | None = 0) -> str:
        """Run a command on a node; gives both streams. *expect* is the exit status that must come."""
        done = machine.run(self.layout, node, *words, timeout_s=2 * WITHIN_S)
        said = done.stdout + done.stderr
        assert expect is None or done.returncode == expect, f"{' '.join(words)} ended with {done.returncode}: {said}"
        return said

    def pull_plug(self, node: str) -> None:
        if node == self.master:
            self.master = None
        machine.kill(self.layout, self.layout.node(node))

    def switch_on(self, node: str) -> None:
        """Power on, and what the boot of a machine starts: all daemons, of which the master's refuse elsewhere."""
        machine.start(self.layout, self.layout.node(node))
        self.run(node, "daemon-util", "start-all", expect=None)

    def become_master(self, node: str) -> str:
        """Fail over to *node*; gives what the command said."""
        self.master = None
        said = self.run(node, "gnt-cluster", "master-failover")
        self.master = node
        return said

    # Waiting

    def wait(self, condition: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> None:
        end_s = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < end_s, f"this did not come about within {within_s:g} s: {what}"
            time.sleep(_LOOK_EVERY_S)

    def states(self) -> dict[str, str]:
        """State of each candidate's copy, by node name, as the master's WConfD has it."""
        ok, answer = self.luxi("Query", "node", ["name", "sync_state"], None)
        assert ok, answer
        return {name: state for (_, name), (_, state) in answer["data"]}

    def settle(self) -> None:
        """Wait until every node's copy has everything."""

        def settled() -> bool:
            with contextlib.suppress(TransportError):
                return all(state in ("master", "in-sync") for state in self.states().values())
            return False

        self.wait(settled, "all candidates are in sync")
