# SPDX-License-Identifier: BSD-2-Clause
"""Physical volumes of nodes with exclusive storage: a disk takes whole ones, so those of a group are of one size."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ganeti.master.verify.findings import Finding
from ganeti.model import inheritance
from ganeti.model.node_calls.storage import StorageUnit
from ganeti.model.objects import Disk, Node, NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodeAnswer

_SNAPSHOT = ".snap-"
TOLERANCE_PERCENT = 1
"""Partitions that are meant to be equal differ by this much."""


def unit_of(view: ConfigView, catalogue: Catalogue) -> StorageUnit | None:
    """The volume group of the cluster, by an enabled template that has its disks there."""
    for name in view.cluster.enabled_disk_templates:
        traits = catalogue.templates.get(name)
        if traits is not None and traits.setting == "volume_group_name" and view.cluster.volume_group_name:
            return StorageUnit(template=name, setting=view.cluster.volume_group_name)
    return None


def exclusive(view: ConfigView, nodes: Sequence[Node]) -> list[str]:
    """Uuids of those of *nodes* whose physical volumes are used by one instance each."""
    return [node.uuid for node in nodes if node.vm_capable and inheritance.node_nd(view, node)["exclusive_storage"]]


def differing(view: ConfigView, group: NodeGroup, answers: Sequence[NodeAnswer]) -> Iterator[Finding]:
    """*answers* are those to `PhysicalVolumes`; a node that cannot say is told of elsewhere."""
    sizes = [
        (volume.size_mib, view.node(answer.node_uuid).name)
        for answer in answers
        if answer.error is None
        for volume in answer.value
        if volume.size_mib
    ]
    if not sizes:
        return
    (least, least_node), (most, most_node) = min(sizes), max(sizes)
    if most * 100 > least * (100 + TOLERANCE_PERCENT):
        yield Finding(
            "EGROUPDIFFERENTPVSIZE",
            group.name,
            f"PV sizes differ too much in the group; smallest ({least} MB) is on {least_node}, biggest ({most} MB) is "
            f"on {most_node}",
        )


def shared(view: ConfigView, disks: Iterable[Disk], answers: Sequence[NodeAnswer]) -> Iterator[Finding]:
    """*answers* are those to `NodeVolumes`: say of each physical volume that has volumes of several of the *disks*.

    The parts of a disk belong together, and so do its snapshots; a volume that nothing is known of stands alone.
    """
    owners = {place: disk.uuid for disk in disks for place in _places(disk)}
    for answer in answers:
        if answer.error is not None:
            continue
        held: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for segment in answer.value:
            origin = (segment.group, segment.name.partition(_SNAPSHOT)[0])
            held[segment.device][owners.get(origin, "/".join(origin))].add(f"{segment.group}/{segment.name}")
        for device, by_owner in sorted(held.items()):
            if len(by_owner) > 1:
                names = ", ".join(sorted(name for names in by_owner.values() for name in names))
                yield Finding(
                    "ENODELVM",
                    view.node(answer.node_uuid).name,
                    f"physical volume {device} is shared by several disks ({names}), in spite of exclusive storage: "
                    "move all but one away (pvmove)",
                )


def _places(disk: Disk) -> Iterator[tuple[str, str]]:
    """Group and name of each logical volume of a disk, by the shape of its logical id."""
    match disk.logical_id:
        case [str() as group, str() as name]:
            yield group, name
    for part in disk.children:
        yield from _places(part)
