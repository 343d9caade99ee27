# SPDX-License-Identifier: BSD-2-Clause
"""Volumes that are there already and become the disks of a new instance, with what they hold."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import NOT_UNIQUE, UNKNOWN_ENTITY, WRONG_INPUT, PrerequisiteError
from ganeti.master.operations.instance.wanted.disk_places import new_disk
from ganeti.model.new_disk import adopts
from ganeti.model.node_calls.disks import BlockdevFind
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import Disk
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

Adopted = Mapping[str, list[Any]]
"""By UUID of the disk: the logical id of the volume as it is now."""


def check_adoption(asked: Sequence[Mapping[str, Any]], node_uuids: Sequence[str]) -> bool:
    """Whether volumes are adopted; raises `PrerequisiteError` where only some are, or no node was named."""
    adopted = [index for index, values in enumerate(asked) if adopts(values)]
    if not adopted:
        return False
    if len(adopted) < len(asked):
        raise PrerequisiteError("Either all disks are adopted or none is: add adopt=NAME to each, or to none")
    if not node_uuids:
        raise PrerequisiteError(
            "The volumes to adopt are on a node that no allocator knows: name it with -n NODE", WRONG_INPUT
        )
    return True


async def find_adoptees(
    ctx: OperationContext,
    view: ConfigView,
    disks: Sequence[Disk],
    asked: Sequence[Mapping[str, Any]],
    traits: TemplateTraits,
    node_uuids: Sequence[str],
    instance_name: str,
) -> tuple[list[Disk], Adopted]:
    """Give the disks the sizes of the volumes they adopt, and say which these are.

    Raises `PrerequisiteError` for a volume that is not there, or is somebody's.
    """
    assert traits.adoptee is not None, "read_disk refuses the key adopt of other templates"
    node = view.node(node_uuids[0])
    taken = {(part.dev_type, str(part.logical_id)) for disk in view.disks() for part in (disk, *disk.children)}
    sized: list[Disk] = []
    adopted: dict[str, list[Any]] = {}
    for index, (disk, values) in enumerate(zip(disks, asked, strict=True)):
        new = new_disk(view, disk, values, traits, node_uuids, "", instance_name, index)
        source = traits.adoptee(new)
        if (traits.name, str(source)) in taken or source in adopted.values():
            raise PrerequisiteError(f"Disk {index}: {source[-1]} is a disk already: adopt another volume", NOT_UNIQUE)
        spec = DiskSpec(
            uuid=disk.uuid,
            template=traits.name,
            logical_id=source,
            size_mib=0,
            index=index,
            params=dict(new.params),
        )
        found = await ask(ctx.nodes, node.uuid, BlockdevFind(disk=spec))
        if found is None or not found.size_mib:
            raise PrerequisiteError(
                f"Disk {index}: there is no volume {source[-1]} on node {node.name}: name one that is there",
                UNKNOWN_ENTITY,
            )
        sized.append(replace(disk, size=found.size_mib))
        adopted[disk.uuid] = source
    return sized, adopted
