# SPDX-License-Identifier: BSD-2-Clause
"""What is Python's own in a simulated process: `sys`, `gc`, `resource` and `print`."""

import gc as real_gc
import resource as real_resource
import sys as real_sys
from types import ModuleType
from typing import Any

from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.process import Exit


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
