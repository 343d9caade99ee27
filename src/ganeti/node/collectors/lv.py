# SPDX-License-Identifier: BSD-2-Clause
"""The logical volumes of a node, and whose disks they are (protocols, 5)."""

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti.node.collectors.interface import Node, collector
from ganeti.node.collectors.owners import of_tags, volume_of
from ganeti.node.collectors.report import PERFORMANCE, UnreadableError, whole

NAME, CATEGORY = "lv", "storage"
_SEPARATOR = ";"
_BYTES = "B"
_NUMBERS = frozenset(("major", "minor", "kernel_major", "kernel_minor", "seg_count", "seg_start_pe"))
_SIZES = frozenset(("size", "seg_start", "seg_size"))
_FIELDS = (
    *("uuid", "name", "attr", "major", "minor", "kernel_major", "kernel_minor", "size", "seg_count", "tags"),
    *("modules", "vg_uuid", "vg_name", "segtype", "seg_start", "seg_start_pe", "seg_size", "seg_tags"),
    *("seg_pe_ranges", "devices"),
)
_OF_A_VOLUME = frozenset(("uuid", "name", "attr", "major", "minor", "kernel_major", "kernel_minor", "size", "tags"))
COMMAND = (
    *("lvs", "--noheadings", "--units", "B", "--separator", _SEPARATOR, "-o"),
    ",".join(f"lv_{field}" if field in _OF_A_VOLUME else field for field in _FIELDS),
)
"""What prints the volumes in the form `read` understands."""

Owners = Mapping[tuple[str, str], str]
"""Names of instances by volume group and volume."""


def read(text: str, owners: Owners) -> list[dict[str, Any]]:
    """Each segment of a volume (sizes in bytes), with the name of its instance or null; raises `UnreadableError`."""
    lines = (line.strip() for line in text.splitlines())
    return [_volume(number, line, owners) for number, line in enumerate(lines, 1) if line]


def read_by_tags(text: str) -> list[dict[str, Any]]:
    """The same, each with the instance that its tags say it was made for."""
    return [{**volume, "instance": of_tags(str(volume["tags"]))} for volume in read(text, {})]


def _volume(number: int, line: str, owners: Owners) -> dict[str, Any]:
    values = line.split(_SEPARATOR)
    if len(values) != len(_FIELDS):
        raise UnreadableError(f"line {number} has {len(values)} columns, not {len(_FIELDS)}")
    volume = {field: _value(field, value, f"line {number}") for field, value in zip(_FIELDS, values, strict=True)}
    return {**volume, "instance": owners.get((str(volume["vg_name"]), str(volume["name"])))}


def _value(field: str, text: str, where: str) -> str | int:
    if field in _NUMBERS:
        return whole(text, where)
    if field in _SIZES:
        if not text.endswith(_BYTES):
            raise UnreadableError(f"{where}: the size '{text}' is not in bytes")
        return whole(text[:-1], where)
    return text


def owners(instances: Any) -> dict[tuple[str, str], str]:
    """Whose volumes are whose, from a list of pairs of an instance and its disks; raises `UnreadableError`."""
    if not isinstance(instances, list):
        raise UnreadableError("Unable to read list")
    try:
        return {place: str(instance["name"]) for instance, disks in instances for place in _places(disks)}
    except (TypeError, ValueError, KeyError, AttributeError):
        raise UnreadableError("it is not a list of pairs, each of an instance and a list of its disks") from None


def _places(disks: Any) -> Iterator[tuple[str, str]]:
    for disk in disks:
        if (place := volume_of(disk)) is not None:
            yield place
        yield from _places(disk.get("children") or ())


@collector(NAME, CATEGORY, PERFORMANCE)
async def _collect(node: Node) -> Any:
    text = await node.probes.volumes()
    return read(text, (await node.cluster.owners()).volumes) if text.strip() else []
