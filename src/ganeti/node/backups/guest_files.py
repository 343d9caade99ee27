# SPDX-License-Identifier: BSD-2-Clause
"""Files of ext2, ext3 and ext4, read by `debugfs` of e2fsprogs, which needs no mount and no right.

Only numbers of inodes are given to it: no name that a guest or a user chose is a part of its commands.
"""

import heapq
import os
import re
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TypeVar

from ganeti.base.errors import BlockDeviceError
from ganeti.base.names import shown
from ganeti.model.node_calls.backup_files import FileSystem, FoundPath, GuestFile
from ganeti.node.backups import volumes
from ganeti.node.backups.room import require_room
from ganeti.node.storage.image_io import in_thread
from ganeti.ports.node_world import NodeWorld

T = TypeVar("T")
_MOST_LINKS = 40
_MOST_ENTRIES = 10_000
LARGEST_LISTING, LONGEST_LINK = 64 * 1024 * 1024, 4096
_LARGEST_STAT = 1024 * 1024
_TAKE_S = 24 * 3600.0
_ENTRY = re.compile(r"^/(\d+)/(\d{6})/(\d+)/(\d+)/([^/]*)/(\d*)/$", re.M)
_FAST_LINK = re.compile(r'^Fast link dest: "(.*)"\s*\Z', re.M | re.S)
_MOTTO = re.compile(r"debugfs \d.*")


@dataclass(frozen=True)
class Entry:
    """One name of a directory."""

    inode: int
    file: GuestFile


class GuestFiles:
    """One file system; raises `BlockDeviceError` for what is damaged."""

    root = 2
    """Its inode."""

    def __init__(self, world: NodeWorld, file_system: FileSystem, descriptor: int, spool: str) -> None:
        """*descriptor*: its disk, open for reading; *spool*: a directory for what is read."""
        self._world, self._spool = world, spool
        self._descriptor = descriptor
        self._name, self._offset = volumes.name_of(descriptor), file_system.offset

    async def find(self, path: str) -> FoundPath | None:
        """Symbolic links are followed, inside the file system."""
        found = await self._walk(path)
        if found is None:
            return None
        walked, entry = found
        if not stat.S_ISDIR(entry.file.mode):
            return FoundPath(path=walked, file=entry.file)
        first = await self._of_directory(entry.inode, _first_names)
        files = [each.file for each in first]
        cut = len(files) > _MOST_ENTRIES
        return FoundPath(path=walked, file=entry.file, entries=files[:_MOST_ENTRIES], cut=cut)

    async def take(self, path: str, target: str) -> None:
        """Copy a regular file to *target*."""
        found = await self._walk(path)
        if found is None or not stat.S_ISREG(found[1].file.mode):
            raise BlockDeviceError(f"{shown(path)} is no regular file in this backup")
        inode, file = found[1].inode, found[1].file
        require_room(self._spool, file.size, f"{shown(path)} of node {self._world.node_name}'s backup")
        await self._say(self._cat(inode, file), target, file.size, timeout_s=_TAKE_S)
        if (size := os.stat(target).st_size) != file.size:
            raise BlockDeviceError(f"{shown(path)} has {file.size} bytes, and {size} could be read: is there room?")

    async def _walk(self, path: str) -> tuple[str, Entry] | None:
        """Path without links, and what is there."""
        todo = [part for part in path.split("/") if part]
        root = await self._named(self.root, ".")
        if root is None:
            raise BlockDeviceError("The file system in the backup cannot be read: it has no root directory")
        trail: list[tuple[str, Entry]] = [("", root)]
        links = 0
        while todo:
            name = todo.pop(0)
            if name == ".":
                continue
            if name == "..":
                del trail[max(len(trail) - 1, 1) :]
                continue
            if not stat.S_ISDIR(trail[-1][1].file.mode):
                return None
            found = await self._named(trail[-1][1].inode, name)
            if found is None:
                return None
            if found.file.problem:
                raise BlockDeviceError(f"{shown(path)} cannot be read: {found.file.problem}")
            if not stat.S_ISLNK(found.file.mode):
                trail.append((found.file.name, found))
                continue
            links += 1
            if links > _MOST_LINKS:
                raise BlockDeviceError(f"{shown(path)} leads through too many symbolic links")
            target = await self._link(found.inode, found.file)
            todo = [part for part in target.split("/") if part] + todo
            if target.startswith("/"):
                del trail[1:]
        return "/" + "/".join(name for name, _ in trail[1:]), trail[-1][1]

    async def _named(self, inode: int, name: str) -> Entry | None:
        """What the directory *inode* has by this name."""
        return await self._of_directory(
            inode, lambda entries: next((each for each in entries if self._is_called(each.file.name, name)), None)
        )

    async def _of_directory(self, inode: int, choose: Callable[[Iterator[Entry]], T]) -> T:
        """What *choose* takes of a directory, `.` included, beside the event loop: a list may have 64 MiB."""
        with tempfile.NamedTemporaryFile(dir=self._spool) as file:
            await self._say(self._list(inode), file.name, LARGEST_LISTING)
            return await in_thread(lambda: choose(self._entries(file.file)))

    def _list(self, inode: int) -> str:
        return f"ls -p <{inode}>"

    def _entries(self, file: IO[bytes]) -> Iterator[Entry]:
        """What the program has said of a directory, one by one, so that others have their turn between."""
        for number, mode, uid, gid, name, size in map(re.Match.groups, _ENTRY.finditer(_text(file, LARGEST_LISTING))):
            if int(number):
                found = GuestFile(name=name, mode=int(mode, 8), uid=int(uid), gid=int(gid), size=int(size or 0))
                yield Entry(int(number), found)

    def _is_called(self, known: str, name: str) -> bool:
        return known == name

    async def _link(self, inode: int, file: GuestFile) -> str:
        if file.size > LONGEST_LINK:
            raise BlockDeviceError(f"The symbolic link {shown(file.name)} is damaged")
        fast = _FAST_LINK.search(await self._said(f"stat <{inode}>", _LARGEST_STAT))
        return fast[1] if fast else await self._said(self._cat(inode, file), LONGEST_LINK)

    def _words(self, command: str) -> list[str]:
        return ["debugfs", "-R", command, f"{self._name}?offset={self._offset}"]

    def _cat(self, inode: int, file: GuestFile) -> str:
        del file
        return f"cat <{inode}>"

    async def _said(self, command: str, most_bytes: int) -> str:
        with tempfile.NamedTemporaryFile(dir=self._spool) as file:
            await self._say(command, file.name, most_bytes)
            return _text(file, most_bytes)

    async def _say(self, command: str, stdout_path: str, most_bytes: int, *, timeout_s: float = 120.0) -> None:
        words = self._words(command)
        done = await volumes.as_nobody(
            self._world,
            words,
            self._descriptor,
            stdout_path=stdout_path,
            most_bytes=most_bytes,
            timeout_s=timeout_s,
        )
        if done.status == -signal.SIGXFSZ:
            raise BlockDeviceError(f"The file system in the backup holds something larger than {most_bytes} bytes")
        said = [line for line in done.stderr.splitlines() if line.strip() and not _MOTTO.match(line)]
        if said or done.status:
            raise BlockDeviceError(
                f"The file system in the backup cannot be read: {said[0] if said else f'status {done.status}'}"
            )


def _text(file: IO[bytes], most_bytes: int) -> str:
    return file.read(most_bytes).decode("utf-8", "replace")


def _first_names(entries: Iterator[Entry]) -> list[Entry]:
    """One more than are shown says that there are more."""
    inside = (each for each in entries if each.file.name not in (".", ".."))
    return heapq.nsmallest(_MOST_ENTRIES + 1, inside, key=lambda each: each.file.name)
