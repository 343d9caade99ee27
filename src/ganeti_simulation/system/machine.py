# SPDX-License-Identifier: BSD-2-Clause
"""One simulated machine: its disk, clock, processes, programs and power."""

import errno
import os
import random
import signal
from collections.abc import Callable, Mapping
from typing import Any

from ganeti_simulation.disk.databases import Databases
from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.system.descriptors import FileDescription
from ganeti_simulation.system.kernel import Kernel, Running
from ganeti_simulation.system.network import Network
from ganeti_simulation.system.process import Process
from ganeti_simulation.system.programs import Programs

EPOCH_S = 1_800_000_000.0
_SYNC_LEAST_S = 0.0005
_SYNC_MOST_S = 0.012
_TICKS_PER_S = 100


class Machine:
    """Powered on from the beginning; `lose_power` and `power_on` are what may happen to it."""

    def __init__(self, kernel: Kernel, network: Network, number: int, name: str, address: str, disk: Disk) -> None:
        self.number = number
        self.kernel = kernel
        self.network = network
        self.name = name
        self.address = address
        self.disk = disk
        self.databases = Databases(before_commit=self._before_commit, after_commit=self._after_commit)
        self.processes: dict[int, Process] = {}
        self.programs = Programs()
        self.addresses: dict[str, None] = {address: None}
        """Those it answers to; the master's has the cluster's as well."""
        self.certificate = b""
        self.powered = True
        self.skew_s = 0.0
        self.booted_s = kernel.now_s
        self.boots = 1
        self.calls = 0
        self.diagnosis: dict[str, Any] = {"status": "Ok"}
        """What its diagnose command says."""
        self.forged_key = b""
        """Signs that in place of the cluster's key, unless it is empty."""
        self.doom: int | None = None
        """At which of its system calls it loses power."""
        self.when_on: list[Callable[[], None]] = []
        self.when_off: list[Callable[[], None]] = []
        network.add(self)

    @property
    def wall_s(self) -> float:
        return EPOCH_S + self.kernel.now_s + self.skew_s

    @property
    def boot_id(self) -> str:
        return f"00000000-0000-4000-8000-{self.boots:06d}{self.number:06d}"

    # Power

    def lose_power(self) -> None:
        """All at once: every process ends, and of what was not synced something or nothing is on the disk."""
        if not self.powered:
            return
        self.kernel.tell(self.name, "loses its power")
        self.powered = False
        for act in self.when_off:
            act()
        current = self.kernel.current
        ours = current.process if current is not None and current.process.machine is self else None
        for process in list(self.processes.values()):
            if process is not ours:
                self.kernel.end(process, -signal.SIGKILL)
        chance = random.Random(self.kernel.random.getrandbits(64))  # noqa: S311 - drawn from the seed
        self.disk.power_loss(chance)
        self.addresses = {self.address: None}
        if ours is not None:
            self.kernel.end(ours, -signal.SIGKILL)

    def power_on(self) -> None:
        if self.powered:
            return
        self.kernel.tell(self.name, "has power again")
        self.powered = True
        self.boots += 1
        self.booted_s = self.kernel.now_s
        for act in self.when_on:
            act()

    # What processes meet

    def wait_for_disk(self) -> None:
        if self.kernel.current is not None:
            self.kernel.sleep(self.kernel.random.uniform(_SYNC_LEAST_S, _SYNC_MOST_S))

    def _before_commit(self, disk: Disk, path: str) -> None:
        if self.kernel.current is not None:
            self.kernel.system_call()
            self.wait_for_disk()
            self.kernel.system_call()

    def _after_commit(self, disk: Disk, path: str) -> None:
        if self.kernel.current is not None:
            self.kernel.system_call()

    def generated(self, path: str, process: Process) -> bytes | None:
        """Content of what is in `/proc`; None for any other path, or what is not there."""
        if not path.startswith("/proc/"):
            return None
        if path == "/proc/sys/kernel/random/boot_id":
            return f"{self.boot_id}\n".encode()
        parts = path.split("/")
        if len(parts) == 5 and parts[3] == "fdinfo":
            opened = self.open_file_of(parts[2], parts[4])
            locked = opened is not None and opened.file.inode.locks.get(opened.file)
            return b"pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 1 00:01:1 0 EOF\n" if locked else b"pos:\t0\n"
        if len(parts) == 4 and parts[3] in ("stat", "cmdline", "status"):
            number = process.pid if parts[2] == "self" else int(parts[2]) if parts[2].isdigit() else 0
            found = self.processes.get(number)
            if found is None:
                return None
            if parts[3] == "cmdline":
                return "\0".join(found.local.get("argv", [found.name])).encode()
            ticks = int(found.started_s * _TICKS_PER_S)
            state = "T" if found.stopped else "S"
            fields = [state, "1", str(found.group), str(found.group), *["0"] * 15, str(ticks), *["0"] * 30]
            return f"{found.pid} ({found.name}) {' '.join(fields)}\n".encode()
        return _FIXED.get(path)

    def open_file_of(self, pid: str, number: str) -> FileDescription | None:
        """What `/proc/PID/fd/NUMBER` points to, where that is a file. Raises `FileNotFoundError`."""
        process = self.processes.get(int(pid)) if pid.isdigit() else None
        description = process.descriptors.get(int(number)) if process is not None and number.isdigit() else None
        if description is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/{pid}/fd/{number}")
        return description if isinstance(description, FileDescription) else None

    def start(
        self, name: str, program: Callable[[], int | None], *, environ: Mapping[str, str] = {}, parent: int = 1
    ) -> Process:
        return self.kernel.start_process(self, name, program, environ=environ, parent=parent)


def machine_of(process: Process) -> Machine:
    """All of the machine that *process* runs on."""
    machine = process.machine
    assert isinstance(machine, Machine)
    return machine


def here() -> Machine:
    """The machine that the current process runs on."""
    return machine_of(Running.process())


_FIXED: dict[str, bytes] = {
    "/proc/meminfo": b"MemTotal: 16777216 kB\nMemFree: 12582912 kB\nMemAvailable: 12582912 kB\nBuffers: 0 kB\n"
    b"Cached: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "/proc/cpuinfo": b"".join(b"processor\t: %d\n\n" % number for number in range(8)),
    "/proc/uptime": b"1000.00 1000.00\n",
    "/proc/locks": b"",
    "/proc/mounts": b"",
    "/proc/self/mounts": b"",
}
