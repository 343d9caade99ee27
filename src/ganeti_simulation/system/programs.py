# SPDX-License-Identifier: BSD-2-Clause
"""What a simulated machine can start: the product's programs by their modules, and scripts given as functions."""

import errno
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ganeti_simulation.system.kernel import Running

Script = Callable[[list[str], dict[str, str]], int]
"""Takes arguments and environment, gives the exit status."""


def _load_all() -> None:
    """What a real process imports when it is first asked for: code is no part of a machine's story."""
    import_all = importlib.import_module("ganeti.base.registry").import_all
    for package in ("ganeti.master.operations", "ganeti.node.actions"):
        import_all(importlib.import_module(package))


def _main(module: str, arguments: list[str]) -> int | None:
    Running.process().local["argv"] = [module, *arguments]
    loaded = importlib.import_module(module)
    _load_all()
    if module == "ganeti.daemons.spawner":
        status: int | None = loaded.main()
    else:
        status = loaded.main(arguments)
    return status


class Programs:
    """By what `subprocess` is given."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        """By path."""

    def knows(self, path: str) -> bool:
        return path in self.scripts or path == sys.executable or path == self.daemon_util

    def beside(self, name: str) -> str:
        """Where a program of ours is installed."""
        return os.path.join(os.path.dirname(sys.executable), name)

    @property
    def daemon_util(self) -> str:
        return self.beside("daemon-util")

    def find(self, arguments: list[str]) -> Callable[[], int | None]:
        """Raises `FileNotFoundError`."""
        if arguments[0] == sys.executable and arguments[1:2] == ["-m"]:
            return lambda: _main(arguments[2], arguments[3:])
        script = self.scripts.get(arguments[0])
        if script is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])
        return lambda: script(arguments, dict(Running.process().environ))

    def name_of(self, arguments: list[str]) -> str:
        if arguments[1:2] == ["-m"]:
            return arguments[2].rpartition(".")[2]
        return os.path.basename(arguments[0])


def product(module: str, *arguments: str) -> Callable[[], Any]:
    """A program of the product, by its module."""
    return lambda: _main(module, list(arguments))
