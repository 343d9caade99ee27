# SPDX-License-Identifier: BSD-2-Clause
"""Files of FAT, read by `fat_program`: names are found whatever their case, owners are root, links there are none."""

import json
import stat
from collections.abc import Iterator
from typing import IO

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backup_files import GuestFile
from ganeti.node.backups import fat_program, volumes
from ganeti.node.backups.guest_files import Entry, GuestFiles

ROOT = 0


class FatFiles(GuestFiles):
    """Numbers of inodes are those of first clusters here."""

    root = ROOT

    def _list(self, inode: int) -> str:
        return f"list {inode}"

    def _entries(self, file: IO[bytes]) -> Iterator[Entry]:
        yield Entry(ROOT, GuestFile(name=".", mode=stat.S_IFDIR | 0o755, uid=0, gid=0, size=0))
        for line in file:
            try:
                found = json.loads(line)
            except ValueError as err:
                raise BlockDeviceError("The file system in the backup cannot be read: it has too many files") from err
            yield Entry(found["cluster"], _file(found))

    def _is_called(self, known: str, name: str) -> bool:
        return known.casefold() == name.casefold()

    def _words(self, command: str) -> list[str]:
        return [*volumes.program(fat_program), self._name, str(self._offset), *command.split()]

    def _cat(self, inode: int, file: GuestFile) -> str:
        return f"cat {inode} {file.size}"


def _file(entry: dict[str, object]) -> GuestFile:
    kind = stat.S_IFDIR | 0o755 if entry["directory"] else stat.S_IFREG | (0o444 if entry["read_only"] else 0o644)
    return GuestFile(name=str(entry["name"]), mode=kind, uid=0, gid=0, size=int(str(entry["size"])))
