# SPDX-License-Identifier: BSD-2-Clause
"""What starts daemons on a simulated machine: its init system at power-on, cron's watcher, and `daemon-util`."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.process import Process
from ganeti_simulation.system.programs import product

if TYPE_CHECKING:
    from ganeti_simulation.system.machine import Machine

WATCH_EVERY_S = 15.0
_START_S = 120.0
MASTER_DAEMONS = ("ganeti-wconfd", "ganeti-luxid")
_OPTIONS = {"ganeti-noded": ["--no-mlock"]}


class Supervision:
    """Keeps the node daemon running, and the master's daemons where ssconf says that this is the master."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._daemons: dict[str, Process] = {}
        self.quiet = False
        """Start nothing by itself."""
        self.maintains = False
        """The master runs the maintenance daemon, too."""
        machine.programs.scripts[machine.programs.daemon_util] = self._daemon_util
        machine.when_on.append(self.begin)

    def begin(self) -> None:
        """The machine has been switched on."""
        boots = self._machine.boots
        delay_s = self._machine.kernel.random.uniform(0.1, 2.0)
        self._machine.kernel.after(delay_s, lambda: self._watch(boots))

    def _watch(self, boots: int) -> None:
        """What the units at boot and cron's watcher do: start what should run and does not."""
        machine = self._machine
        if not machine.powered or machine.boots != boots:
            return
        if not self.quiet:
            self.ensure("ganeti-noded")
            if self.is_named_master():
                machine.start("watcher", lambda: self._start_master([]))
        machine.kernel.after(WATCH_EVERY_S, lambda: self._watch(boots))

    def is_named_master(self) -> bool:
        """Whether this machine's own files say that it is the master."""
        disk = self._machine.disk
        try:
            return bool(disk.content("/var/lib/ganeti/ssconf_master_node").decode().strip() == self._machine.name)
        except OSError:
            pass
        try:
            config = json.loads(disk.content("/var/lib/ganeti/config.data"))
        except (OSError, ValueError):
            return False
        master = config["nodes"].get(config["cluster"]["master_node"], {})
        return bool(master.get("name") == self._machine.name)

    def runs(self, daemon: str) -> bool:
        process = self._daemons.get(daemon)
        return process is not None and process.alive

    def process(self, daemon: str) -> Process | None:
        process = self._daemons.get(daemon)
        return process if process is not None and process.alive else None

    def serves(self, daemon: str) -> bool:
        process = self._daemons.get(daemon)
        return process is not None and process.alive and process.local.get("report", (1, ""))[0] == 0

    def ensure(self, daemon: str, arguments: list[str] | None = None) -> Process:
        """Start a daemon that does not run."""
        process = self._daemons.get(daemon)
        if process is None or not process.alive:
            module = f"ganeti.daemons.{daemon.removeprefix('ganeti-')}"
            options = ["-f", *_OPTIONS.get(daemon, []), *(arguments or [])]
            process = self._machine.start(daemon, product(module, *options))
            self._daemons[daemon] = process
        return process

    def start_and_wait(self, daemon: str, arguments: list[str]) -> tuple[int, str]:
        """As a command does, in a simulated process: (exit status, sentence) of the start."""
        kernel, thread = Running.kernel, Running.thread()
        process = self.ensure(daemon, arguments)
        tell: Callable[[], None] = lambda: kernel.wake(thread)  # noqa: E731
        process.local.setdefault("when_reported", []).append(tell)
        process.ended[tell] = None
        until_s = kernel.now_s + _START_S
        while process.alive and "report" not in process.local and kernel.now_s < until_s:
            kernel.block(until_s - kernel.now_s)
        outcome: tuple[int, str] = process.local.get("report", (process.status or 1, f"{daemon}: no report"))
        return outcome

    def _start_master(self, arguments: list[str]) -> int:
        for daemon in self.master_daemons():
            if not self.runs(daemon):
                status, _ = self.start_and_wait(daemon, arguments)
                if status:
                    return status
        return 0

    def stop_and_wait(self, daemon: str) -> None:
        process = self.process(daemon)
        if process is None:
            return
        kernel = Running.kernel
        kernel.signal(process, 15)
        until_s = kernel.now_s + 30.0
        while process.alive and kernel.now_s < until_s:
            kernel.sleep(0.05)
        if process.alive:
            kernel.end(process, -9)

    def _daemon_util(self, arguments: list[str], environ: dict[str, str]) -> int:
        command, *rest = [word for word in arguments[1:] if word != "--"] or ["help"]
        if command in ("start", "stop", "restart", "check") and rest:
            return self._one(command, rest[0], rest[1:])
        if command == "start-master":
            return self._start_master(rest)
        if command == "stop-master":
            for daemon in reversed(self.master_daemons()):
                self.stop_and_wait(daemon)
            return 0
        return 1

    def master_daemons(self) -> tuple[str, ...]:
        return (*MASTER_DAEMONS, "ganeti-maintd") if self.maintains else MASTER_DAEMONS

    def _one(self, command: str, daemon: str, arguments: list[str]) -> int:
        if command == "check":
            return 0 if self.runs(daemon) else 1
        if command in ("stop", "restart"):
            self.stop_and_wait(daemon)
        if command in ("start", "restart"):
            status, sentence = self.start_and_wait(daemon, arguments)
            if status:
                Running.process().output.append(sentence)
                _write(sentence)
            return status
        return 0


def _write(sentence: str) -> None:
    descriptors: dict[int, Any] = Running.process().descriptors
    if 2 in descriptors:
        descriptors[2].write(sentence.encode() + b"\n")
