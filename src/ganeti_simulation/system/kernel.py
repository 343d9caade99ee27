# SPDX-License-Identifier: BSD-2-Clause
"""The simulated operating system: processes and threads as greenlets, virtual time, one seed.

A simulated process runs a production program from its `main()`; whatever it asks of the operating system arrives here
through `facades`. Only one greenlet runs at a time, and it runs until it blocks; who is next, and after how long, is
drawn from the seed. Killing a process means that its greenlets are never resumed: no `finally` of theirs runs, exactly
as with SIGKILL.

Invariants: nothing outside a simulated process blocks; `now_s` never goes back; the same seed and the same calls give
the same order of events, so nothing here depends on addresses, hashes of objects or the real clock.
"""

import heapq
import random
import signal
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NoReturn

import greenlet

from ganeti_simulation.system import signals
from ganeti_simulation.system.descriptors import Description
from ganeti_simulation.system.process import Event, Exit, Host, Process, ProcessDeath, Program, Thread

_LATENCY_S = 20e-6
"""A woken thread runs within this time; drawn, so that seeds differ in their order of events."""
LOOK_S = 1e-6
"""What looking at a clock takes: a loop that waits for a time to come ends."""

_TIME, _ACTION = 0, 2


class Kernel:
    """All machines of one simulation share one kernel: it is the world's, not a machine's."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a seed is what it is for
        self.now_s = 0.0
        self.current: Thread | None = None
        self.processes: dict[int, Process] = {}
        self.after_event: Callable[[], None] | None = None
        """Called after every event that may have changed something: the checkers."""
        self.listeners: list[Callable[[float, str, str], None]] = []
        self._hub = greenlet.getcurrent()
        self._queue: list[Event] = []
        """By time, and then in the order in which they were asked for."""
        self._order = 0
        self._next_pid = 100
        self._graveyard: list[Any] = []
        self._digest = blake2b(digest_size=16)
        self.events = 0
        self.local: dict[str, Any] = {}
        """What checkers leave for those who tell them something."""
        self.faults: list[tuple[str, str, Any]] = []
        """Mistakes of the product's own that its programs have logged: (who, what, exception)."""
        self._failure: BaseException | None = None
        self.loop: Any = None
        """What asyncio takes for the loop that runs (`event_loop.install`)."""

    # The story

    def tell(self, who: str, sentence: str) -> None:
        """One line of what happened: part of the hash, and for whoever listens."""
        self._digest.update(f"{self.now_s:.6f} {who} {sentence}\n".encode())
        for listener in self.listeners:
            listener(self.now_s, who, sentence)

    @property
    def trace_hash(self) -> str:
        return self._digest.hexdigest()

    # Time

    def at(self, at_s: float, action: Callable[[], None]) -> Event:
        self._order += 1
        event: Event = [at_s if at_s > self.now_s else self.now_s, self._order, action]
        heapq.heappush(self._queue, event)
        return event

    def after(self, delay_s: float, action: Callable[[], None]) -> Event:
        return self.at(self.now_s + delay_s, action)

    def look_at_clock(self) -> float:
        """Time passes while a process computes; a little for each look is enough."""
        self.now_s += LOOK_S
        return self.now_s

    def run(self, until_s: float, done: Callable[[], bool] | None = None) -> bool:
        """Let everything happen until *until_s* or until *done*; gives whether it was done."""
        queue, pop = self._queue, heapq.heappop
        while queue and queue[0][_TIME] <= until_s:
            at_s, _, action = pop(queue)
            if action is None:
                continue
            if at_s > self.now_s:
                self.now_s = at_s
            self.events += 1
            action()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self.after_event is not None:
                self.after_event()
            if done is not None and done():
                return True
        if until_s != float("inf"):
            self.now_s = max(self.now_s, until_s)
        return done is not None and done()

    # Processes and threads

    def start_process(
        self,
        machine: Host,
        name: str,
        program: Program,
        *,
        environ: Mapping[str, str] = {},
        descriptors: Mapping[int, Description] = {},
        parent: int = 1,
    ) -> Process:
        self._next_pid += 1
        process = Process(self, machine, self._next_pid, name, environ, parent)
        for number, description in descriptors.items():
            process.install(description, number)
        self.processes[process.pid] = process
        machine.processes[process.pid] = process
        self.start_thread(process, "main", lambda: self._main(process, program))
        return process

    def start_thread(self, process: Process, name: str, work: Callable[[], None]) -> Thread:
        thread = Thread(process, name)
        process.threads.append(thread)

        def body() -> None:
            try:
                work()
            except ProcessDeath:
                pass
            except BaseException as err:
                self._failure = err
            if thread in process.threads:
                process.threads.remove(thread)

        thread.greenlet = greenlet.greenlet(body, self._hub)
        self.ready(thread)
        return thread

    def _main(self, process: Process, program: Program) -> None:
        try:
            status = program()
        except Exit as err:
            status = err.status
        except SystemExit as err:
            status = err.code if isinstance(err.code, int) else 0 if err.code is None else 1
        if process.alive:
            self._ended(process, status or 0)
        if len(process.threads) > 1:
            self._graveyard.append(process)

    def exit(self, process: Process, status: int) -> NoReturn:
        """`os._exit`: it has ended, whatever handlers this passes on its way out; what they ask for is not done."""
        if process.alive:
            self._ended(process, status)
        raise Exit(status)

    def ready(self, thread: Thread) -> None:
        if thread.woken is None:
            self._order += 1
            thread.woken = [self.now_s + self.random.random() * _LATENCY_S, self._order, thread.resume]
            heapq.heappush(self._queue, thread.woken)

    def resume(self, thread: Thread) -> None:
        """Let it run until it waits again; nothing, if it has ended or is stopped."""
        if thread.woken is not None:
            thread.woken[_ACTION] = None
            thread.woken = None
        process = thread.process
        if not process.alive or thread.greenlet.dead:
            return
        if process.stopped:
            process.local.setdefault("held", {})[id(thread)] = thread
            return
        if thread.timer is not None:
            thread.timer[_ACTION] = None
            thread.timer = None
        self.current = thread
        self.loop = thread.loop
        try:
            thread.greenlet.switch()
        finally:
            self.current = None

    def wake(self, thread: Thread) -> None:
        """Let a blocked thread go on soon."""
        if thread.process.alive and thread.greenlet:
            self.ready(thread)

    def block(self, timeout_s: float | None = None) -> None:
        """The current thread waits until it is woken, or for *timeout_s*; then its process' signals are delivered.

        Whoever waits for something looks whether it is there when this returns.
        """
        thread = self.current
        assert thread is not None, "only simulated processes may wait"
        if timeout_s is not None:
            thread.timer = self.at(self.now_s + timeout_s, thread.resume)
        self._hub.switch()
        self.current = thread
        if thread.process.pending:
            signals.deliver(self, thread)

    def sleep(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.block(until_s - self.now_s)

    def system_call(self) -> None:
        """Each effect of a process on the world begins here, so that it can be the last thing it does."""
        thread = self.current
        if thread is None:
            return
        process = thread.process
        process.calls += 1
        process.machine.calls += 1
        if process.doom is not None and process.calls >= process.doom:
            self.tell(repr(process), f"is killed at its system call {process.calls}")
            self.end(process, -signal.SIGKILL)
        machine = process.machine
        if machine.doom is not None and machine.calls >= machine.doom:
            machine.doom = None
            machine.lose_power()
            self._vanish(thread)
        if not process.alive:
            self._vanish(thread)

    def end(self, process: Process, status: int) -> None:
        """A process ends, by itself or not; from here on nothing of it runs."""
        if not process.alive:
            return
        self._graveyard.append((process, list(process.threads)))
        self._ended(process, status)
        thread = self.current
        if thread is not None and thread.process is process:
            self._vanish(thread)

    def _ended(self, process: Process, status: int) -> None:
        process.alive = False
        process.status = status
        for number in list(process.descriptors):
            self.close(process, number)
        process.machine.processes.pop(process.pid, None)
        self.processes.pop(process.pid, None)
        for act in list(process.ended):
            act()
        parent = self.processes.get(process.parent)
        if parent is not None:
            parent.local.setdefault("zombies", {})[process.pid] = process
            self.signal(parent, signal.SIGCHLD)

    def _vanish(self, thread: Thread) -> None:
        """Leave a thread for ever; what it held in memory is kept, so that no destructor of it ever runs."""
        self._graveyard.append(thread)
        self._hub.switch()
        raise ProcessDeath

    def close(self, process: Process, number: int) -> None:
        description = process.descriptors.pop(number)
        description.users -= 1
        if description.users == 0:
            description.closed()

    # Signals

    def signal(self, process: Process, number: int) -> None:
        if not process.alive:
            return
        if number == signal.SIGKILL:
            self.end(process, -number)
        elif number == signal.SIGSTOP:
            process.stopped = True
        elif number == signal.SIGCONT:
            self._continue(process)
        else:
            process.pending.append(number)
            signals.arrived(self, process, number)

    def _continue(self, process: Process) -> None:
        process.stopped = False
        for thread in process.local.pop("held", {}).values():
            self.ready(thread)

    def deliver_signals(self) -> None:
        thread = self.current
        if thread is not None and thread.process.pending:
            signals.deliver(self, thread)

    def unblocked(self, process: Process) -> None:
        """Signals may be delivered now that waited for that."""
        for number in [number for number in process.pending if number not in process.blocked]:
            signals.arrived(self, process, number)


class Running:
    """Where the facades find the kernel: there is one simulation in a real process."""

    kernel: Kernel

    @classmethod
    def thread(cls) -> Thread:
        thread = cls.kernel.current
        if thread is None or not thread.process.alive:
            raise ProcessDeath
        return thread

    @classmethod
    def process(cls) -> Process:
        thread = cls.kernel.current
        if thread is None or not thread.process.alive:
            raise ProcessDeath
        return thread.process


def wait_for(kernel: Kernel, description: Description, *, to_write: bool, timeout_s: float | None) -> bool:
    """The current thread waits until it can read or write; False when that takes longer than *timeout_s*."""
    thread = kernel.current
    assert thread is not None
    until_s = None if timeout_s is None else kernel.now_s + timeout_s
    description.watchers[id(thread)] = lambda: kernel.wake(thread)
    try:
        while not (description.writable if to_write else description.readable):
            if until_s is not None and kernel.now_s >= until_s:
                return False
            kernel.block(None if until_s is None else until_s - kernel.now_s)
        return True
    finally:
        description.watchers.pop(id(thread), None)
