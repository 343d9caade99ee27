# SPDX-License-Identifier: BSD-2-Clause
"""An open file description of a simulated machine: what `dup` and `fork` share."""

import errno
import fcntl
import os
from collections.abc import Callable
from typing import Any

from ganeti_simulation.disk.contents import PAGE_BYTES, Pages, part_of
from ganeti_simulation.disk.devices import MadeUp
from ganeti_simulation.disk.faults import refused
from ganeti_simulation.disk.inodes import Directory, File, FileSystem, Inode, Special

_ACCESS = os.O_RDONLY | os.O_WRONLY | os.O_RDWR


class OpenFile:
    """Errors are `OSError` as of the system calls of the same names. *host* is the machine's root disk: its faults
    reach the file, and its loss of power ends it (EIO from then on)."""

    __slots__ = (
        *("append", "boot", "closed", "flags", "host", "inode", "path", "position", "readable", "writable"),
        "made_up",
    )

    def __init__(self, host: FileSystem, inode: Inode, flags: int, path: str) -> None:
        self.host = host
        self.boot = host.boot
        self.inode: Any = inode
        self.path = path
        self.flags = flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOCTTY)
        access = flags & _ACCESS
        opaque = flags & os.O_PATH
        self.readable = access != os.O_WRONLY and not opaque
        self.writable = access != os.O_RDONLY and not opaque
        self.append = bool(flags & os.O_APPEND)
        self.position = 0
        self.closed = False
        self.made_up: bytes | None = None
        """The content of a file that is made up when it is opened."""
        if type(inode) is File:
            inode.opens += 1
        elif type(inode) is Special and type(inode.token) is MadeUp and self.readable:
            self.made_up = inode.token.give()

    def _check(self, kind: str) -> None:
        if self.closed:
            raise refused(errno.EBADF)
        if self.boot != self.host.boot:
            raise refused(errno.EIO)
        if self.host.faults:
            self.host.faults.meet(kind, self.path)

    def fstat(self) -> os.stat_result:
        self._check("stat")
        status: os.stat_result = self.inode.status()
        return status

    def read(self, count: int) -> bytes:
        data = self.pread(count, self.position)
        self.position += len(data)
        return data

    def pread(self, count: int, offset: int) -> bytes:
        if self.closed or self.boot != self.host.boot or self.host.faults:
            self._check("read")
        if not self.readable:
            raise refused(errno.EBADF)
        inode = self.inode
        if type(inode) is File:
            return part_of(inode.content if inode.source is None else inode.source.content(), offset, count)
        if type(inode) is Directory:
            raise refused(errno.EISDIR)
        if self.made_up is not None:
            return self.made_up[offset : offset + count]
        data: bytes = inode.token.read(count)
        return data

    def write(self, data: "bytes | bytearray | memoryview") -> int:
        inode = self.inode
        offset = inode.size() if self.append else self.position
        count = self._write_at(data, offset)
        self.position = offset + count
        return count

    def pwrite(self, data: "bytes | bytearray | memoryview", offset: int) -> int:
        """With O_APPEND the data goes to the end, whatever *offset* is: so does Linux."""
        return self._write_at(data, self.inode.size() if self.append else offset)

    def _write_at(self, data: "bytes | bytearray | memoryview", offset: int) -> int:
        if self.closed or self.boot != self.host.boot or self.host.faults:
            self._check("write")
        if not self.writable:
            raise refused(errno.EBADF)
        inode = self.inode
        given = data if type(data) is bytes else bytes(data)
        if type(inode) is not File:
            count: int = inode.token.write(given)
            return count
        if not given:
            return 0
        disk = inode.disk
        if disk.is_limited:
            given = given[: _room(inode, offset, len(given))]
        inode.write(offset, given)
        return len(given)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check("seek")
        if whence == os.SEEK_CUR:
            offset += self.position
        elif whence == os.SEEK_END:
            offset += self.inode.size()
        elif whence != os.SEEK_SET:
            raise refused(errno.EINVAL)
        if offset < 0:
            raise refused(errno.EINVAL)
        self.position = offset
        return offset

    def truncate(self, size: int) -> None:
        self._check("write")
        if type(self.inode) is not File or not self.writable or size < 0:
            raise refused(errno.EINVAL)
        self.inode.truncate(size)

    def fallocate(self, offset: int, count: int) -> None:
        """As `posix_fallocate`: the room is there afterwards, and the file as long as *offset* + *count*."""
        self._check("write")
        if not self.writable:
            raise refused(errno.EBADF)
        if offset < 0 or count <= 0:
            raise refused(errno.EINVAL)
        if type(self.inode) is not File:
            raise refused(errno.ENODEV)
        inode, end = self.inode, offset + count
        blocks = (end + PAGE_BYTES - 1) // PAGE_BYTES
        if inode.disk.is_limited and blocks - inode.blocks() > inode.disk.free_blocks():
            raise refused(errno.ENOSPC)
        inode.reserved = max(inode.reserved, blocks)
        if end > inode.size():
            inode.truncate(end)

    def fsync(self) -> None:
        if self.closed or self.boot != self.host.boot or self.host.faults:
            self._check("fsync")
        inode = self.inode
        if type(inode) not in (File, Directory):
            raise refused(errno.EINVAL)
        inode.disk.sync(inode)

    fdatasync = fsync

    def chmod(self, mode: int) -> None:
        self._check("chmod")
        self.inode.change_attributes(mode, -1, -1)

    def chown(self, user: int, group: int) -> None:
        self._check("chmod")
        self.inode.change_attributes(-1, user, group)

    def listdir(self) -> list[str]:
        self._check("read")
        if type(self.inode) is not Directory:
            raise refused(errno.ENOTDIR)
        return list(self.inode.entries)

    def flock(self, operation: int) -> bool:
        """Take or drop the lock of this description; False: somebody else has it and the caller wants to wait, see
        `when_given_back`. As on Linux, changing the kind of a lock drops it first, even if the new one is refused."""
        self._check("lock")
        inode = self.inode
        if type(inode) is not File:
            return True
        holders = inode.locks
        wanted = operation & ~fcntl.LOCK_NB
        if wanted == fcntl.LOCK_UN:
            self._unlock()
            return True
        if wanted not in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            raise refused(errno.EINVAL)
        alone = wanted == fcntl.LOCK_EX
        if holders.get(self) is alone:
            return True
        self._unlock()
        if holders and (alone or True in holders.values()):
            if operation & fcntl.LOCK_NB:
                raise refused(errno.EAGAIN)
            return False
        holders[self] = alone
        self.host.locking[self] = None
        return True

    def _unlock(self) -> None:
        if self.inode.locks.pop(self, None) is not None:
            self.host.locking.pop(self, None)
            self._tell_waiting()

    def when_given_back(self, callback: Callable[[], None]) -> None:
        """Call *callback* once, when a lock of the file or its lease is given back."""
        self.inode.waiting.append(callback)

    def set_lease(self, kind: int) -> None:
        """`F_SETLEASE`: F_WRLCK if nobody else has the file open, F_UNLCK to give it back; EAGAIN else."""
        self._check("lock")
        inode = self.inode
        if type(inode) is not File:
            raise refused(errno.EINVAL)
        if kind == fcntl.F_UNLCK:
            if inode.lease is not self:
                raise refused(errno.EAGAIN)
            self.drop_lease()
        elif kind == fcntl.F_WRLCK and inode.opens == 1:
            inode.lease = self
            self.host.locking[self] = None
        else:
            raise refused(errno.EAGAIN)

    def drop_lease(self) -> None:
        """Also what the kernel does to a holder who does not give it back in time."""
        if self.inode.lease is self:
            self.inode.lease = None
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        waiting, self.inode.waiting = self.inode.waiting, []
        for callback in waiting:
            callback()

    def close(self) -> None:
        """The last descriptor is gone: locks and lease are given back. Twice does no harm."""
        if self.closed:
            return
        self.closed = True
        inode = self.inode
        if type(inode) is File and self.boot == self.host.boot:
            inode.opens -= 1
            if inode.locks or inode.lease is not None:
                self.let_go()

    def let_go(self) -> None:
        self._unlock()
        self.drop_lease()
        self.host.locking.pop(self, None)


def _room(file: File, offset: int, count: int) -> int:
    """How many of *count* bytes can be written; ENOSPC if none."""
    first, last = offset // PAGE_BYTES, (offset + count - 1) // PAGE_BYTES
    content, reserved = file.content, file.reserved
    known: Any = content.pages if type(content) is Pages else range(file.blocks())
    free = file.disk.free_blocks()
    for number in range(first, last + 1):
        if number not in known and number >= reserved:
            free -= 1
            if free < 0:
                room = number * PAGE_BYTES - offset
                if room <= 0:
                    raise refused(errno.ENOSPC)
                return room
    return count
