# SPDX-License-Identifier: BSD-2-Clause
"""What a simulated disk consists of: directories, files, symbolic links, sockets and devices, each as it is in the
cache and, as far as the two differ, as it is on the platter.

A file remembers the writes since its last sync, a directory the changes of its names; `power_loss` decides which of
them were in time. Both lists are None on a disk that has nothing to lose (volatile, or written through).
"""

import os
import stat
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from ganeti_simulation.disk.contents import Content, Pages, blocks_of, frozen, size_of, truncated, written
from ganeti_simulation.disk.faults import Faults

WRITES_KEPT = 4096
"""So many unsynced writes are remembered for a file; then the older half goes to the disk, as Linux does in time."""
_BLOCK_BYTES = 512
_PREFERRED_BYTES = 4096


class Source(Protocol):
    """Somebody who keeps the content of a file in a form of his own (a database); asked when it is wanted."""

    def content(self) -> bytes:
        """The bytes as they are now; also what is found after a power loss."""

    def size(self) -> int:
        """How many bytes `content` would give."""

    def dismiss(self) -> None:
        """The file's bytes are from now on in the file."""


class Holder(Protocol):
    """An open file as the file's lock or lease knows it."""

    def drop_lease(self) -> None: ...

    def let_go(self) -> None:
        """Give back lock and lease."""


class FileSystem(Protocol):
    """A disk as its inodes and open files know it."""

    boot: int
    device: int
    faults: Faults
    forgets: bool
    locking: "dict[Holder, None]"
    root: "Directory"
    time_s: float

    @property
    def is_limited(self) -> bool: ...

    def next_number(self) -> int: ...

    def now_ns(self) -> int: ...

    def free_blocks(self) -> int: ...

    def record(self, change: "Change") -> None: ...

    def sync(self, inode: "Inode") -> None: ...

    def settle_names(self) -> None: ...

    def lose(self, random: Random | None) -> None: ...

    def clone(self, copies: Any = None) -> Any: ...


class Inode:
    """What names point to. *mode* holds kind and permissions, as in `st_mode`."""

    __slots__ = (
        *("changed_ns", "disk", "group", "links", "mode", "modified_ns", "number", "synced_attributes", "told", "user"),
    )

    covered: "FileSystem | None" = None

    def __init__(self, disk: "FileSystem", mode: int) -> None:
        self.disk = disk
        self.number = disk.next_number()
        self.mode = mode
        self.user = 0
        self.group = 0
        self.links = 0
        self.modified_ns = self.changed_ns = disk.now_ns()
        self.synced_attributes: tuple[int, int, int] | None = None
        """Mode, user and group on the platter, where they differ from what is here."""
        self.told: tuple[Any, os.stat_result] | None = None
        """What `status` gave last, and for what."""

    def copied(self, disk: "FileSystem") -> Any:
        twin = object.__new__(type(self))
        twin.disk = disk
        twin.number = self.number
        twin.mode = self.mode
        twin.user = self.user
        twin.group = self.group
        twin.links = self.links
        twin.modified_ns = self.modified_ns
        twin.changed_ns = self.changed_ns
        twin.synced_attributes = self.synced_attributes
        twin.told = None
        return twin

    def size(self) -> int:
        return 0

    def blocks(self) -> int:
        """In units of `PAGE_BYTES`."""
        return 0

    def status(self) -> os.stat_result:
        size, blocks = self.size(), self.blocks()
        state = (self.mode, self.links, self.user, self.group, size, blocks, self.modified_ns, self.changed_ns)
        if self.told is None or self.told[0] != state:
            self.told = state, self._status(size, blocks)
        return self.told[1]

    def _status(self, size: int, blocks: int) -> os.stat_result:
        seconds, changed = self.modified_ns // 1_000_000_000, self.changed_ns // 1_000_000_000
        return os.stat_result(
            (
                *(self.mode, self.number, self.disk.device, self.links, self.user, self.group, size),
                *(seconds, seconds, changed),
                *(self.modified_ns / 1_000_000_000, self.modified_ns / 1_000_000_000, self.changed_ns / 1_000_000_000),
                *(self.modified_ns, self.modified_ns, self.changed_ns),
                *(_PREFERRED_BYTES, blocks * (_PREFERRED_BYTES // _BLOCK_BYTES), 0),
            )
        )

    def change_attributes(self, mode: int, user: int, group: int) -> None:
        """Permissions and owner, -1 for "as it is"; on the platter with the next sync."""
        if self.disk.forgets and self.synced_attributes is None:
            self.synced_attributes = (self.mode, self.user, self.group)
        if mode >= 0:
            self.mode = stat.S_IFMT(self.mode) | stat.S_IMODE(mode)
        if user >= 0:
            self.user = user
        if group >= 0:
            self.group = group
        self.changed_ns = self.disk.now_ns()

    def touch(self) -> None:
        self.modified_ns = self.changed_ns = self.disk.now_ns()


class File(Inode):
    """Bytes. *unsynced* lists (offset, data) of writes and (size, None) of truncations since *synced* was all there."""

    __slots__ = ("content", "lease", "locks", "opens", "reserved", "source", "synced", "unsynced", "waiting")

    def __init__(self, disk: "FileSystem", mode: int, content: Content = b"") -> None:
        super().__init__(disk, stat.S_IFREG | mode)
        self.content = content
        self.synced: bytes | Pages = b""
        self.unsynced: list[tuple[int, bytes | None]] | None = [] if disk.forgets else None
        self.source: Source | None = None
        self.reserved = 0
        self._settle()

    def _settle(self) -> None:
        self.opens = 0
        self.locks: dict[Holder, bool] = {}
        """Who has a lock by `flock`; True: for itself alone."""
        self.lease: Holder | None = None
        self.waiting: list[Callable[[], None]] = []
        """Told once, when a lock or the lease is given back."""

    def copied(self, disk: "FileSystem") -> "File":
        twin: File = super().copied(disk)
        if self.source is not None:
            twin.content = self.source.content()
        else:
            twin.content = frozen(self.content)
            if type(self.content) is bytearray:
                self.content = twin.content
        twin.synced = self.synced
        twin.unsynced = None if self.unsynced is None else self.unsynced.copy()
        twin.reserved = self.reserved
        twin.source = None
        twin._settle()
        return twin

    def size(self) -> int:
        return self.source.size() if self.source is not None else size_of(self.content)

    def blocks(self) -> int:
        if self.source is not None:
            return (self.source.size() + _PREFERRED_BYTES - 1) // _PREFERRED_BYTES
        return blocks_of(self.content, self.reserved)

    def take_over(self) -> None:
        """Have the content here, where somebody else has kept it."""
        source = self.source
        if source is not None:
            self.content = source.content()
            self.source = None
            source.dismiss()

    def bytes_now(self) -> Content:
        return self.content if self.source is None else self.source.content()

    def write(self, offset: int, data: bytes) -> None:
        """Into the cache; the caller has seen to the room."""
        if self.source is not None:
            self.take_over()
        log = self.unsynced
        if log is not None:
            if not log:
                self.synced = frozen(self.content)
            log.append((offset, data))
            if len(log) > WRITES_KEPT:
                self._write_back(len(log) // 2)
        self.content = written(self.content, offset, data)
        self.touch()

    def truncate(self, size: int) -> None:
        if self.source is not None:
            self.take_over()
        log = self.unsynced
        if log is not None:
            if not log:
                self.synced = frozen(self.content)
            log.append((size, None))
        self.content = truncated(self.content, size)
        self.touch()

    def sync(self) -> None:
        if self.unsynced:
            self.unsynced = []
            self.synced = b""
        self.synced_attributes = None

    def _write_back(self, count: int) -> None:
        log = self.unsynced or []
        content: Content = frozen(self.synced)
        for place, data in log[:count]:
            content = truncated(content, place) if data is None else written(content, place, data)
        self.synced = frozen(content)
        del log[:count]


class Directory(Inode):
    """Names. *unsynced* lists the changes since its last sync, oldest first."""

    __slots__ = ("covered", "entries", "placed", "unsynced", "watchers")

    def __init__(self, disk: "FileSystem", mode: int) -> None:
        super().__init__(disk, stat.S_IFDIR | mode)
        self.entries: dict[str, Inode] = {}
        self.unsynced: list[Change] | None = [] if disk.forgets else None
        self.covered: FileSystem | None = None
        """The disk mounted here."""
        self.placed: Change | None = None
        """What gave it the name it has."""
        self.watchers: list[Callable[[str], None]] = []
        self.links = 2

    def size(self) -> int:
        return _PREFERRED_BYTES

    def blocks(self) -> int:
        return 1


class SymbolicLink(Inode):
    __slots__ = ("target",)

    def __init__(self, disk: "FileSystem", target: str) -> None:
        super().__init__(disk, stat.S_IFLNK | 0o777)
        self.target = target

    def copied(self, disk: "FileSystem") -> "SymbolicLink":
        twin: SymbolicLink = super().copied(disk)
        twin.target = self.target
        return twin

    def size(self) -> int:
        return len(os.fsencode(self.target))


class Special(Inode):
    """A socket (*token* is whatever its maker wants back), a device, or a file made up when it is opened."""

    __slots__ = ("token",)

    def __init__(self, disk: "FileSystem", mode: int, token: Any) -> None:
        super().__init__(disk, mode)
        self.token = token

    def copied(self, disk: "FileSystem") -> "Special":
        twin: Special = super().copied(disk)
        twin.token = self.token
        return twin


class Change:
    """One atomic change of names: steps (directory, name, what it was, what it is)."""

    __slots__ = ("steps",)

    def __init__(self, *steps: tuple[Directory, str, Inode | None, Inode | None]) -> None:
        self.steps = steps
