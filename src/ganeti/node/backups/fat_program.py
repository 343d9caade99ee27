# SPDX-License-Identifier: BSD-2-Clause
"""Reads FAT12, FAT16 and FAT32 out of an image: a program that runs without any right (`volumes.as_nobody`).

    fat_program.py IMAGE OFFSET list CLUSTER      a JSON object a line; cluster 0 is the root directory
    fat_program.py IMAGE OFFSET cat CLUSTER SIZE  the bytes of a file

A guest wrote the image: every number of it is checked, and a chain in a circle ends. Needs the standard library only.
"""

import json
import os
import signal
import struct
import sys
from collections.abc import Iterator

_ENTRY_BYTES = 32
_MOST_DIRECTORY_BYTES = 65536 * _ENTRY_BYTES
_FREE, _DELETED, _LONG, _LABEL, _DIRECTORY, _READ_ONLY = 0x00, 0xE5, 0x0F, 0x08, 0x10, 0x01


class DamagedError(Exception):
    """The file system is not what it says."""


class Fat:
    """One file system; raises `DamagedError`."""

    def __init__(self, image: int, offset: int) -> None:
        self._image, self._offset = image, offset
        head = self._at(0, 512)
        self._sector, per_cluster, reserved, tables, roots, short = struct.unpack_from("<HBHBHH", head, 11)
        if self._sector not in (512, 1024, 2048, 4096) or per_cluster not in (1, 2, 4, 8, 16, 32, 64, 128):
            raise DamagedError("its boot sector names no possible size of sectors or clusters")
        small_table = struct.unpack_from("<H", head, 22)[0]
        table_sectors = small_table or struct.unpack_from("<I", head, 36)[0]
        self._cluster = per_cluster * self._sector
        self._table = reserved * self._sector
        self._root = (reserved + tables * table_sectors) * self._sector
        self._root_bytes = roots * _ENTRY_BYTES
        root_sectors = -(-self._root_bytes // self._sector)
        self._data = self._root + root_sectors * self._sector
        sectors = short or struct.unpack_from("<I", head, 32)[0]
        self.clusters = (sectors - self._data // self._sector) // per_cluster
        if self.clusters < 1 or not tables or not table_sectors:
            raise DamagedError("its boot sector names no clusters")
        # A small FAT32, as of an EFI partition, has fewer clusters than the others may: its table has no small size.
        self.bits = 32 if not small_table else 12 if self.clusters < 4085 else 16
        if self.bits != 32 and not roots:
            raise DamagedError("its boot sector names no root directory")
        self._root_cluster = struct.unpack_from("<I", head, 44)[0] if self.bits == 32 else 0

    def directory(self, cluster: int) -> bytes:
        """Its entries; 0 is the root."""
        if not cluster and self.bits != 32:
            return self._at(self._root, self._root_bytes)
        content = bytearray()
        for piece in self._pieces(cluster or self._root_cluster):
            content += piece
            if len(content) > _MOST_DIRECTORY_BYTES:
                raise DamagedError("a directory is larger than FAT allows")
        return bytes(content)

    def content(self, cluster: int, size: int) -> Iterator[bytes]:
        left = size
        for piece in self._pieces(cluster) if size else ():
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return
        if left > 0:
            raise DamagedError("the clusters of the file end before the file does")

    def _pieces(self, cluster: int) -> Iterator[bytes]:
        for _ in range(self.clusters):
            if not 2 <= cluster < self.clusters + 2:
                raise DamagedError("it names a cluster that there is not")
            yield self._at(self._data + (cluster - 2) * self._cluster, self._cluster)
            cluster = self._next(cluster)
            if cluster >= (1 << min(self.bits, 28)) - 8:
                return
        raise DamagedError("clusters of it form a circle")

    def _next(self, cluster: int) -> int:
        if self.bits == 32:
            return int(struct.unpack("<I", self._at(self._table + cluster * 4, 4))[0]) & 0x0FFFFFFF
        if self.bits == 16:
            return int(struct.unpack("<H", self._at(self._table + cluster * 2, 2))[0])
        both = int(struct.unpack("<H", self._at(self._table + cluster + cluster // 2, 2))[0])
        return both >> 4 if cluster % 2 else both & 0xFFF

    def _at(self, place: int, count: int) -> bytes:
        data = os.pread(self._image, count, self._offset + place)
        if len(data) < count:
            raise DamagedError("it is larger than its partition")
        return data


def entries(directory: bytes) -> Iterator[dict[str, object]]:
    """Name, cluster, size, and whether it is a directory or may only be read."""
    long: dict[int, str] = {}
    checksum = -1
    for at in range(0, len(directory) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
        entry = directory[at : at + _ENTRY_BYTES]
        if entry[0] == _FREE:
            return
        if entry[0] == _DELETED:
            long = {}
        elif entry[11] & 0x3F == _LONG:
            if entry[0] & 0x40:
                long, checksum = {}, entry[13]
            long[entry[0] & 0x3F] = (entry[1:11] + entry[14:26] + entry[28:32]).decode("utf-16-le", "replace")
        elif entry[11] & _LABEL:
            long = {}
        else:
            name = _short(entry)
            if long and checksum == _checksum(entry[:11]):
                name = "".join(long[number] for number in sorted(long)).partition("\0")[0]
            long = {}
            cluster = struct.unpack_from("<H", entry, 26)[0] | struct.unpack_from("<H", entry, 20)[0] << 16
            size = struct.unpack_from("<I", entry, 28)[0]
            if name and "/" not in name and "\0" not in name:
                kind = {"directory": bool(entry[11] & _DIRECTORY), "read_only": bool(entry[11] & _READ_ONLY)}
                yield {"name": name, "cluster": cluster, "size": size, **kind}


def _short(entry: bytes) -> str:
    first = bytes([_DELETED]) if entry[0] == 0x05 else entry[:1]
    base, ending = (part.decode("cp437").rstrip() for part in (first + entry[1:8], entry[8:11]))
    base = base.lower() if entry[12] & 0x08 else base
    ending = ending.lower() if entry[12] & 0x10 else ending
    return f"{base}.{ending}" if ending else base


def _checksum(name: bytes) -> int:
    total = 0
    for byte in name:
        total = ((total & 1) << 7 | total >> 1) + byte & 0xFF
    return total


def main(words: list[str]) -> int:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it: the caller set the limit and waits for this end
    try:
        fat = Fat(os.open(words[0], os.O_RDONLY | os.O_CLOEXEC), int(words[1]))
        if words[2] == "list":
            for entry in entries(fat.directory(int(words[3]))):
                print(json.dumps(entry))
        else:
            for piece in fat.content(int(words[3]), int(words[4])):
                sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    except (DamagedError, struct.error) as err:
        print(f"the FAT file system is damaged: {err}", file=sys.stderr)
        return 1
    except OSError as err:
        print(str(err), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
