# SPDX-License-Identifier: BSD-2-Clause
"""Reads where the logical volumes of LVM lie on one physical volume: a program without any right (`volumes.as_nobody`).

    lvm_program.py IMAGE OFFSET     a JSON object a line: name, and pieces of (offset, length) in bytes of the image

Volumes that lie on other disks too, or are more than a row of extents (thin, RAID, striped, cached ones), have no
pieces. A guest wrote the image: every number is checked. Needs the standard library only; the format is LVM2's text
format.
"""

import json
import os
import re
import struct
import sys
import zlib
from typing import Any

_SECTOR = 512
_LABEL_SECTORS = 4
_MOST_TEXT = 16 * 1024 * 1024
_MOST_VOLUMES, _MOST_PIECES = 256, 1000
_MOST_BYTES = 1 << 62
_FIRST_CRC = 0xF597A6CF
_MAGIC = b" LVM2 x[5A%r0N*>"
_IGNORED = 1
_DEEPEST = 10
_NAME = re.compile(r"[A-Za-z0-9+_.-]{1,127}")
_TOKEN = re.compile(r'\s+|#[^\n]*|(?P<word>[{}=\[\],]|"(?:[^"\\]|\\.)*"|[^\s{}=\[\],"#]+)')


class DamagedError(Exception):
    """The physical volume is not what it says."""


class Reader:
    """One physical volume; raises `DamagedError`."""

    def __init__(self, image: int, offset: int) -> None:
        self._image, self._offset = image, offset

    def volumes(self) -> list[dict[str, Any]]:
        own, text = self._label()
        if text is None:
            return []
        top = parsed(text)
        for name, group in top.items():
            if isinstance(group, dict) and "physical_volumes" in group and _NAME.fullmatch(name):
                return self._volumes(own, name, group)
        raise DamagedError("its metadata name no volume group")

    def _volumes(self, own: str, group_name: str, group: dict[str, Any]) -> list[dict[str, Any]]:
        extent = _number(group, "extent_size") * _SECTOR
        begins = {
            key: self._offset + _number(each, "pe_start") * _SECTOR
            for key, each in _sections(group, "physical_volumes").items()
            if str(each.get("id", "")).replace("-", "") == own
        }
        found = []
        for name, volume in list(_sections(group, "logical_volumes").items())[:_MOST_VOLUMES]:
            status = volume.get("status")
            if isinstance(status, list) and "VISIBLE" in status and _NAME.fullmatch(name):
                found.append({"name": f"{group_name}/{name}", "pieces": _pieces(volume, begins, extent)})
        return found

    def _label(self) -> tuple[str, str | None]:
        """The id of the physical volume, and its metadata; None where they are on others."""
        for sector in range(_LABEL_SECTORS):
            data = self._at(sector * _SECTOR, _SECTOR)
            if data[:8] == b"LABELONE" and data[24:32] == b"LVM2 001":
                begins = int(struct.unpack_from("<I", data, 20)[0])
                return data[begins : begins + 32].decode("ascii"), self._text(data, begins + 40)
        raise DamagedError("it has no label")

    def _text(self, data: bytes, at: int) -> str | None:
        at = _after_list(data, at)  # areas of data come first
        while (area := struct.unpack_from("<QQ", data, at))[0]:
            if (text := self._area(*area)) is not None:
                return text
            at += 16
        return None

    def _area(self, begins: int, size: int) -> str | None:
        head = self._at(begins, _SECTOR)
        place, count, checksum, flags = struct.unpack_from("<QQII", head, 40)
        if head[4:20] != _MAGIC:
            raise DamagedError("its area of metadata is not valid")
        if not count or flags & _IGNORED:
            return None
        if count > min(size, _MOST_TEXT) or not _SECTOR <= place < size:
            raise DamagedError("its metadata are larger than their area")
        first = min(count, size - place)
        text = self._at(begins + place, first) + (self._at(begins + _SECTOR, count - first) if count > first else b"")
        if zlib.crc32(text, _FIRST_CRC ^ 0xFFFFFFFF) ^ 0xFFFFFFFF != checksum:
            raise DamagedError("the checksum of its metadata is wrong")
        return text.rstrip(b"\0").decode("utf-8", "replace")

    def _at(self, place: int, count: int) -> bytes:
        data = os.pread(self._image, count, self._offset + place)
        if len(data) < count:
            raise DamagedError("it is larger than its partition")
        return data


def parsed(text: str) -> dict[str, Any]:
    """Sections of LVM's text as dictionaries; numbers and strings as such."""
    words = [found["word"] for found in _TOKEN.finditer(text) if found["word"]]
    section, at = _section(words, 0, 0)
    if at < len(words):
        raise DamagedError("its metadata close a section that they did not open")
    return section


def _section(words: list[str], at: int, depth: int) -> tuple[dict[str, Any], int]:
    if depth > _DEEPEST:
        raise DamagedError("sections of its metadata lie too deep")
    found: dict[str, Any] = {}
    while at < len(words) and words[at] != "}":
        name, follows = words[at], words[at + 1]
        if follows == "{":
            found[name], at = _section(words, at + 2, depth + 1)
            at += 1
        elif follows == "=" and words[at + 2] == "[":
            ends = words.index("]", at)
            found[name] = [_value(word) for word in words[at + 3 : ends] if word != ","]
            at = ends + 1
        elif follows == "=":
            found[name] = _value(words[at + 2])
            at += 3
        else:
            raise DamagedError("its metadata are no text of LVM")
    return found, at


def _value(word: str) -> int | str:
    if word.startswith('"'):
        return re.sub(r"\\(.)", r"\1", word[1:-1])
    return int(word) if re.fullmatch(r"\d{1,19}", word) else word


def _pieces(volume: dict[str, Any], begins: dict[str, int], extent: int) -> list[list[int]] | None:
    """Those next to each other are one; None for a volume that cannot be read so."""
    found: list[list[int]] = []
    count, reached = _number(volume, "segment_count"), 0
    if count > _MOST_PIECES:
        return None
    for segment in (volume.get(f"segment{number + 1}") for number in range(count)):
        if not isinstance(segment, dict) or segment.get("type") not in ("striped", "linear"):
            return None
        stripes = segment.get("stripes")
        if segment.get("stripe_count") != 1 or not isinstance(stripes, list) or len(stripes) != 2:
            return None
        if _number(segment, "start_extent") != reached:
            raise DamagedError("segments of a volume are out of order")
        if stripes[0] not in begins or not isinstance(stripes[1], int):
            return None
        reached += _number(segment, "extent_count")
        place, length = begins[stripes[0]] + stripes[1] * extent, _number(segment, "extent_count") * extent
        if place + length > _MOST_BYTES or not length:
            raise DamagedError("a segment of a volume has no possible size")
        if found and sum(found[-1]) == place:
            found[-1][1] += length
        else:
            found.append([place, length])
    return found or None


def _after_list(data: bytes, at: int) -> int:
    while struct.unpack_from("<QQ", data, at)[0]:
        at += 16
    return at + 16


def _sections(of: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    found = of.get(name, {})
    return {key: each for key, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def _number(of: dict[str, Any], name: str) -> int:
    value = of.get(name)
    if not isinstance(value, int):
        raise DamagedError(f"its metadata do not say {name}")
    return value


def main(words: list[str]) -> int:
    try:
        for volume in Reader(os.open(words[0], os.O_RDONLY | os.O_CLOEXEC), int(words[1])).volumes():
            print(json.dumps(volume))
        sys.stdout.flush()
    except (DamagedError, struct.error, ValueError, IndexError, OverflowError, MemoryError) as err:
        print(f"the physical volume of LVM is damaged: {err}", file=sys.stderr)
        return 1
    except OSError as err:
        print(str(err), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
