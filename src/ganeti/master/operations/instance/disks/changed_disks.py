# SPDX-License-Identifier: BSD-2-Clause
"""Making the new disks of a modification, and removing the old ones, each with its way back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.disk_plan import completion
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operations.instance.disks.disk_steps import create_disks, plan_of, take
from ganeti.master.operations.instance.existing import require_makeable
from ganeti.master.operations.instance.wanted.device_changes import DiskChanges
from ganeti.master.operations.instance.wanted.modification import ForgetDisks, ModifyInstance, ReserveDisks
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.traits import TemplateTraits
from ganeti.ports.context import OperationContext, UndoChange


@dataclass(frozen=True)
class DiskRequest:
    """What is asked of new disks beside each one's own values."""

    template: str | None
    file_driver: str | None
    secondary: str | None
    ext_params: Mapping[str, Any]


def check_asked(asked: DiskRequest, old: Instance, template: TemplateTraits, disks: DiskChanges) -> None:
    """Raise `PrerequisiteError` for what is about new disks where there are none, or none that can have it."""
    if asked.file_driver and not (disks.created and template.directory_based):
        raise PrerequisiteError(
            "The file driver is for new disks in files, and there are none: leave --file-driver out", WRONG_INPUT
        )
    if asked.ext_params and not (template.free_keys and disks.created and asked.template and old.disks):
        raise PrerequisiteError(
            "Parameters of an external storage provider are for disks that are converted to such a template: add "
            "--disk-template, or leave --ext-params out",
            WRONG_INPUT,
        )
    if asked.secondary and not (asked.template and old.disks):
        raise PrerequisiteError(
            "A secondary node is for disks that are converted to another template: add --disk-template, or leave "
            "--node out",
            WRONG_INPUT,
        )
    if asked.template and not old.disks and not disks.created:
        raise PrerequisiteError(
            f"Instance {old.name} has no disks to convert: add one (--disk 0:add,size=SIZE)", WRONG_INPUT
        )


async def check_room(ctx: OperationContext, spec: InstanceSpec, disks: DiskChanges, template: TemplateTraits) -> None:
    """Raise `PrerequisiteError` where a node has no room for its new disks, or cannot make them.

    Providers are asked about the new parameters of disks, too.
    """
    otherwise = {disk.uuid for disk in disks.told_otherwise}
    await require_makeable(ctx, spec, [disk for disk in spec.disks if disk.uuid in otherwise])
    if not disks.created:
        return
    made = {disk.uuid for disk in disks.created}
    wanted = replace(spec, disks=[disk for disk in spec.disks if disk.uuid in made])
    await require_makeable(ctx, spec, wanted.disks)
    copies = disks.created[0].nodes[1:]
    await allocation.check_capacity(ctx, spec.primary_node_uuid, wanted, template, ignore_memory=True, copies_on=copies)


async def make_disks(ctx: OperationContext, spec: InstanceSpec, disks: DiskChanges, *, wait: bool) -> InstanceSpec:
    """Enter the new disks of *spec* as forthcoming, and make them: both are taken back where the rest fails.

    Gives the spec with the numbers that disks got when they were entered.
    """
    created = list(disks.created)
    if not created:
        return spec
    uuids = [disk.uuid for disk in created]
    sentence = f"take the new disks of {spec.name} out of the configuration"
    await ctx.undo.push(UndoChange(sentence, ForgetDisks(disk_uuids=uuids)))
    await ctx.config.commit(ReserveDisks(disks=created))
    view = ctx.config.view()
    entered = {uuid: view.disk(uuid).logical_id for uuid in uuids}
    numbered = [replace(disk, logical_id=entered.get(disk.uuid, disk.logical_id)) for disk in spec.disks]
    spec = replace(spec, disks=numbered)
    await create_disks(ctx, spec, [disk for disk in spec.disks if disk.uuid in uuids], wait=wait)
    return spec


async def remove_disks(ctx: OperationContext, old: Instance, disks: DiskChanges, change: ModifyInstance) -> None:
    """Remove the data of disks. There is no way back from that: what has begun is completed, the *change* too."""
    uuids = {disk.uuid for disk in disks.removed}
    if not uuids:
        return
    spec = instance_spec(ctx.config.view(), ctx.catalogue, old)
    gone = replace(spec, disks=[disk for disk in spec.disks if disk.uuid in uuids])
    steps = plan_of(ctx, gone).remove()
    await ctx.undo.push(completion(steps, f"complete the removal of disks of {spec.name}", change))
    for step in steps:
        await take(ctx, step)
