# SPDX-License-Identifier: BSD-2-Clause
"""Whose disks are whose on a node, read from what is at hand. Pure; what makes no sense names nobody.

Where two instances would own the same thing, nobody does: a report names no instance rather than a wrong one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ganeti.model.templates import PAIRED, UNSHARED

Thing = TypeVar("Thing")
_ORIGIN = "originstname+"
_CUT_AT = 128
"""Characters of a tag that 3.1 writes at most."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(\.[a-z0-9][a-z0-9-]{0,62})*")
"""Of instances."""


@dataclass
class Owned:
    """Names of instances by the minor numbers of their devices, and by volume group and volume."""

    minors: dict[int, str] = field(default_factory=dict)
    volumes: dict[tuple[str, str], str] = field(default_factory=dict)


def of_config(config: Any, node: str) -> Owned | None:
    """What instances have on the node of this name, by a `config.data` (protocols, 14); None if it has no such node."""
    uuid = next((uuid for uuid, own in _objects(config, "nodes") if own.get("name") == node), None)
    if uuid is None:
        return None
    disks = dict(_objects(config, "disks"))
    found: list[tuple[str, Any]] = []
    for _, instance in _objects(config, "instances"):
        name, used = instance.get("name"), instance.get("disks")
        if isinstance(name, str) and name and isinstance(used, list):
            owned = [disks[disk] for disk in used if isinstance(disk, str) and disk in disks]
            found += [(name, disk) for disk in owned if _is_there(disk, instance, uuid)]
    return of_disks(found, uuid)


def _objects(config: Any, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    objects = config.get(kind) if isinstance(config, dict) else None
    for uuid, plain in objects.items() if isinstance(objects, dict) else ():
        if isinstance(plain, dict):
            yield uuid, plain


def _is_there(disk: Mapping[str, Any], instance: Mapping[str, Any], node_uuid: str) -> bool:
    nodes = disk.get("nodes")
    return node_uuid == instance.get("primary_node") or (isinstance(nodes, list) and node_uuid in nodes)


def of_disks(disks: list[tuple[str, Any]], node_uuid: str = "") -> Owned:
    """The same from disks with the names of their instances; without a node's UUID nothing is said of minors."""
    minors: list[tuple[int, str]] = []
    volumes: list[tuple[tuple[str, str], str]] = []
    for name, disk in disks:
        for part in _parts(disk):
            if (place := volume_of(part)) is not None:
                volumes.append((place, name))
            match part.get("logical_id"):
                case [str(one), str(other), _, int(minor), int(other_minor), _] if one != other and _is_pair(part):
                    own = {one: minor, other: other_minor}.get(node_uuid)
                    minors += [(own, name)] if own is not None else []
    return Owned(_unmistaken(minors), _unmistaken(volumes))


def volume_of(disk: Mapping[str, Any]) -> tuple[str, str] | None:
    """The volume group and the volume that a disk is; None if it is something else."""
    match disk.get("logical_id"):
        case [str(group), str(volume)] if disk.get("dev_type") == UNSHARED:
            return group, volume
    return None


def _is_pair(disk: Mapping[str, Any]) -> bool:
    return disk.get("dev_type") == PAIRED


def _parts(disk: Any) -> Iterator[dict[str, Any]]:
    """A disk and what it is made of, which nests once."""
    if isinstance(disk, dict):
        yield disk
        children = disk.get("children")
        for child in children if isinstance(children, list) else ():
            if isinstance(child, dict):
                yield child


def _unmistaken(claims: list[tuple[Thing, str]]) -> dict[Thing, str]:
    owners: dict[Thing, set[str]] = {}
    for key, name in claims:
        owners.setdefault(key, set()).add(name)
    return {key: next(iter(names)) for key, names in owners.items() if len(names) == 1}


def of_tags(tags: str) -> str | None:
    """The instance that a volume says it was made for, by its tags (comma-separated, as LVM tells them).

    These are tags of volumes that Ganeti 3.1 made, which cuts what it writes: what is not surely a whole name is none.
    """
    origins = {tag for tag in tags.split(",") if tag.startswith(_ORIGIN)}
    if len(origins) != 1 or len(tag := origins.pop()) >= _CUT_AT:
        return None
    name = tag.removeprefix(_ORIGIN)
    return name if _NAME.fullmatch(name) else None
