# SPDX-License-Identifier: BSD-2-Clause
"""Numbers that instances and disks get from the cluster: TCP ports, and a minor on each node of a mirrored device.

They are given by the commit that enters the object, so that no two can get the same, and given back when it leaves. A
logical id of the form [node, node, port, minor, minor, …] has null in place of the numbers until then (protocols,
section 14).
"""

from collections.abc import Container, Sequence
from itertools import count
from typing import Any, cast

from msgspec.structs import replace

from ganeti.base.errors import ReservationError
from ganeti.model.configuration import Draft
from ganeti.model.objects import Disk
from ganeti.model.view import ConfigView

FIRST_PORT, LAST_PORT = 11000, 32767
"""TCP and UDP ports given to instances and disks. Ganeti's end at 14999 (opcodes, section 7): a cluster of it has 4,000
KVM guests at most. These end where the kernel begins to give ports to clients."""


def enter_disk(draft: Draft, disk: Disk) -> None:
    """Put a new disk into the configuration, with its numbers."""
    draft.put("disks", numbered(draft, disk))


def forget_disk(draft: Draft, uuid: str) -> None:
    """Take a disk out of the configuration, and its port back; an unknown one is no error."""
    disk = cast("Disk | None", draft.get("disks", uuid))
    if disk is None:
        return
    draft.remove("disks", uuid)
    match disk.logical_id:
        case [str(), str(), int(port), *_]:
            return_port(draft, port)


def numbered(draft: Draft, disk: Disk) -> Disk:
    """The disk with the numbers that it has in the configuration, or else with new ones."""
    match disk.logical_id:
        case [str(first), str(second), port, minor, other_minor, *rest] if None in (port, minor, other_minor):
            stored = cast("Disk | None", draft.get("disks", disk.uuid))
            if stored is not None and None not in stored.logical_id:
                return replace(disk, logical_id=stored.logical_id)
            used = minors_by_node(draft)
            minors = [
                _free(used.get(node, {})) if number is None else number
                for node, number in ((first, minor), (second, other_minor))
            ]
            port = take_port(draft) if port is None else port
            return replace(disk, logical_id=[first, second, port, *minors, *rest])
    return disk


def resized(disk: Disk, size_mib: int) -> Disk:
    """The disk with another size; the first of its parts has the data."""
    parts = [replace(part, size=size_mib) if index == 0 else part for index, part in enumerate(disk.children)]
    return replace(disk, size=size_mib, children=parts)


def on_nodes(disk: Disk, nodes: Sequence[str]) -> Disk:
    """The disk on other nodes: one that stays keeps its place in the logical id, and its minor; the port is another.

    The other node goes on listening on the old port as long as it is not told.
    """
    if set(nodes) == set(disk.nodes):
        return replace(disk, nodes=list(nodes))
    children = [on_nodes(child, nodes) for child in disk.children]
    found = disk.logical_id
    match disk.logical_id:
        case [str(first), str(second), int(), int(minor), int(other_minor), *rest]:
            minors = {node: number for node, number in ((first, minor), (second, other_minor)) if node in nodes}
            come = [node for node in nodes if node not in minors]
            places = [node if node in minors else come.pop(0) for node in (first, second)]
            found = [*places, None, *(minors.get(node) for node in places), *rest]
    return replace(disk, nodes=list(nodes), logical_id=found, children=children)


def stand_in(disk: Disk, uuid: str) -> Disk | None:
    """What holds the numbers of a disk on its new nodes until it is there; None where it needs none.

    It gets a minor on each node: that of a node which stays is the disk's own still.
    """
    match disk.logical_id:
        case [str(first), str(second), None, *_]:
            return Disk(
                uuid=uuid,
                dev_type=disk.dev_type,
                logical_id=[first, second, None, None, None, ""],
                size=disk.size,
                nodes=list(disk.nodes),
                params={},
                forthcoming=True,
            )
    return None


def with_numbers_of(disk: Disk, held: Disk) -> Disk:
    """Give a disk on its new nodes the numbers that its stand-in has."""
    first, second, _, minor, other_minor, *rest = disk.logical_id
    _, _, port, new_minor, new_other_minor, *_ = held.logical_id
    minors = [new_minor if minor is None else minor, new_other_minor if other_minor is None else other_minor]
    return replace(disk, logical_id=[first, second, port, *minors, *rest])


def exchange_numbers(draft: Draft, disk: Disk, stand_in_uuid: str | None) -> None:
    """Put a disk that has moved; its stand-in goes, and the port that it had is free. To repeat it does no harm."""
    before = cast("Disk | None", draft.get("disks", disk.uuid))
    draft.put("disks", disk if before is None else replace(disk, generation=before.generation))
    if stand_in_uuid is None or draft.get("disks", stand_in_uuid) is None:
        return
    draft.remove("disks", stand_in_uuid)
    match before:
        case Disk(logical_id=[str(), str(), int(port), *_]) if port != disk.logical_id[2]:
            return_port(draft, port)


def minors_by_node(view: ConfigView) -> dict[str, dict[int, Disk]]:
    """The minors that disks have on each node."""
    found: dict[str, dict[int, Disk]] = {}
    for disk in view.stream("disks"):
        match disk.logical_id:
            case [str(first), str(second), _, minor, other_minor, *_]:
                for node, number in ((first, minor), (second, other_minor)):
                    if number is not None:
                        found.setdefault(node, {})[number] = disk
    return found


def _free(used: Container[int]) -> int:
    return next(number for number in count() if number not in used)


def take_port(draft: Draft) -> int:
    """Take a returned port if there is one, else the next that was never given."""
    cluster = draft.cluster
    if cluster.tcpudp_port_pool:
        port = min(cluster.tcpudp_port_pool)
        _set_pool(draft, [other for other in cluster.tcpudp_port_pool if other != port])
        return port
    port = max(cluster.highest_used_port + 1, FIRST_PORT)
    if port > LAST_PORT:
        raise ReservationError(f"All network ports from {FIRST_PORT} to {LAST_PORT} are in use")
    draft.put("cluster", replace(cluster, highest_used_port=port))
    return port


def return_port(draft: Draft, port: int) -> None:
    _set_pool(draft, sorted({*draft.cluster.tcpudp_port_pool, port}))


def _set_pool(draft: Draft, pool: list[Any]) -> None:
    draft.put("cluster", replace(draft.cluster, tcpudp_port_pool=pool))
