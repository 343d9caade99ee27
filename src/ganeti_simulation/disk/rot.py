# SPDX-License-Identifier: BSD-2-Clause
"""Rot: a bit of a file on a simulated disk is another, in the cache as on the platter."""

from random import Random

from ganeti_simulation.disk.contents import frozen, part_of, size_of, written
from ganeti_simulation.disk.disk import Disk
from ganeti_simulation.disk.inodes import File


def flip_some_bit(disk: Disk, path: str, random: Random) -> None:
    """Change one bit of the file, wherever that is."""
    file: File = disk.there(path)
    file.take_over()
    size = size_of(file.content)
    if size:
        _flip(file, random.randrange(size), 1 << random.randrange(8))


def flip_bit_at(disk: Disk, path: str, words: bytes, bit: int) -> bool:
    """At the first place that has these *words* change this *bit*, a power of two, of their first byte.

    False where there is no such place.
    """
    place = disk.content(path).find(words)
    if place >= 0:
        _flip(disk.there(path), place, bit)
    return place >= 0


def _flip(file: File, place: int, bit: int) -> None:
    file.take_over()
    file.content = written(file.content, place, bytes([part_of(file.content, place, 1)[0] ^ bit]))
    if file.unsynced and place < size_of(file.synced):
        old = part_of(file.synced, place, 1)[0] ^ bit
        file.synced = frozen(written(frozen(file.synced), place, bytes([old])))
