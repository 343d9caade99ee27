# SPDX-License-Identifier: BSD-2-Clause
"""Time, chance, locks of files and threads, databases, and what little else the product asks of its machine."""

import errno
import fcntl as real_fcntl
import gc as real_gc
import os as real_os
import random as real_random
import resource as real_resource
import sqlite3 as real_sqlite3
import sys as real_sys
import time as real_time
import uuid as real_uuid
from collections import deque
from types import ModuleType
from typing import Any

from ganeti.simulation.event_loop import ThreadPool
from ganeti.simulation.facades import system
from ganeti.simulation.kernel import Exit, Running, Thread


class TimeFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("time")
        for name in ("strftime", "gmtime", "strptime", "struct_time", "mktime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
            setattr(self, name, getattr(real_time, name))
        self.timezone = 0

    @staticmethod
    def time() -> float:
        Running.kernel.look_at_clock()
        return Running.process().machine.wall_s

    @classmethod
    def time_ns(cls) -> int:
        return int(cls.time() * 1e9)

    @staticmethod
    def monotonic() -> float:
        return Running.kernel.look_at_clock() - Running.process().machine.booted_s

    perf_counter = monotonic

    @staticmethod
    def clock_gettime(clock: int) -> float:
        return TimeFacade.monotonic()

    @staticmethod
    def process_time() -> float:
        return 0.0

    @staticmethod
    def localtime(seconds: float | None = None) -> Any:
        return real_time.gmtime(TimeFacade.time() if seconds is None else seconds)

    @staticmethod
    def sleep(seconds: float) -> None:
        Running.kernel.sleep(seconds)


class FcntlFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("fcntl")
        for name in dir(real_fcntl):
            if name.isupper():
                setattr(self, name, getattr(real_fcntl, name))

    @staticmethod
    def flock(number: Any, operation: int) -> None:
        while not system.file_of(number).flock(operation):
            if operation & real_fcntl.LOCK_NB:
                raise BlockingIOError(errno.EWOULDBLOCK, real_os.strerror(errno.EWOULDBLOCK))
            Running.kernel.block(0.001)

    @staticmethod
    def fcntl(number: Any, command: int, argument: Any = 0) -> int:
        """Leases are always to be had: whoever reads `config.data` reads it in one go here."""
        return 0

    @staticmethod
    def ioctl(number: Any, request: int, argument: Any = b"") -> Any:
        raise OSError(errno.ENOTTY, real_os.strerror(errno.ENOTTY))


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


class SqliteFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("sqlite3")
        for name in dir(real_sqlite3):
            if name.endswith("Error") or name in ("Row", "Warning", "Connection", "Cursor", "sqlite_version"):
                setattr(self, name, getattr(real_sqlite3, name))

    @staticmethod
    def connect(path: str, **arguments: Any) -> Any:
        process = Running.process()
        machine = process.machine
        connection = machine.databases.connect(machine.disk, path, **arguments)
        open_ones = process.local.get("connections")
        if open_ones is None:
            open_ones = process.local["connections"] = []
            process.ended.append(lambda: _close_all(open_ones))
        open_ones.append(connection)
        return connection


def _close_all(connections: list[Any]) -> None:
    for connection in connections:
        connection.close()


class RandomFacade(ModuleType):
    """Everything from the seed."""

    def __init__(self) -> None:
        super().__init__("random")

        class Random(real_random.Random):
            def __init__(self, seed: Any = None) -> None:
                super().__init__(Running.kernel.random.getrandbits(64) if seed is None else seed)

        self.Random = Random

    def __getattr__(self, name: str) -> Any:
        return getattr(Running.kernel.random, name)


class SecretsFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("secrets")

    @staticmethod
    def token_bytes(count: int = 32) -> bytes:
        return Running.kernel.random.randbytes(count)

    @staticmethod
    def token_hex(count: int = 32) -> str:
        return Running.kernel.random.randbytes(count).hex()

    @staticmethod
    def randbelow(limit: int) -> int:
        return Running.kernel.random.randrange(limit)

    @staticmethod
    def choice(items: Any) -> Any:
        return Running.kernel.random.choice(items)


class UuidFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("uuid")
        for name in ("UUID", "uuid5", "NAMESPACE_DNS", "NAMESPACE_URL"):
            setattr(self, name, getattr(real_uuid, name))

    @staticmethod
    def uuid4() -> real_uuid.UUID:
        return real_uuid.UUID(bytes=Running.kernel.random.randbytes(16), version=4)


class GcFacade(ModuleType):
    """The collector is the real process' own affair."""

    def __init__(self) -> None:
        super().__init__("gc")

    @staticmethod
    def _nothing(*_: Any) -> int:
        return 0

    collect = freeze = disable = enable = unfreeze = set_threshold = _nothing
    isenabled = staticmethod(lambda: real_gc.isenabled())


class ResourceFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("resource")
        for name in dir(real_resource):
            if name.isupper():
                setattr(self, name, getattr(real_resource, name))
        self.getrlimit = lambda _: (65536, 65536)
        self.setrlimit = lambda *_: None


class FuturesFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("concurrent.futures")
        self.ThreadPoolExecutor = ThreadPool
        from concurrent.futures import Executor, Future

        self.Future = Future
        self.Executor = Executor


class Output:
    """Standard output or error of a simulated process: kept for whoever started it."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        process = Running.process()
        process.output.append(text)
        if 1 in process.descriptors:
            process.descriptors[1].write(text.encode())
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def reconfigure(self, **_: Any) -> None:
        """Everything can be written."""

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 1


class SysFacade(ModuleType):
    """`sys`, but for standard streams, arguments and the exit."""

    def __init__(self) -> None:
        super().__init__("sys")
        self.stdout = self.stderr = self.__stderr__ = Output()
        self.stdin = Output()

    @property
    def argv(self) -> list[str]:
        thread = Running.kernel.current if hasattr(Running, "kernel") else None
        arguments: list[str] = thread.process.local.get("argv", ["-"]) if thread is not None else ["-"]
        return arguments

    @staticmethod
    def exit(status: Any = 0) -> None:
        if isinstance(status, str):
            Running.process().output.append(status)
            status = 1
        raise Exit(int(status or 0))

    def __getattr__(self, name: str) -> Any:
        return getattr(real_sys, name)


def print_(*values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False) -> None:
    """As the builtin."""
    text = (" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end)
    (Output() if file is None else file).write(text)
