# SPDX-License-Identifier: BSD-2-Clause
"""The file system of one simulated machine: what a process sees of it, what a loss of power leaves, what can fail.

System calls by name are in `Names`, those on an open file in `OpenFile`; here are attributes, room, copies and power.
A `Disk` knows nothing of processes: umask, descriptors and current directories are the caller's.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from ganeti_simulation.disk import power_loss
from ganeti_simulation.disk.contents import PAGE_BYTES, Pages
from ganeti_simulation.disk.faults import Faults, refused
from ganeti_simulation.disk.inodes import Change, Directory, File, Holder, Inode
from ganeti_simulation.disk.names import Names, Shape

CACHED = "cached"
"""What is not synced may be lost with the power."""
WRITTEN_THROUGH = "written through"
"""Everything is kept: the storage of a server that several machines use."""
VOLATILE = "volatile"
"""Nothing is kept: /run, /tmp, /dev/shm."""
_CHANGES_KEPT = 4096
_UNLIMITED_BLOCKS = 1 << 28
_NAMES_LIMIT = 1 << 20


class Disk(Names):
    """One file system, with others mounted in it.

    *device* is `st_dev`: give file systems that meet in one machine different ones. *clock* gives the time of the
    machine in seconds; without it `time_s` is the time. With *journal* a sync of anything makes all earlier changes
    of names durable, as ext4 does; without it only what POSIX promises holds.
    """

    def __init__(
        self,
        *,
        durability: str = CACHED,
        device: int = 1,
        clock: Callable[[], float] | None = None,
        capacity_bytes: int | None = None,
        journal: bool = False,
    ) -> None:
        self.durability = durability
        self.forgets = durability == CACHED
        self.device = device
        self.clock = clock
        self.time_s = 0.0
        self.capacity_bytes = capacity_bytes
        self.journal = journal
        self.boot = 0
        """How often this machine has lost its power."""
        self.faults = Faults()
        """Of the machine: only its root disk has any."""
        self.locking: dict[Holder, None] = {}
        """Open files with locks or leases."""
        self._numbers = 1
        self._dirty: dict[Directory, None] = {}
        self.root = Directory(self, 0o755)
        self.places = {}

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def now_ns(self) -> int:
        return round((self.clock() if self.clock is not None else self.time_s) * 1e6) * 1000

    # What is made, and when it is safe

    def record(self, change: Change) -> None:
        """Note a change of names that a loss of power may take back."""
        steps = change.steps
        after = steps[0][3]
        if not self.forgets:
            return
        if type(after) is Directory:
            after.placed = change
        last: Directory | None = None
        for step in steps:
            directory = step[0]
            unsynced = directory.unsynced
            if directory is last or unsynced is None:
                continue
            last = directory
            unsynced.append(change)
            self._dirty[directory] = None
            if len(unsynced) > _CHANGES_KEPT:
                power_loss.settle(directory, len(unsynced) // 2)

    def sync(self, inode: Inode) -> None:
        """What fsync does."""
        if type(inode) is File:
            inode.sync()
        elif type(inode) is Directory and inode.unsynced:
            power_loss.settle(inode, len(inode.unsynced))
            self._dirty.pop(inode, None)
        inode.synced_attributes = None
        if self.journal and self._dirty:
            self.settle_names()

    def settle_names(self) -> None:
        """All changes of names so far are durable."""
        for directory in self._dirty:
            power_loss.settle(directory, len(directory.unsynced or ()))
        self._dirty.clear()

    def sync_all(self) -> None:
        """Everything as it is now is durable."""
        self.settle_names()
        for inode in self.inodes():
            inode.synced_attributes = None
            if type(inode) is File:
                inode.sync()

    def inodes(self) -> Iterator[Inode]:
        """Everything that has a name on this disk, once."""
        pending: list[Inode] = [self.root]
        seen: set[int] = set()
        while pending:
            inode = pending.pop()
            if inode.links > 1 and type(inode) is not Directory:
                if inode.number in seen:
                    continue
                seen.add(inode.number)
            yield inode
            if type(inode) is Directory:
                pending.extend(inode.entries.values())

    # Attributes and contents

    def chmod(self, path: str, mode: int) -> None:
        self.there(path).change_attributes(mode, -1, -1)

    def chown(self, path: str, user: int, group: int, follow: bool = True) -> None:
        self.there(path, follow).change_attributes(-1, user, group)

    def utime(self, path: str, modified_ns: int | None = None, follow: bool = True) -> None:
        inode = self.there(path, follow)
        inode.changed_ns = self.now_ns()
        inode.modified_ns = inode.changed_ns if modified_ns is None else modified_ns

    def truncate(self, path: str, size: int) -> None:
        file = self.there(path)
        if type(file) is Directory:
            raise refused(errno.EISDIR, path)
        if type(file) is not File or size < 0:
            raise refused(errno.EINVAL, path)
        file.truncate(size)

    def exists(self, path: str) -> bool:
        return self.look(path) is not None

    def isdir(self, path: str) -> bool:
        return type(self.look(path)) is Directory

    def isfile(self, path: str) -> bool:
        inode = self.look(path)
        return inode is not None and stat.S_ISREG(inode.mode)

    def content(self, path: str) -> bytes:
        """The whole file, as a look from outside: no fault meets it."""
        file = self.there(path)
        return b"" if type(file) is not File else bytes(_whole(file))

    def watch(self, path: str, callback: Callable[[str], None]) -> Any:
        """Have *callback* told the name of everything renamed into the directory; gives a handle for `unwatch`."""
        directory = self.there(path)
        if type(directory) is not Directory:
            raise refused(errno.ENOTDIR, path)
        directory.watchers.append(callback)
        return directory, callback

    def unwatch(self, handle: Any) -> None:
        directory, callback = handle
        if callback in directory.watchers:
            directory.watchers.remove(callback)

    # Room

    @property
    def is_limited(self) -> bool:
        return self.capacity_bytes is not None

    def free_blocks(self) -> int:
        """Blocks of `PAGE_BYTES`; less than none if the disk has been made smaller than what is on it."""
        if self.capacity_bytes is None:
            return _UNLIMITED_BLOCKS
        return self.capacity_bytes // PAGE_BYTES - sum(inode.blocks() for inode in self.inodes())

    def statvfs(self, path: str) -> os.statvfs_result:
        disk = self.there(path).disk
        free = max(disk.free_blocks(), 0)
        blocks = _UNLIMITED_BLOCKS * 2 if disk.capacity_bytes is None else disk.capacity_bytes // PAGE_BYTES
        names = (_NAMES_LIMIT, _NAMES_LIMIT, _NAMES_LIMIT)
        return os.statvfs_result((PAGE_BYTES, PAGE_BYTES, blocks, free, free, *names, 0, 255))

    def power_loss(self, random: Random | None = None, *, keep_all: bool = False) -> None:
        """Leave what is found when the machine runs again: one of the possible states, or without *random* nothing
        that was not synced. Open files are dead from now on (EIO), and what was mounted in memory is empty."""
        self.boot += 1
        Shape.changes += 1
        for file in list(self.locking):
            file.let_go()
        if keep_all:
            self.sync_all()
        self.lose(random)

    def lose(self, random: Random | None) -> None:
        """As `power_loss`, of this disk and those mounted in it."""
        if self.durability == VOLATILE:
            self.root.entries.clear()
            self.root.watchers = []
            return
        if self.durability == WRITTEN_THROUGH:
            return
        power_loss.lose_names([directory for directory in self._dirty if directory.unsynced], random)
        self._dirty.clear()
        files: dict[Inode, int] = {}
        for directory in self._directories():
            children = list(directory.entries.values())
            directory.links = 2 + sum(type(child) is Directory for child in children)
            for child in children:
                if type(child) is not Directory:
                    files[child] = files.get(child, 0) + 1
            power_loss.lose_attributes(directory, random)
            directory.placed = None
            directory.watchers = []
            if directory.covered is not None:
                directory.covered.lose(random)
        for file, links in files.items():
            file.links = links
            power_loss.lose_attributes(file, random)
            if type(file) is File:
                power_loss.lose_writes(file, random)

    def _directories(self) -> Iterator[Directory]:
        pending = [self.root]
        while pending:
            directory = pending.pop()
            yield directory
            pending.extend(child for child in directory.entries.values() if type(child) is Directory)

    # Copies

    def clone(self, copies: "dict[Disk, Disk] | None" = None) -> "Disk":
        """The same disk for another simulation, with nothing open and nothing failing; contents are shared until one
        side changes them. Give one *copies* for several disks that have the same file system mounted."""
        copies = {} if copies is None else copies
        if self in copies:
            return copies[self]
        twin = Disk(
            durability=self.durability,
            device=self.device,
            clock=self.clock,
            capacity_bytes=self.capacity_bytes,
            journal=self.journal,
        )
        copies[self] = twin
        twin.time_s = self.time_s
        known: dict[Inode, Any] = {}
        twin.root = _copied_directory(self.root, twin, known, copies)
        for directory in self._dirty:
            _copied_changes(directory, twin, known, copies)
        twin._numbers = self._numbers
        return twin


def _whole(file: File) -> bytes | bytearray:
    content = file.bytes_now()
    return content.read(0, content.size) if isinstance(content, Pages) else content


def _copied_directory(directory: Directory, disk: Disk, known: dict[Inode, Any], copies: dict[Disk, Disk]) -> Directory:
    twin: Directory = directory.copied(disk)
    known[directory] = twin
    twin.unsynced = None if directory.unsynced is None else []
    twin.watchers = []
    twin.placed = None
    twin.covered = None if directory.covered is None else directory.covered.clone(copies)
    twin.entries = {name: _copied(inode, disk, known, copies) for name, inode in directory.entries.items()}
    return twin


def _copied(inode: Inode | None, disk: Disk, known: dict[Inode, Any], copies: dict[Disk, Disk]) -> Any:
    if inode is None:
        return None
    twin = known.get(inode)
    if twin is None:
        if type(inode) is Directory:
            return _copied_directory(inode, disk, known, copies)
        twin = known[inode] = inode.copied(disk)
    return twin


def _copied_changes(directory: Directory, disk: Disk, known: dict[Inode, Any], copies: dict[Disk, Disk]) -> None:
    changes: dict[Change, Change] = known  # type: ignore[assignment]  # one table of what was copied serves for both
    for change in directory.unsynced or ():
        if change not in changes:
            steps = [
                tuple(part if isinstance(part, str) else _copied(part, disk, known, copies) for part in step)
                for step in change.steps
            ]
            changes[change] = Change(*steps)  # type: ignore[arg-type]
            for step in change.steps:
                after = step[3]
                if type(after) is Directory and after.placed is change:
                    known[after].placed = changes[change]
        twin: Directory = _copied(directory, disk, known, copies)
        assert twin.unsynced is not None
        twin.unsynced.append(changes[change])
        disk._dirty[twin] = None
