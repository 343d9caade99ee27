# SPDX-License-Identifier: BSD-2-Clause
"""What `OP_INSTANCE_QUERY_DATA` says of a disk, its copies and the disks that it lies on (opcodes, section 2)."""

from dataclasses import dataclass
from typing import Any

from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.objects import Disk, Instance
from ganeti.model.view import ConfigView


@dataclass(frozen=True)
class DiskStates:
    """What the primary and the secondary node say of a disk; null where one has it not, or cannot be asked."""

    primary: DiskStatus | None = None
    secondary: DiskStatus | None = None
    children: tuple["DiskStates", ...] = ()


NOT_ASKED = DiskStates()


def describe(view: ConfigView, instance: Instance, disk: Disk, states: DiskStates) -> dict[str, Any]:
    """Parts of a disk name no nodes: each lies on one, and nothing keeps it equal but the disk above it."""
    children = states.children or (NOT_ASKED,) * len(disk.children)
    speed = None if states.primary is None else states.primary.sync_speed_kib
    return {
        "iv_name": disk.iv_name,
        "dev_type": disk.dev_type,
        "logical_id": _without_secret(disk.logical_id),
        "nodes": disk.nodes,
        "drbd_info": _mirror(view, instance, disk.logical_id),
        "pstatus": _status(states.primary),
        "sstatus": _status(states.secondary),
        "children": [
            describe(view, instance, child, state) | {"nodes": []}
            for child, state in zip(disk.children, children, strict=True)
        ],
        "mode": disk.mode,
        "size": disk.size,
        "spindles": disk.spindles,
        "name": disk.name,
        "uuid": disk.uuid,
    } | ({} if speed is None else {"sync_speed_kib": speed})


def _mirror(view: ConfigView, instance: Instance, logical_id: list[Any]) -> dict[str, Any] | None:
    """The devices of a disk that has a minor on each of two nodes, the primary's first."""
    match logical_id:
        case [str(first), str(second), port, minor, other_minor, *_]:
            sides = [(view.node(first).name, minor), (view.node(second).name, other_minor)]
            if second == instance.primary_node:
                sides.reverse()
            (primary, primary_minor), (secondary, secondary_minor) = sides
            return {
                "primary_node": primary,
                "primary_minor": primary_minor,
                "secondary_node": secondary,
                "secondary_minor": secondary_minor,
                "port": port,
            }
    return None


def _without_secret(logical_id: list[Any]) -> list[Any]:
    """The result of a job is kept and shown: the secret of the copies is not for its readers."""
    match logical_id:
        case [str(), str(), _, _, _, str(), *_]:
            return [*logical_id[:5], None]
    return logical_id


def _status(found: DiskStatus | None) -> list[Any] | None:
    if found is None:
        return None
    return [
        found.dev_path,
        found.major,
        found.minor,
        found.sync_percent,
        found.estimated_time_s,
        found.is_degraded,
        found.ldisk_status,
    ]
