# SPDX-License-Identifier: BSD-2-Clause
"""The tools of LVM 2: what they are asked, and what they print."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.ports.node_world import NodeWorld

MIB = 1024 * 1024
TOOL_S = 300.0
_SEPARATOR = "|"
_NAME = re.compile(r"[A-Za-z0-9_+.][A-Za-z0-9_+.-]*")
_OWNER_TAG = "originstname+"
_REVERTING_TAG = "reverting+"
_LV_COLUMNS = "vg_name,lv_name,lv_size,lv_attr,lv_tags,stripes,origin,data_percent,devices"
_PV_COLUMNS = "pv_name,pv_size,pv_free,pv_used,pv_attr"
_TIME = "%Y-%m-%d %H:%M:%S %z"
_NOT_FOUND = ("Failed to find logical volume", "not found in volume group")
_OPTIONS = ("--noheadings", "--nosuffix", "--units", "b", "--separator", _SEPARATOR)


@dataclass(frozen=True)
class Volume:
    """A logical volume."""

    group: str
    name: str
    size: int
    """In bytes."""
    attributes: str
    tags: tuple[str, ...]
    stripes: int
    origin: str
    """The volume that this one is a snapshot of; empty for none."""
    full_percent: float | None
    """How full a snapshot is."""
    devices: tuple[str, ...]
    """The physical volumes that it lies on."""

    @property
    def owner(self) -> str:
        """The instance that it was last made usable for."""
        return next((tag.removeprefix(_OWNER_TAG) for tag in self.tags if tag.startswith(_OWNER_TAG)), "")

    @property
    def reverting(self) -> str:
        """The snapshot that it is being reverted to, or was when the node failed; empty for none."""
        return next((tag.removeprefix(_REVERTING_TAG) for tag in self.tags if tag.startswith(_REVERTING_TAG)), "")

    @property
    def merging(self) -> bool:
        """Whether it is a snapshot whose content its origin is being given."""
        return self.attributes[:1] == "S"

    def require_whole(self) -> None:
        """Raises `BlockDeviceError` for a volume that may be half reverted."""
        if self.reverting:
            raise BlockDeviceError(
                f"Volume {self.group}/{self.name}: going back to snapshot {self.reverting} was interrupted: go back to "
                "it again (gnt-instance snapshot revert), or give it up (gnt-instance snapshot remove)"
            )

    @property
    def broken(self) -> bool:
        """Whether a part of it lies on a physical volume that is missing, or a snapshot has overflown."""
        return self.attributes[8:9] == "p" or self.attributes[4:5] in ("I", "S")

    @property
    def in_use(self) -> bool:
        return self.attributes[5:6] == "o"


@dataclass(frozen=True)
class PhysicalVolume:
    name: str
    size: int
    free: int
    used: int
    allocatable: bool


class Volumes:
    """The logical volumes of this node."""

    def __init__(self, world: NodeWorld) -> None:
        self.world = world

    def path(self, group: str, name: str) -> str:
        return self.world.paths.under(f"/dev/{group}/{name}")

    async def look(self, group: str, name: str) -> Volume | None:
        """None where the group has no such volume; raises `BlockDeviceError` where the group cannot be read."""
        check_names(group, name)
        try:
            text = await self.run("lvs", *_OPTIONS, "-o", _LV_COLUMNS, f"{group}/{name}")
        except BlockDeviceError as err:
            if any(words in str(err) for words in _NOT_FOUND):
                return None
            raise
        found = read_volumes(text)
        return found[0] if found else None

    async def of_group(self, group: str) -> list[Volume]:
        check_names(group)
        return read_volumes(await self.run("lvs", *_OPTIONS, "-o", _LV_COLUMNS, group))

    async def times(self, group: str) -> dict[str, float]:
        """When each volume was made, in seconds since 1970."""
        check_names(group)
        lines = (await self.run("lvs", *_OPTIONS, "-o", "lv_name,lv_time", group)).splitlines()
        found = {}
        for name, _, when in (line.strip().partition(_SEPARATOR) for line in lines):
            with contextlib.suppress(ValueError):  # as lvm.conf has times printed
                found[name] = datetime.strptime(when.strip(), _TIME).timestamp()
        return found

    async def physical(self, group: str) -> list[PhysicalVolume]:
        check_names(group)
        text = await self.run("pvs", *_OPTIONS, "-o", _PV_COLUMNS, "--select", f"vg_name={group}")
        return read_physical(text)

    async def group_space(self, group: str) -> tuple[int, int, int]:
        """Size, free space and size of an extent, in bytes."""
        check_names(group)
        text = await self.run("vgs", *_OPTIONS, "-o", "vg_size,vg_free,vg_extent_size", group)
        try:
            size, free, extent = (int(word) for word in text.strip().split(_SEPARATOR))
        except ValueError as err:
            raise BlockDeviceError(f"What vgs prints of {group} cannot be read: {text.strip()!r}") from err
        return size, free, extent

    async def create(self, group: str, name: str, size_mib: int, *, stripes: int, on: Sequence[str] = ()) -> None:
        """Make a volume over *stripes* physical volumes; *on* names those that may be used."""
        check_names(group, name)
        words = ["lvcreate", "--wipesignatures", "y", "--yes", "-L", f"{size_mib}m", "-n", name]
        if stripes > 1:
            words += ["-i", str(stripes)]
        await self.run(*words, group, *on)

    async def snapshot(self, group: str, origin: str, name: str) -> None:
        """With room for all of *origin*, and what LVM notes of each piece of it: half a percent more."""
        check_names(group, name)
        await self.run("lvcreate", "--yes", "-l", "100%ORIGIN", "-s", "-n", name, f"{group}/{origin}")

    async def merge(self, group: str, snapshot: str) -> None:
        """Give the origin the content of its *snapshot*, which is gone then."""
        check_names(group, snapshot)
        await self.run("lvconvert", "--yes", "--merge", f"{group}/{snapshot}")

    async def remove(self, group: str, name: str) -> None:
        check_names(group, name)
        await self.run("lvremove", "--force", f"{group}/{name}")

    async def extend(self, group: str, name: str, size_mib: int, on: Sequence[str] = ()) -> None:
        check_names(group, name)
        await self.run("lvextend", "-L", f"{size_mib}m", f"{group}/{name}", *on)

    async def rename(self, group: str, old: str, new: str) -> None:
        check_names(group, old, new)
        await self.run("lvrename", group, old, new)

    async def activate(self, group: str, name: str) -> None:
        check_names(group, name)
        await self.run("lvchange", "--activate", "y", f"{group}/{name}")

    async def tag_owner(self, volume: Volume, owner: str) -> None:
        words = ["lvchange", "--addtag", f"{_OWNER_TAG}{owner}"]
        if volume.owner:
            words += ["--deltag", f"{_OWNER_TAG}{volume.owner}"]
        await self.run(*words, f"{volume.group}/{volume.name}")

    async def begin_revert(self, volume: Volume, snapshot: str) -> None:
        await self.run("lvchange", "--addtag", f"{_REVERTING_TAG}{snapshot}", f"{volume.group}/{volume.name}")

    async def end_revert(self, volume: Volume, snapshot: str) -> None:
        await self.run("lvchange", "--deltag", f"{_REVERTING_TAG}{snapshot}", f"{volume.group}/{volume.name}")

    async def run(self, *words: str) -> str:
        try:
            done = await self.world.run(words, timeout_s=TOOL_S, env={"LC_ALL": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"})
        except CommandError as err:
            raise BlockDeviceError(str(err)) from err
        return done.stdout


def check_names(*names: str) -> None:
    """Raises `BlockDeviceError` for what cannot be the name of a volume or group."""
    for name in names:
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise BlockDeviceError(
                f"'{name}' cannot be the name of a volume: use letters, digits and the characters + _ . -"
            )


def read_volumes(text: str) -> list[Volume]:
    """Read what lvs prints, where a volume has one line for each of its segments."""
    found: dict[tuple[str, str], Volume] = {}
    for line in filter(str.strip, text.splitlines()):
        words = line.strip().split(_SEPARATOR)
        try:
            group, name, size, attributes, tags, stripes, origin, percent, devices = words
            devices_here = tuple(word.partition("(")[0] for word in devices.split(",") if word)
            before = found.get((group, name))
            found[group, name] = Volume(
                group,
                name,
                int(size),
                attributes,
                tuple(tag for tag in tags.split(",") if tag),
                int(stripes or 0),
                origin,
                float(percent) if percent else None,
                tuple(dict.fromkeys([*(before.devices if before else ()), *devices_here])),
            )
        except ValueError as err:
            raise BlockDeviceError(f"What lvs prints cannot be read: {line.strip()!r}") from err
    return list(found.values())


def read_physical(text: str) -> list[PhysicalVolume]:
    found = []
    for line in filter(str.strip, text.splitlines()):
        try:
            name, size, free, used, attributes = line.strip().split(_SEPARATOR)
            found.append(PhysicalVolume(name, int(size), int(free), int(used), attributes.startswith("a")))
        except ValueError as err:
            raise BlockDeviceError(f"What pvs prints cannot be read: {line.strip()!r}") from err
    return found
