# SPDX-License-Identifier: BSD-2-Clause
"""`os` and `os.path` of a simulated process."""

import errno
import os as real
import posixpath
import signal
import stat as modes
from collections.abc import Callable, Iterator, MutableMapping
from types import ModuleType
from typing import Any

from ganeti.simulation.descriptors import (
    Description,
    FileDescription,
    Generated,
    ProcessDescriptor,
    make_pipe,
    wait_for,
)
from ganeti.simulation.kernel import Exit, Running

_FROM_REAL = [
    "strerror",
    "fsencode",
    "fsdecode",
    "fspath",
    "waitstatus_to_exitcode",
    "sep",
    "linesep",
    "devnull",
    "curdir",
    "pardir",
    "name",
    "PathLike",
    "stat_result",
    "terminal_size",
    "cpu_count",
    "SEEK_SET",
    "SEEK_CUR",
    "SEEK_END",
    "WNOHANG",
    "EX_OK",
    "F_OK",
    "R_OK",
    "W_OK",
    "X_OK",
    "altsep",
    "extsep",
    "pathsep",
    "error",
    "WIFEXITED",
    "WEXITSTATUS",
    "supports_dir_fd",
    "supports_follow_symlinks",
    "supports_fd",
    "DirEntry",
    "sched_getaffinity",
    "sched_setaffinity",
    "sysconf",
    "supports_bytes_environ",
    "get_exec_path",
]
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


def absolute(path: Any) -> str:
    """*path* as the disk wants it."""
    text: str = real.fsdecode(path)
    if not text.startswith("/"):
        text = posixpath.join(Running.process().local.get("cwd", "/"), text)
    return text


def description_of(number: Any) -> Description:
    if not isinstance(number, int):
        number = number.fileno()
    found = Running.process().descriptors.get(number)
    if found is None:
        raise OSError(errno.EBADF, real.strerror(errno.EBADF))
    return found


def file_of(number: Any) -> Any:
    description = description_of(number)
    if not isinstance(description, FileDescription):
        raise OSError(errno.EINVAL, real.strerror(errno.EINVAL))
    return description.file


class EnvironmentProxy(MutableMapping[str, str]):
    """`os.environ`: that of whoever looks; empty while modules are loaded."""

    def _own(self) -> dict[str, str]:
        thread = Running.kernel.current if hasattr(Running, "kernel") else None
        return thread.process.environ if thread is not None else {}

    def __getitem__(self, key: str) -> str:
        return self._own()[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._own()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._own()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own())

    def __len__(self) -> int:
        return len(self._own())

    def copy(self) -> dict[str, str]:
        return dict(self._own())


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


# Files


def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    process = Running.process()
    if dir_fd is not None:
        path = posixpath.join(description_of(dir_fd).path, real.fsdecode(path))  # type: ignore[attr-defined]
    name = absolute(path)
    generated = process.machine.generated(name, process)
    if generated is not None:
        return process.install(Generated(generated))
    if flags & (real.O_CREAT | real.O_TRUNC):
        Running.kernel.system_call()
    file = process.machine.disk.open(name, flags, mode & ~process.local.get("umask", 0o022), Running.kernel.now_s)
    return process.install(FileDescription(file, name))


def close(number: int) -> None:
    process = Running.process()
    if number not in process.descriptors:
        raise OSError(errno.EBADF, real.strerror(errno.EBADF))
    Running.kernel.close(process, number)


def read(number: int, count: int) -> bytes:
    description = description_of(number)
    if not description.readable and description.blocking:
        wait_for(Running.kernel, description, to_write=False, timeout_s=None)
    return description.read(count)


def write(number: int, data: Any) -> int:
    Running.kernel.system_call()
    return description_of(number).write(bytes(data))


def pread(number: int, count: int, offset: int) -> bytes:
    data: bytes = file_of(number).pread(count, offset)
    return data


def pwrite(number: int, data: Any, offset: int) -> int:
    Running.kernel.system_call()
    written: int = file_of(number).pwrite(bytes(data), offset)
    return written


def lseek(number: int, offset: int, whence: int) -> int:
    place: int = file_of(number).seek(offset, whence)
    return place


def fsync(number: Any) -> None:
    Running.kernel.system_call()
    Running.process().machine.wait_for_disk()
    file_of(number).fsync()
    Running.kernel.system_call()


def ftruncate(number: int, size: int) -> None:
    Running.kernel.system_call()
    file_of(number).truncate(size)


def truncate(path: Any, size: int) -> None:
    number = open_(path, real.O_WRONLY) if not isinstance(path, int) else path
    ftruncate(number, size)
    if not isinstance(path, int):
        close(number)


def posix_fallocate(number: int, offset: int, length: int) -> None:
    Running.kernel.system_call()
    file_of(number).fallocate(offset, length)


def fstat(number: Any) -> Any:
    description = description_of(number)
    if isinstance(description, FileDescription):
        return description.file.fstat()
    kind = modes.S_IFSOCK if not isinstance(description, Generated) else modes.S_IFREG
    return real.stat_result((kind | 0o600, 1, 99, 1, 0, 0, 0, 0, 0, 0))


def stat(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> Any:
    if isinstance(path, int):
        return fstat(path)
    process = Running.process()
    name = absolute(path)
    if process.machine.generated(name, process) is not None:
        return real.stat_result((modes.S_IFREG | 0o444, 1, 98, 1, 0, 0, 0, 0, 0, 0))
    disk = process.machine.disk
    return disk.stat(name) if follow_symlinks else disk.lstat(name)


def lstat(path: Any, *, dir_fd: int | None = None) -> Any:
    return stat(path, follow_symlinks=False)


def _changing(name: str) -> Callable[..., Any]:
    """A call about one path that changes the disk."""

    def call(path: Any, *arguments: Any, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        Running.kernel.system_call()
        getattr(Running.process().machine.disk, name)(absolute(path), *arguments)

    return call


def mkdir(path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    Running.kernel.system_call()
    process = Running.process()
    process.machine.disk.mkdir(absolute(path), mode & ~process.local.get("umask", 0o022))


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


def _two_paths(name: str) -> Callable[..., Any]:
    def call(source: Any, target: Any, **_: Any) -> None:
        Running.kernel.system_call()
        getattr(Running.process().machine.disk, name)(absolute(source), absolute(target))

    return call


def symlink(source: Any, target: Any, target_is_directory: bool = False) -> None:
    Running.kernel.system_call()
    Running.process().machine.disk.symlink(real.fsdecode(source), absolute(target))


def readlink(path: Any) -> str:
    process = Running.process()
    name = absolute(path)
    if name == "/proc/self/ns/pid":
        return "pid:[4026531836]"
    target: str = process.machine.disk.readlink(name)
    return target


def listdir(path: Any = ".") -> list[str]:
    process = Running.process()
    name = absolute(path)
    if name == "/proc":
        return [str(pid) for pid in process.machine.processes]
    names: list[str] = list(process.machine.disk.listdir(name))
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
    if Running.process().machine.programs.knows(name):
        return True
    return path_module.exists(name)


def statvfs(path: Any) -> Any:
    return Running.process().machine.disk.statvfs(absolute(path) if not isinstance(path, int) else "/")


def umask(mask: int) -> int:
    local = Running.process().local
    before: int = local.get("umask", 0o022)
    local["umask"] = mask
    return before


def chdir(path: Any) -> None:
    Running.process().local["cwd"] = absolute(path)


def fchmod(number: int, mode: int) -> None:
    Running.kernel.system_call()
    description = description_of(number)
    if isinstance(description, FileDescription):
        Running.process().machine.disk.chmod(description.path, mode)


def fchown(number: int, user: int, group: int) -> None:
    """Everybody is root here."""


def fdopen(number: int, mode: str = "r", *arguments: Any, **options: Any) -> Any:
    from ganeti.simulation.facades import streams

    return streams.open_(number, mode, *arguments, **options)


def memfd_create(name: str, flags: int = 0) -> int:
    """A file that nobody else sees."""
    process = Running.process()
    process.local["memory_files"] = process.local.get("memory_files", 0) + 1
    path = f"/tmp/.memory-{process.pid}-{process.local['memory_files']}"
    number = open_(path, real.O_RDWR | real.O_CREAT, 0o600)
    process.machine.disk.unlink(path)
    return number


# Descriptors and processes


def pipe2(flags: int = 0) -> tuple[int, int]:
    process = Running.process()
    read_end, write_end = make_pipe()
    read_end.blocking = not flags & real.O_NONBLOCK
    return process.install(read_end), process.install(write_end)


def dup(number: int) -> int:
    return Running.process().install(description_of(number))


def dup2(number: int, other: int, inheritable: bool = True) -> int:
    process = Running.process()
    description = description_of(number)
    if other in process.descriptors:
        Running.kernel.close(process, other)
    return process.install(description, other)


def set_blocking(number: int, blocking: bool) -> None:
    description_of(number).blocking = blocking


def getpid() -> int:
    thread = Running.kernel.current if hasattr(Running, "kernel") else None
    return thread.process.pid if thread is not None else 1


def find_process(pid: int) -> Any:
    process = Running.process().machine.processes.get(pid)
    if process is None:
        raise ProcessLookupError(errno.ESRCH, real.strerror(errno.ESRCH))
    return process


def kill(pid: int, number: int) -> None:
    process = find_process(pid)
    if number:
        Running.kernel.signal(process, int(number))


def killpg(group: int, number: int) -> None:
    members = [process for process in Running.process().machine.processes.values() if process.group == group]
    if not members:
        raise ProcessLookupError(errno.ESRCH, real.strerror(errno.ESRCH))
    for process in members:
        if number:
            Running.kernel.signal(process, int(number))


def pidfd_open(pid: int, flags: int = 0) -> int:
    return Running.process().install(ProcessDescriptor(find_process(pid)))


def waitpid(pid: int, options: int) -> tuple[int, int]:
    process = Running.process()
    zombies = process.local.setdefault("zombies", {})
    while True:
        for number, zombie in list(zombies.items()):
            if pid in (-1, number):
                del zombies[number]
                status = zombie.status or 0
                return number, -status if status < 0 else status << 8
        if not any(child.parent == process.pid for child in process.machine.processes.values()):
            raise ChildProcessError(errno.ECHILD, real.strerror(errno.ECHILD))
        if options & real.WNOHANG:
            return 0, 0
        Running.kernel.block()


def setsid() -> None:
    process = Running.process()
    process.group = process.pid


def exit_(status: int) -> None:
    raise Exit(status)


def fork() -> int:
    raise NotImplementedError("simulated processes are made by runtime.forking and subprocess")


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
        return bool(self._mode(path)) or Running.process().machine.programs.knows(absolute(path))

    def lexists(self, path: Any) -> bool:
        return bool(self._mode(path, follow=False))

    def isdir(self, path: Any) -> bool:
        return modes.S_ISDIR(self._mode(path))

    def isfile(self, path: Any) -> bool:
        return modes.S_ISREG(self._mode(path)) or Running.process().machine.programs.knows(absolute(path))

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


class OsFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("os")
        for name in dir(real):
            if name in _FROM_REAL or (name.isupper() and isinstance(getattr(real, name), int)):
                setattr(self, name, getattr(real, name))
        for name, value in _OWN.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the simulated os has no {name}")


_OWN: dict[str, Any] = {
    "path": path_module,
    "environ": EnvironmentProxy(),
    "open": open_,
    "close": close,
    "read": read,
    "write": write,
    "pread": pread,
    "pwrite": pwrite,
    "lseek": lseek,
    "fsync": fsync,
    "fdatasync": fsync,
    "ftruncate": ftruncate,
    "truncate": truncate,
    "posix_fallocate": posix_fallocate,
    "fstat": fstat,
    "stat": stat,
    "lstat": lstat,
    "mkdir": mkdir,
    "makedirs": makedirs,
    "rmdir": _changing("rmdir"),
    "unlink": _changing("unlink"),
    "remove": _changing("unlink"),
    "chmod": _changing("chmod"),
    "chown": lambda *_, **__: None,
    "lchown": lambda *_, **__: None,
    "utime": _changing("utime"),
    "rename": _two_paths("rename"),
    "replace": _two_paths("rename"),
    "link": _two_paths("link"),
    "symlink": symlink,
    "readlink": readlink,
    "listdir": listdir,
    "scandir": scandir,
    "walk": walk,
    "access": access,
    "statvfs": statvfs,
    "umask": umask,
    "chdir": chdir,
    "getcwd": lambda: Running.process().local.get("cwd", "/"),
    "fchmod": fchmod,
    "fchown": fchown,
    "fdopen": fdopen,
    "memfd_create": memfd_create,
    "pipe": pipe2,
    "pipe2": pipe2,
    "dup": dup,
    "dup2": dup2,
    "set_blocking": set_blocking,
    "set_inheritable": lambda *_: None,
    "getpid": getpid,
    "getppid": lambda: Running.process().parent,
    "kill": kill,
    "killpg": killpg,
    "pidfd_open": pidfd_open,
    "waitpid": waitpid,
    "setsid": setsid,
    "_exit": exit_,
    "fork": fork,
    "register_at_fork": lambda **_: None,
    "urandom": lambda count: Running.kernel.random.randbytes(count),
    "getuid": lambda: 0,
    "geteuid": lambda: 0,
    "getgid": lambda: 0,
    "getegid": lambda: 0,
    "isatty": lambda number: False,
    "uname": lambda: real.uname().__class__(("Linux", Running.process().machine.name, "6.1.0", "#1", "x86_64")),
    "getenv": lambda name, default=None: _OWN["environ"].get(name, default),
    "fsencode": real.fsencode,
    "nice": lambda _: 0,
    "getloadavg": lambda: (0.0, 0.0, 0.0),
}
SIGNALS = signal
