# SPDX-License-Identifier: BSD-2-Clause
"""Where everything stands in `config.data`, so that a change rewrites its own place and nothing else (D6).

One line an object, filled up with spaces, which JSON ignores:

    {"version":3010000,"serial_no":42,"mtime":1.5      the other top-level keys, and the seal
    ,"cluster":{…},"maintenance":{…}                   single objects; all but the first may be missing
    ,"nodes":{
     "UUID":{…}                                        a place: the first has no comma before it
    ,"UUID":{…}
                                                       room for more, and blank where something was
    }
    }

An object that outgrows its place moves into the room at the end of its container, so the order of lines says nothing.
When the room is used up, or half of all is blank, everything is laid out anew, with new room in proportion: a change
costs what it changes, over many of them. The seal, at the end of the first line, is the fingerprint the file should
have, in spaces and tabs: a file laid out like this that has another one is in pieces, or was edited.

Invariants: places do not overlap and are in the order of `_places`; all writes, made in any order to a
file with the layout's former content, give it the present one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from ganeti.model.objects import CONTAINERS, KINDS, SINGLES

Entries = Mapping[str, Mapping[str, bytes]]
"""JSON fragments by kind and uuid, single ones under the key of `SINGLES`."""

_ROOM_SHARE = 16
_ROOM_LEAST_BYTES = 1024
_PLACE_SHARE = 16
_PLACE_SPARE_BYTES = 32
_SEAL_BITS = 64
_AS_BLANKS = str.maketrans("01", " \t")
_SIGNATURE = re.compile(rb'\{[^\n]*\n,"cluster":\{')


class Place(NamedTuple):
    offset: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes


def is_broken(data: bytes, digest: str) -> bool:
    """Whether a file is laid out in this way, and is not as it was written; *digest* is the fingerprint it has."""
    return _SIGNATURE.match(data) is not None and not data.partition(b"\n")[0].endswith(_seal(digest))


class FileLayout:
    """One layout, kept up change by change; `fits` is False when it has to be made anew."""

    def __init__(self, header: bytes, entries: Entries, digest: str) -> None:
        """*header* is a JSON object of the other top-level keys, *digest* the fingerprint of it all."""
        self._header, self._digest = header, digest
        self._entries = {kind: dict(entries.get(kind, {})) for kind in KINDS}
        self.start_anew()

    def start_anew(self) -> None:
        """Lay everything out in the order of the configuration, with fresh room."""
        self.fits = True
        self.generation = object()
        """Another one for each layout: the writes of one make no sense in another."""
        self._writes: dict[int, bytes] = {}
        self._places: dict[str, dict[str, Place]] = {kind: {} for kind in CONTAINERS}
        self._room: dict[str, Place] = {}
        self._header_place = Place(0, _size_for(len(self._header)) + _SEAL_BITS)
        self._cluster_place = Place(self._header_place.end, _size_for(len(self._cluster_text())))
        end = self._cluster_place.end
        for kind in CONTAINERS:
            begin = end = end + len(_opening(kind))
            for uuid, data in self._entries[kind].items():
                place = self._places[kind][uuid] = Place(end, _size_for(len(_entry(uuid, data))))
                end += place.size_bytes
            self._room[kind] = Place(end, max(_ROOM_LEAST_BYTES, (end - begin) // _ROOM_SHARE))
            end = self._room[kind].end + len(_CLOSING)
        self.size_bytes = end + len(_CLOSING)
        self._vacated_bytes = 0

    def whole(self) -> Iterator[bytes]:
        """The pieces of the file as it is now; joined they are it."""
        yield self._header_line()
        yield _filled(self._cluster_text(), self._cluster_place)
        end = self._cluster_place.end
        for kind in CONTAINERS:
            yield _opening(kind)
            end += len(_opening(kind))
            comma = b" "
            for uuid, place in self._places[kind].items():
                yield b" " * (place.offset - end)
                yield _filled(comma + _entry(uuid, self._entries[kind][uuid]), place)
                comma, end = b",", place.end
            room = self._room[kind]
            yield b" " * (room.offset - end)
            yield _filled(b"", room)
            yield _CLOSING
            end = room.end + len(_CLOSING)
        yield _CLOSING

    def set_header(self, header: bytes, digest: str) -> None:
        self._header, self._digest = header, digest
        line = self._header_line()
        if len(line) > self._header_place.size_bytes:
            self.fits = False
        else:
            self._writes[0] = line

    def put(self, kind: str, uuid: str, data: bytes) -> None:
        self._entries[kind][uuid] = data
        if kind in SINGLES:
            self._write(self._cluster_place, self._cluster_text())
            return
        if not self.fits:
            return
        text = _entry(uuid, data)
        old = self._places[kind].get(uuid)
        if old is not None and len(text) + 2 <= old.size_bytes:
            comma = b" " if next(iter(self._places[kind])) == uuid else b","
            self._write(old, comma + text)
            return
        if old is not None:
            self._vacate(kind, uuid)
        room = self._room[kind]
        place = Place(room.offset, _size_for(len(text)))
        if place.size_bytes > room.size_bytes:
            self.fits = False
            return
        self._room[kind] = Place(place.end, room.size_bytes - place.size_bytes)
        comma = b"," if self._places[kind] else b" "
        self._places[kind][uuid] = place
        self._write(place, comma + text)

    def remove(self, kind: str, uuid: str) -> None:
        if self._entries[kind].pop(uuid, None) is None or not self.fits:
            return
        if kind in SINGLES:
            self._write(self._cluster_place, self._cluster_text())
        else:
            self._vacate(kind, uuid)

    def take_writes(self) -> dict[int, bytes]:
        """What to write where, since this was last asked."""
        writes, self._writes = self._writes, {}
        return writes

    def _vacate(self, kind: str, uuid: str) -> None:
        """Blank a place; where it was the first, the next one loses its comma."""
        places = self._places[kind]
        was_first = next(iter(places)) == uuid
        place = places.pop(uuid)
        self._writes[place.offset] = b" " * place.size_bytes
        self._vacated_bytes += place.size_bytes
        if 2 * self._vacated_bytes > self.size_bytes:
            self.fits = False
        heir = next(iter(places), None) if was_first else None
        if heir is not None:
            self._write(places[heir], b" " + _entry(heir, self._entries[kind][heir]))

    def _write(self, place: Place, text: bytes) -> None:
        if len(text) >= place.size_bytes:
            self.fits = False
        else:
            self._writes[place.offset] = _filled(text, place)

    def _header_line(self) -> bytes:
        return self._header[:-1].ljust(self._header_place.size_bytes - _SEAL_BITS - 1) + _seal(self._digest) + b"\n"

    def _cluster_text(self) -> bytes:
        return b"".join(single_parts(self._entries))


def single_parts(entries: Entries) -> Iterator[bytes]:
    """The pieces of the entries that are one object, as they stand before the first container."""
    for kind, key in SINGLES.items():
        if (data := entries[kind].get(key)) is not None:
            yield b',"%s":' % kind.encode()
            yield data


_CLOSING = b"}\n"


def _seal(digest: str) -> bytes:
    bits = f"{int(digest or '0', 16) % 2**_SEAL_BITS:0{_SEAL_BITS}b}"
    return bits.translate(_AS_BLANKS).encode()


def _opening(kind: str) -> bytes:
    return b',"%s":{\n' % kind.encode()


def _entry(uuid: str, data: bytes) -> bytes:
    return msgspec.json.encode(uuid) + b":" + data


def _size_for(length: int) -> int:
    return length + length // _PLACE_SHARE + _PLACE_SPARE_BYTES


def _filled(text: bytes, place: Place) -> bytes:
    if not place.size_bytes:
        return b""
    return text.ljust(place.size_bytes - 1) + b"\n"
