# SPDX-License-Identifier: BSD-2-Clause
"""Files of XFS, read by `xfs_program`, also out of a logical volume in several pieces."""

from collections.abc import Iterator
from typing import IO

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.model.node_calls.backup_files import FileSystem, GuestFile
from ganeti.node.backups import volumes, xfs_program
from ganeti.node.backups.guest_files import LONGEST_LINK, Entry, GuestFiles
from ganeti.ports.node_world import NodeWorld


class _Entry(GuestFile, frozen=True, kw_only=True):
    inode: int


class XfsFiles(GuestFiles):
    """Inode 0 is the root directory's, whatever its number is."""

    root = 0

    def __init__(self, world: NodeWorld, file_system: FileSystem, descriptor: int, spool: str) -> None:
        super().__init__(world, file_system, descriptor, spool)
        pieces = [f"{offset}+{length}" for offset, length in file_system.pieces]
        self._pieces = ",".join(pieces) or str(file_system.offset)

    def _list(self, inode: int) -> str:
        return f"list {inode}"

    def _entries(self, file: IO[bytes]) -> Iterator[Entry]:
        for line in file:
            try:
                found = msgspec.json.decode(line, type=_Entry)
            except UNREADABLE_JSON as err:
                raise BlockDeviceError("The file system in the backup cannot be read: it has too many files") from err
            yield Entry(found.inode, _file(found))

    async def _link(self, inode: int, file: GuestFile) -> str:
        if file.size > LONGEST_LINK:
            raise BlockDeviceError("A symbolic link of the file system in the backup is damaged")
        return await self._said(f"link {inode}", LONGEST_LINK)

    def _words(self, command: str) -> list[str]:
        return [*volumes.program(xfs_program), self._name, self._pieces, *command.split()]

    def _cat(self, inode: int, file: GuestFile) -> str:
        return f"cat {inode} {file.size}"


def _file(entry: _Entry) -> GuestFile:
    return GuestFile(**{name: getattr(entry, name) for name in GuestFile.__struct_fields__})
