# SPDX-License-Identifier: BSD-2-Clause
"""A simulated process and its threads, and how they see the machine that they run on and the kernel that runs them."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ganeti_simulation.system.descriptors import Description

Program = Callable[[], int | None]
Handler = Callable[[int, Any], Any]


class ProcessDeath(BaseException):
    """Raised by system calls of a process that has ended; never seen while the simulation runs."""


class Exit(BaseException):
    """`os._exit` and `sys.exit` of a simulated process."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Host(Protocol):
    """A machine as processes know it; `machine.machine_of` gives all of it."""

    name: str
    address: str
    addresses: dict[str, None]
    processes: "dict[int, Process]"
    powered: bool
    booted_s: float
    calls: int
    doom: int | None

    @property
    def wall_s(self) -> float: ...

    @property
    def boot_id(self) -> str: ...

    def lose_power(self) -> None: ...

    def power_on(self) -> None: ...


class Scheduler(Protocol):
    """The kernel as processes and signals know it."""

    now_s: float
    current: "Thread | None"

    def resume(self, thread: "Thread") -> None: ...

    def ready(self, thread: "Thread") -> None: ...

    def end(self, process: "Process", status: int) -> None: ...


Event = list[Any]
"""Something to be done: its time, its number among all, and what it is; `None`, where it is to be done no more."""


class Thread:
    """One greenlet of a process."""

    __slots__ = ("greenlet", "in_signal", "loop", "name", "process", "resume", "timer", "woken")

    def __init__(self, process: "Process", name: str) -> None:
        self.process = process
        self.name = name
        self.greenlet: Any = None
        self.woken: Event | None = None
        self.timer: Event | None = None
        self.in_signal = False
        self.loop: Any = None
        """The event loop that runs in it."""
        self.resume: Callable[[], None] = functools.partial(process.kernel.resume, self)


class Process:
    """One simulated process; `alive` until its program returns or it is killed."""

    def __init__(
        self, kernel: Scheduler, machine: Host, pid: int, name: str, environ: Mapping[str, str], parent: int
    ) -> None:
        self.kernel = kernel
        self.machine = machine
        self.pid = pid
        self.name = name
        self.parent = parent
        self.environ = dict(environ)
        self.descriptors: dict[int, Description] = {}
        self.threads: list[Thread] = []
        self.alive = True
        self.status: int | None = None
        """Exit status; negative for a signal, as in `subprocess`."""
        self.reaped = False
        self.stopped = False
        self.handlers: dict[int, Handler | int] = {}
        self.blocked: set[int] = set()
        self.pending: list[int] = []
        self.wakeup: int = -1
        self.output: list[str] = []
        self.local: dict[str, Any] = {}
        self.ended: dict[Callable[[], None], None] = {}
        """Called, in this order, when it has ended; whoever does not wait any more takes itself out."""
        self.started_s = kernel.now_s
        self.calls = 0
        self.doom: int | None = None
        """At which of its system calls it is killed."""
        self.group = pid

    def __repr__(self) -> str:
        return f"{self.machine.name}/{self.name}[{self.pid}]"

    def lowest_descriptor(self) -> int:
        number = 3
        while number in self.descriptors:
            number += 1
        return number

    def install(self, description: Description, number: int | None = None) -> int:
        """Give *description* a number in this process."""
        if number is None:
            number = self.lowest_descriptor()
        description.users += 1
        self.descriptors[number] = description
        return number


class ProcessDescriptor(Description):
    """`pidfd_open`: readable when the process has ended."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process
        self._tell = self.changed
        process.ended[self._tell] = None

    @property
    def readable(self) -> bool:
        return not self.process.alive

    def closed(self) -> None:
        self.process.ended.pop(self._tell, None)
