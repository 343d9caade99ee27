# SPDX-License-Identifier: BSD-2-Clause
"""Files of ext2, ext3 and ext4, read by `debugfs` of e2fsprogs, which needs no mount and no right.

Only numbers of inodes are given to it: no name that a guest or a user chose is a part of its commands.
"""

import os
import re
import signal
import stat
import tempfile

from ganeti.base.errors import BlockDeviceError
from ganeti.base.names import shown
from ganeti.model.node_calls.backup_files import FileSystem, FoundPath, GuestFile
from ganeti.node.backups import volumes
from ganeti.node.backups.room import require_room
from ganeti.ports.node_world import NodeWorld

_MOST_LINKS = 40
_MOST_ENTRIES = 10_000
LARGEST_LISTING, LONGEST_LINK = 64 * 1024 * 1024, 4096
_TAKE_S = 24 * 3600.0
_ENTRY = re.compile(r"^/(\d+)/(\d{6})/(\d+)/(\d+)/([^/]*)/(\d*)/$", re.M)
_FAST_LINK = re.compile(r'^Fast link dest: "(.*)"\s*\Z', re.M | re.S)
_MOTTO = re.compile(r"debugfs \d.*")


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
        walked, inode, file = found
        entries = None
        if stat.S_ISDIR(file.mode):
            inside = {name: each for name, each in (await self._entries(inode)).items() if name not in (".", "..")}
            entries = [inside[name][1] for name in sorted(inside)[:_MOST_ENTRIES]]
        cut = entries is not None and len(inside) > len(entries)
        return FoundPath(path=walked, file=file, entries=entries, cut=cut)

    async def take(self, path: str, target: str) -> None:
        """Copy a regular file to *target*."""
        found = await self._walk(path)
        if found is None or not stat.S_ISREG(found[2].mode):
            raise BlockDeviceError(f"{shown(path)} is no regular file in this backup")
        _, inode, file = found
        require_room(self._spool, file.size, f"{shown(path)} of node {self._world.node_name}'s backup")
        await self._say(self._cat(inode, file), target, file.size, timeout_s=_TAKE_S)
        if (size := os.stat(target).st_size) != file.size:
            raise BlockDeviceError(f"{shown(path)} has {file.size} bytes, and {size} could be read: is there room?")

    async def _walk(self, path: str) -> tuple[str, int, GuestFile] | None:
        """Path without links, inode and file."""
        todo = [part for part in path.split("/") if part]
        root = (await self._entries(self.root))["."]
        trail: list[tuple[str, int, GuestFile]] = [("", root[0], root[1])]
        links = 0
        while todo:
            name = todo.pop(0)
            if name == ".":
                continue
            if name == "..":
                del trail[max(len(trail) - 1, 1) :]
                continue
            if not stat.S_ISDIR(trail[-1][2].mode):
                return None
            known = self._look_up(await self._entries(trail[-1][1]), name)
            if known is None:
                return None
            name, found = known
            if not stat.S_ISLNK(found[1].mode):
                trail.append((name, *found))
                continue
            links += 1
            if links > _MOST_LINKS:
                raise BlockDeviceError(f"{shown(path)} leads through too many symbolic links")
            target = await self._link(*found)
            todo = [part for part in target.split("/") if part] + todo
            if target.startswith("/"):
                del trail[1:]
        return "/" + "/".join(each[0] for each in trail[1:]), trail[-1][1], trail[-1][2]

    async def _entries(self, inode: int) -> dict[str, tuple[int, GuestFile]]:
        text = await self._said(f"ls -p <{inode}>", LARGEST_LISTING)
        return {
            name: (
                int(number),
                GuestFile(name=name, mode=int(mode, 8), uid=int(uid), gid=int(gid), size=int(size or 0)),
            )
            for number, mode, uid, gid, name, size in _ENTRY.findall(text)
            if int(number)
        }

    def _look_up(
        self, entries: dict[str, tuple[int, GuestFile]], name: str
    ) -> tuple[str, tuple[int, GuestFile]] | None:
        return (name, entries[name]) if name in entries else None

    async def _link(self, inode: int, file: GuestFile) -> str:
        if file.size > LONGEST_LINK:
            raise BlockDeviceError(f"The symbolic link {shown(file.name)} is damaged")
        fast = _FAST_LINK.search(await self._said(f"stat <{inode}>", LARGEST_LISTING))
        return fast[1] if fast else await self._said(self._cat(inode, file), LONGEST_LINK)

    def _words(self, command: str) -> list[str]:
        return ["debugfs", "-R", command, f"{self._name}?offset={self._offset}"]

    def _cat(self, inode: int, file: GuestFile) -> str:
        del file
        return f"cat <{inode}>"

    async def _said(self, command: str, most_bytes: int) -> str:
        with tempfile.NamedTemporaryFile(dir=self._spool) as file:
            await self._say(command, file.name, most_bytes)
            return file.read(most_bytes).decode("utf-8", "replace")

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
