# SPDX-License-Identifier: BSD-2-Clause
"""Disks that get copies on other nodes: the numbers they need there are held until the copies are complete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ganeti.master.disk_numbers import stand_in, with_numbers_of
from ganeti.master.operations.instance.wanted.modification import ForgetDisks, ReserveDisks
from ganeti.model.objects import Disk
from ganeti.ports.context import OperationContext, UndoChange


@dataclass(frozen=True)
class Moved:
    """Disks as they will be, and who holds their numbers by now: UUIDs by those of the disks."""

    disks: Sequence[Disk]
    stand_ins: Mapping[str, str]


async def hold_numbers(ctx: OperationContext, instance_name: str, disks: Sequence[Disk]) -> Moved:
    """Enter a stand-in for each disk that needs numbers on its new nodes, with its undo."""
    held = {disk.uuid: found for disk in disks if (found := stand_in(disk, ctx.entropy.uuid())) is not None}
    if not held:
        return Moved(disks, {})
    uuids = [each.uuid for each in held.values()]
    sentence = f"give the numbers of new copies of the disks of {instance_name} back"
    await ctx.undo.push(UndoChange(sentence, ForgetDisks(disk_uuids=uuids)))
    await ctx.config.commit(ReserveDisks(disks=list(held.values())))
    view = ctx.config.view()
    numbered = [with_numbers_of(disk, view.disk(held[disk.uuid].uuid)) if disk.uuid in held else disk for disk in disks]
    return Moved(numbered, {uuid: each.uuid for uuid, each in held.items()})
