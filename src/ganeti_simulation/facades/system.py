# SPDX-License-Identifier: BSD-2-Clause
"""`os` of a simulated process: what it asks about itself and others, and the module as a whole."""

import errno
import os as real
from collections.abc import Iterator, MutableMapping
from types import ModuleType
from typing import Any, NoReturn

from ganeti_simulation.facades import files, names, streams
from ganeti_simulation.facades.arguments import find_process
from ganeti_simulation.system.kernel import Running
from ganeti_simulation.system.process import ProcessDescriptor

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


def getpid() -> int:
    thread = Running.kernel.current if hasattr(Running, "kernel") else None
    return thread.process.pid if thread is not None else 1


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


def exit_(status: int) -> NoReturn:
    Running.kernel.exit(Running.process(), status)


def fork() -> int:
    raise NotImplementedError("simulated processes are made by runtime.forking and subprocess")


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
    "path": names.path_module,
    "environ": EnvironmentProxy(),
    "open": files.open_,
    "close": files.close,
    "read": files.read,
    "write": files.write,
    "pread": files.pread,
    "pwrite": files.pwrite,
    "lseek": files.lseek,
    "fsync": files.fsync,
    "fdatasync": files.fsync,
    "ftruncate": files.ftruncate,
    "truncate": files.truncate,
    "posix_fallocate": files.posix_fallocate,
    "fstat": files.fstat,
    "stat": files.stat,
    "lstat": files.lstat,
    "mkdir": names.mkdir,
    "makedirs": names.makedirs,
    "rmdir": names.changing("rmdir"),
    "unlink": names.changing("unlink"),
    "remove": names.changing("unlink"),
    "chmod": names.changing("chmod"),
    "chown": lambda *_, **__: None,
    "lchown": lambda *_, **__: None,
    "utime": names.changing("utime"),
    "rename": names.two_paths("rename"),
    "replace": names.two_paths("rename"),
    "link": names.two_paths("link"),
    "symlink": names.symlink,
    "readlink": names.readlink,
    "listdir": names.listdir,
    "scandir": names.scandir,
    "walk": names.walk,
    "access": names.access,
    "statvfs": names.statvfs,
    "umask": names.umask,
    "chdir": names.chdir,
    "getcwd": lambda: Running.process().local.get("cwd", "/"),
    "fchmod": files.fchmod,
    "fchown": files.fchown,
    "fdopen": streams.open_,
    "memfd_create": files.memfd_create,
    "pipe": files.pipe2,
    "pipe2": files.pipe2,
    "dup": files.dup,
    "dup2": files.dup2,
    "set_blocking": files.set_blocking,
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
