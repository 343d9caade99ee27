# SPDX-License-Identifier: BSD-2-Clause
"""Loads the production code of this checkout for simulated processes: unchanged, with other modules under it.

A module loaded here has builtins of its own, so its `import os` gives the facade, and its `open` opens simulated files.
Some modules of the standard library that are themselves written over `os` are loaded the same way, for production code
only. It is done once in a real process, which then runs simulations and nothing else.
"""

import builtins
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sqlite3
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ganeti_simulation.facades import (
    chance,
    clocks,
    databases,
    event_loop,
    interpreter,
    locks,
    names,
    processes,
    sockets,
    streams,
    system,
    threads,
)
from ganeti_simulation.system.process import ProcessDeath

_PRIVATE = ("tempfile", "shutil", "pathlib", "glob")
"""Loaded from their sources, over the facades."""
_COLLECTED = (200_000, 50, 100)
"""When the real collector looks for garbage: a simulation makes little, and has much that it would look through."""
_PACKAGE = "ganeti"
_OURS = "ganeti_simulation"

Patch = Callable[[ModuleType], None]


class _Loader(importlib.abc.Loader):
    """Runs a module's code with our builtins, then changes what stands for hardware in it."""

    def __init__(self, inner: Any, builtins_: dict[str, Any], patches: dict[str, Patch]) -> None:
        self._inner = inner
        self._builtins = builtins_
        self._patches = patches

    def create_module(self, spec: Any) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        code = self._inner.get_code(module.__name__)
        if code is None:
            return
        module.__dict__["__builtins__"] = self._builtins
        exec(code, module.__dict__)  # noqa: S102 - as `importlib` does, which leaves builtins no choice
        patch = self._patches.get(module.__name__)
        if patch is not None:
            patch(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, builtins_: dict[str, Any], patches: dict[str, Patch]) -> None:
        self._builtins = builtins_
        self._patches = patches

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if not fullname.startswith(_PACKAGE + ".") or fullname == _OURS or fullname.startswith(_OURS + "."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._builtins, self._patches)
        return spec


def install(patches: dict[str, Patch]) -> None:
    """From here on everything of the product but this package is loaded for simulated machines.

    *patches* are called with modules just loaded, by name. Raises `RuntimeError` if some are loaded already.
    """
    early = [name for name in sys.modules if name.startswith("ganeti.") and not name.startswith(_OURS)]
    if early:
        raise RuntimeError(f"a simulation needs a real process of its own: {', '.join(early)} are loaded already")
    facades: dict[str, ModuleType] = {
        "os": system.OsFacade(),
        "os.path": names.path_module,
        "socket": sockets.SocketFacade(),
        "_socket": sockets.SocketFacade(),
        "select": sockets.SelectFacade(),
        "subprocess": processes.SubprocessFacade(),
        "signal": processes.SignalFacade(),
        "time": clocks.TimeFacade(),
        "fcntl": locks.FcntlFacade(),
        "threading": threads.ThreadingFacade(),
        "sqlite3": databases.SqliteFacade(),
        "random": chance.RandomFacade(),
        "secrets": chance.SecretsFacade(),
        "uuid": chance.UuidFacade(),
        "gc": interpreter.GcFacade(),
        "resource": interpreter.ResourceFacade(),
        "concurrent.futures": threads.FuturesFacade(),
        "sys": interpreter.SysFacade(),
        "posixpath": names.path_module,
    }

    def import_(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and name in facades:
            if fromlist or "." not in name:
                return facades[name]
            return facades.get(name.partition(".")[0]) or builtins.__import__(name.partition(".")[0])
        return builtins.__import__(name, globals, locals, fromlist, level)

    changed = dict(vars(builtins))
    changed["open"] = streams.open_
    changed["print"] = interpreter.print_
    changed["__import__"] = import_
    changed["input"] = lambda *_: ""
    for name in _PRIVATE:
        facades[name] = _private_copy(name, changed)
    sys.meta_path.insert(0, _Finder(changed, patches))
    event_loop.install()
    gc.set_threshold(*_COLLECTED)
    sys.unraisablehook = _after_the_end


def _after_the_end(unraisable: Any) -> None:
    """Destructors of a process that has ended reach nothing any more; others tell what they met."""
    if not isinstance(unraisable.exc_value, ProcessDeath | sqlite3.ProgrammingError):
        sys.__unraisablehook__(unraisable)


def _private_copy(name: str, builtins_: dict[str, Any]) -> ModuleType:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    module = ModuleType(name)
    module.__dict__["__builtins__"] = builtins_
    module.__file__ = spec.origin
    exec(spec.loader.get_code(name), module.__dict__)  # type: ignore[attr-defined]  # noqa: S102 - see `_Loader`
    return module
