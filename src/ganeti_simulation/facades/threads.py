# SPDX-License-Identifier: BSD-2-Clause
"""`threading` and `concurrent.futures` of a simulated process."""

from collections import deque
from concurrent.futures import Executor, Future
from types import ModuleType
from typing import Any

from ganeti_simulation.facades.event_loop import ThreadPool
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.process import Thread


class Mutex:
    """`threading.Lock` between threads of one simulated process."""

    def __init__(self) -> None:
        self._holder: Thread | None = None
        self._line: deque[Thread] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        thread = Running.thread()
        while self._holder is not None:
            if not blocking:
                return False
            self._line.append(thread)
            Running.kernel.block()
            if thread in self._line:  # woken by something else
                self._line.remove(thread)
        self._holder = thread
        return True

    def release(self) -> None:
        self._holder = None
        if self._line:
            Running.kernel.wake(self._line.popleft())

    def locked(self) -> bool:
        return self._holder is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RealThread:
    """`threading.Thread`."""

    def __init__(self, target: Any = None, args: Any = (), daemon: bool | None = None, name: str = "thread") -> None:
        self._work = lambda: target(*args)
        self._name = name
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = Running.kernel.start_thread(Running.process(), self._name, self._work)

    def is_alive(self) -> bool:
        return self._thread is not None and self._thread in self._thread.process.threads

    def join(self, timeout: float | None = None) -> None:
        until_s = Running.kernel.now_s + (1e9 if timeout is None else timeout)
        while self.is_alive() and Running.kernel.now_s < until_s:
            Running.kernel.block(0.001)


class ThreadingFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("threading")
        self.Lock = Mutex
        self.Thread = RealThread


class FuturesFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("concurrent.futures")
        self.ThreadPoolExecutor = ThreadPool

        self.Future = Future
        self.Executor = Executor
