# SPDX-License-Identifier: BSD-2-Clause
"""Calls of `os` about open files, and about a file by its path as a whole."""

import errno
import os as real
import posixpath
import stat as modes
from typing import Any

from ganeti_simulation.facades.arguments import absolute, description_of, file_of
from ganeti_simulation.system.descriptors import FileDescription, Generated, make_pipe
from ganeti_simulation.system.kernel import Running, wait_for
from ganeti_simulation.system.machine import here, machine_of


def open_(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    process = Running.process()
    if dir_fd is not None:
        path = posixpath.join(description_of(dir_fd).path, real.fsdecode(path))  # type: ignore[attr-defined]
    name = absolute(path)
    if name[:6] == "/proc/" and (generated := machine_of(process).generated(name, process)) is not None:
        return process.install(Generated(generated))
    if flags & (real.O_CREAT | real.O_TRUNC):
        Running.kernel.system_call()
        mode &= ~process.local.get("umask", 0o022)
    file = machine_of(process).disk.open(name, flags, mode, Running.kernel.now_s)
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
    here().wait_for_disk()
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
    if name[:6] == "/proc/" and machine_of(process).generated(name, process) is not None:
        return real.stat_result((modes.S_IFREG | 0o444, 1, 98, 1, 0, 0, 0, 0, 0, 0))
    disk = machine_of(process).disk
    return disk.stat(name) if follow_symlinks else disk.lstat(name)


def lstat(path: Any, *, dir_fd: int | None = None) -> Any:
    return stat(path, follow_symlinks=False)


def fchmod(number: int, mode: int) -> None:
    Running.kernel.system_call()
    description = description_of(number)
    if isinstance(description, FileDescription):
        description.file.chmod(mode)


def fchown(number: int, user: int, group: int) -> None:
    """Everybody is root here."""


def memfd_create(name: str, flags: int = 0) -> int:
    """A file that nobody else sees."""
    process = Running.process()
    process.local["memory_files"] = process.local.get("memory_files", 0) + 1
    path = f"/run/.memory-{process.pid}-{process.local['memory_files']}"
    number = open_(path, real.O_RDWR | real.O_CREAT, 0o600)
    machine_of(process).disk.unlink(path)
    return number


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
