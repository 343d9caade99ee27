# SPDX-License-Identifier: BSD-2-Clause
"""What is found on a disk after the power was lost.

Names: of each directory's changes since its last sync the first so many have arrived, in their order; a rename between
two directories has arrived in both or in neither, and a directory that things were moved into is there. Contents: each
sector of 512 bytes that was written since the last sync holds one of its versions, and the file's size is one it had.
Some drives lose everything, some nothing, most something in between.
"""

from random import Random

from ganeti_simulation.disk.contents import Content, frozen, size_of, truncated, written
from ganeti_simulation.disk.inodes import Change, Directory, File, Inode

SECTOR_BYTES = 512


def settle(directory: Directory, count: int) -> None:
    """The first *count* changes of *directory* have arrived, and whatever had to arrive with them."""
    unsynced = directory.unsynced
    if not unsynced or not count:
        return
    changes = unsynced[:count]
    del unsynced[:count]
    for change in changes:
        for other, position in _needed(change):
            settle(other, position + 1)


def _needed(change: Change) -> list[tuple[Directory, int]]:
    """Which other directories must have which change too, if this one has arrived."""
    directories = [step[0] for step in change.steps]
    if len(directories) < 2 or directories[0] is directories[1]:
        return []
    wanted = [(directory, change) for directory in directories]
    for directory in directories:
        placed = directory.placed
        if placed is not None:
            wanted += [(step[0], placed) for step in placed.steps]
    return [
        (directory, directory.unsynced.index(needed))
        for directory, needed in wanted
        if directory.unsynced and needed in directory.unsynced
    ]


def lose_names(dirty: list[Directory], random: Random | None) -> None:
    """Leave in the *dirty* directories the changes that have arrived; without *random* none has."""
    if random is not None:
        for directory in dirty:
            changes = len(directory.unsynced or ())
            settle(directory, random.choice((0, changes, random.randint(0, changes))))
    for directory in dirty:
        for change in reversed(directory.unsynced or ()):
            for place, name, before, _ in reversed(change.steps):
                if place is directory:
                    if before is None:
                        del directory.entries[name]
                    else:
                        directory.entries[name] = before
        if directory.unsynced is not None:
            directory.unsynced = []


def lose_writes(file: File, random: Random | None) -> None:
    """Leave in *file* what has arrived of its content; without *random* nothing of what was not synced."""
    file.take_over()
    log = file.unsynced
    if log:
        base: Content = frozen(file.synced)
        style = "none" if random is None else random.choice(("none", "all", "prefix", "sectors"))
        if style == "all":
            base = file.content
        elif random is not None and style != "none":
            base = _partly(base, log, random, torn=style == "sectors")
        file.content = base
        file.unsynced, file.synced = [], b""
    file.reserved = 0
    file.locks, file.waiting = {}, []
    file.opens, file.lease = 0, None


def _partly(content: Content, log: list[tuple[int, bytes | None]], random: Random, torn: bool) -> Content:
    arrived = random.randint(0, len(log))
    size = size_of(content)
    for number, (place, data) in enumerate(log):
        if data is None:
            if number < arrived:
                size = place
                content = truncated(content, size)
            continue
        if number < arrived:
            size = max(size, place + len(data))
        if not torn:
            if number < arrived:
                content = written(content, place, data)
            continue
        for start in range(place - place % SECTOR_BYTES, place + len(data), SECTOR_BYTES):
            if random.random() < 0.5:
                first, end = max(start, place), min(start + SECTOR_BYTES, place + len(data))
                content = written(content, first, data[first - place : end - place])
    return truncated(content, size)


def lose_attributes(inode: Inode, random: Random | None) -> None:
    """Permissions and owner are those of the last sync, or those of now."""
    if inode.synced_attributes is not None and (random is None or random.random() < 0.5):
        inode.mode, inode.user, inode.group = inode.synced_attributes
    inode.synced_attributes = None
