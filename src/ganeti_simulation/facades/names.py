# SPDX-License-Identifier: BSD-2-Clause
"""Calls of `os` about names, and `os.path`."""

import errno
import os as real
import posixpath
import re
import stat as modes
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ganeti_simulation.facades.arguments import absolute
from ganeti_simulation.facades.files import stat
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.machine import here, machine_of

_PATH_FROM_REAL = [
    "join",
    "dirname",
    "basename",
    "split",
    "splitext",
    "normpath",
    "isabs",
    "relpath",
    "commonpath",
    "commonprefix",
    "normcase",
    "sep",
    "pardir",
    "curdir",
    "samestat",
    "splitdrive",
    "altsep",
    "extsep",
    "expanduser",
]


class Entry:
    """What `os.scandir` gives."""

    def __init__(self, directory: str, name: str) -> None:
        self.name = name
        self.path = posixpath.join(directory, name)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return modes.S_ISDIR(self.stat(follow_symlinks=follow_symlinks).st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return modes.S_ISREG(self.stat(follow_symlinks=follow_symlinks).st_mode)

    def is_symlink(self) -> bool:
        return modes.S_ISLNK(self.stat(follow_symlinks=False).st_mode)

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        return stat(self.path, follow_symlinks=follow_symlinks)


class Entries:
    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> "Entries":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


def changing(name: str) -> Callable[..., Any]:
    """A call about one path that changes the disk."""

    def call(path: Any, *arguments: Any, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        Running.kernel.system_call()
        getattr(here().disk, name)(absolute(path), *arguments)

    return call


def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    Running.kernel.system_call()
    process = Running.process()
    machine_of(process).disk.mkdir(absolute(path), mode & ~process.local.get("umask", 0o022))


def makedirs(name: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
    path = absolute(name)
    parent = posixpath.dirname(path.rstrip("/"))
    if parent and not path_module.exists(parent):
        makedirs(parent, exist_ok=True)
    try:
        mkdir(path, mode)
    except FileExistsError:
        if not exist_ok or not path_module.isdir(path):
            raise


def two_paths(name: str) -> Callable[..., Any]:
    def call(source: Any, target: Any, **_: Any) -> None:
        Running.kernel.system_call()
        getattr(here().disk, name)(absolute(source), absolute(target))

    return call


_DESCRIPTORS = re.compile(r"/proc/([0-9]+)/fd")
_DESCRIPTOR = re.compile(r"/proc/([0-9]+)/fd/([0-9]+)")


def symlink(source: Any, target: Any, target_is_directory: bool = False) -> None:
    Running.kernel.system_call()
    here().disk.symlink(real.fsdecode(source), absolute(target))


def readlink(path: Any) -> str:
    process = Running.process()
    name = absolute(path)
    if name == "/proc/self/ns/pid":
        return "pid:[4026531836]"
    found = _DESCRIPTOR.fullmatch(name)
    if found is not None:
        opened = machine_of(process).open_file_of(found[1], found[2])
        return "socket:[1]" if opened is None else opened.path
    target: str = machine_of(process).disk.readlink(name)
    return target


def listdir(path: Any = ".") -> list[str]:
    process = Running.process()
    name = absolute(path)
    if name == "/proc":
        return [str(pid) for pid in process.machine.processes]
    found = _DESCRIPTORS.fullmatch(name)
    if found is not None:
        other = process.machine.processes.get(int(found[1]))
        if other is None:
            raise FileNotFoundError(errno.ENOENT, real.strerror(errno.ENOENT), name)
        return [str(number) for number in other.descriptors]
    names: list[str] = list(machine_of(process).disk.listdir(name))
    return names


def scandir(path: Any = ".") -> Entries:
    name = absolute(path)
    return Entries([Entry(name, found) for found in listdir(name)])


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[OSError], Any] | None = None, followlinks: bool = False
) -> Iterator[tuple[str, list[str], list[str]]]:
    try:
        entries = list(scandir(top))
    except OSError as err:
        if onerror is not None:
            onerror(err)
        return
    directories = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    yield absolute(top), directories, [entry.name for entry in entries if entry.name not in directories]
    for name in directories:
        yield from walk(posixpath.join(absolute(top), name), topdown, onerror)


def access(path: Any, mode: int, **_: Any) -> bool:
    name = absolute(path)
    if here().programs.knows(name):
        return True
    return path_module.exists(name)


def statvfs(path: Any) -> Any:
    return here().disk.statvfs(absolute(path) if not isinstance(path, int) else "/")


def umask(mask: int) -> int:
    local = Running.process().local
    before: int = local.get("umask", 0o022)
    local["umask"] = mask
    return before


def chdir(path: Any) -> None:
    Running.process().local["cwd"] = absolute(path)


class PathFacade(ModuleType):
    """`os.path`."""

    def __init__(self) -> None:
        super().__init__("posixpath")
        for name in _PATH_FROM_REAL:
            setattr(self, name, getattr(posixpath, name))

    def _mode(self, path: Any, follow: bool = True) -> int:
        try:
            mode: int = stat(path, follow_symlinks=follow).st_mode
        except OSError:
            return 0
        return mode

    def exists(self, path: Any) -> bool:
        return bool(self._mode(path)) or here().programs.knows(absolute(path))

    def lexists(self, path: Any) -> bool:
        return bool(self._mode(path, follow=False))

    def isdir(self, path: Any) -> bool:
        return modes.S_ISDIR(self._mode(path))

    def isfile(self, path: Any) -> bool:
        return modes.S_ISREG(self._mode(path)) or here().programs.knows(absolute(path))

    def islink(self, path: Any) -> bool:
        return modes.S_ISLNK(self._mode(path, follow=False))

    def getsize(self, path: Any) -> int:
        size: int = stat(path).st_size
        return size

    def getmtime(self, path: Any) -> float:
        moment: float = stat(path).st_mtime
        return moment

    def abspath(self, path: Any) -> str:
        return posixpath.normpath(absolute(path))

    def realpath(self, path: Any, *, strict: bool = False) -> str:
        resolved = "/"
        for part in self.abspath(path).split("/")[1:]:
            resolved = posixpath.join(resolved, part)
            if self.islink(resolved):
                resolved = self.realpath(posixpath.join(posixpath.dirname(resolved), readlink(resolved)))
        return resolved

    def ismount(self, path: Any) -> bool:
        return self.abspath(path) == "/"

    def samefile(self, one: Any, other: Any) -> bool:
        return posixpath.samestat(stat(one), stat(other))


path_module = PathFacade()
