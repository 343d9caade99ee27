# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_GROW_DISK: enlarge a disk, of a running guest too."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ExecutionError, GanetiError, PrerequisiteError
from ganeti.master.allocation import check_capacity
from ganeti.master.disk_numbers import resized
from ganeti.master.disk_plan import DiskStep
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.instance.disks.disk_steps import plan_of, take, wait_for_sync, wipe
from ganeti.master.operations.instance.disks.snapshot_steps import require_none
from ganeti.master.operations.instance.existing import instance_and_nodes, require_complete, require_online
from ganeti.master.operations.instance.wanted.creation_input import MAX_DISK_MIB
from ganeti.master.operations.instance.wanted.device_changes import position
from ganeti.master.operations.instance.wanted.modification import check_policy
from ganeti.master.operations.parameters import IgnorePolicy, InstanceName, InstanceUuid
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.disks import BlockdevFind
from ganeti.model.node_calls.instances import InstanceInfo, InstanceResizeDisk
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask


class SetDiskSize(Change, frozen=True, kw_only=True):
    """A disk has another size from now on."""

    disk_uuid: str
    size_mib: int

    def apply(self, draft: Draft) -> None:
        draft.put("disks", resized(draft.disk(self.disk_uuid), self.size_mib))


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    disk: DiskSpec
    """As it is."""
    size_mib: int
    warnings: list[str]


@operation(
    "OP_INSTANCE_GROW_DISK",
    summary_field="instance_name",
    hooks="disk-grow",
    cli=Command("gnt-instance grow-disk", "enlarge a disk", arguments=("instance_name", "disk", "amount")),
    rapi="POST /2/instances/[instance_name]/disk/[disk]/grow",
    examples=(
        Example("grow-disk", {"instance_name": "one.example.com", "disk": 0, "amount": 64}, before=("create",)),
        Example(
            "grow-mirrored",
            {"instance_name": "one.example.com", "disk": 0, "amount": 64},
            before=("cluster-mirroring", "create-mirrored"),
        ),
        Example(
            "grow-disk-stopped",
            {"instance_name": "one.example.com", "disk": 0, "amount": 2048, "absolute": True},
            before=("create-stopped",),
        ),
    ),
)
class GrowDisk(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Enlarge one disk on all nodes that hold it, and tell the guest. A disk is never made smaller."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    wait_for_sync: Annotated[
        bool,
        Parameter(
            "wait until mirrors are in sync",
            "--no-wait-for-sync",
            option_help="do not wait for mirrors to be in sync",
        ),
    ] = True
    disk: Annotated[int, msgspec.Meta(ge=0), Parameter("index of the disk", metavar="disk")]
    amount: Annotated[int, msgspec.Meta(ge=0), Parameter("by how much it grows, in MiB", kind="size", metavar="size")]
    absolute: Annotated[bool, Parameter("the size is the one it has then", "--absolute")] = False
    ignore_ipolicy: IgnorePolicy = False

    def locks(self, view: ConfigView) -> LockPlan:
        return instance_and_nodes(view, self.instance_uuid or self.instance_name)

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "given more space")
        disks = view.instance_disks(instance)
        index = position("disk", disks, self.disk)
        template = ctx.catalogue.template(disks[index].dev_type)
        if not template.growable:
            raise PrerequisiteError(f"Disks of template {template.name} cannot grow", WRONG_INPUT)
        for uuid in view.instance_nodes(instance):
            require_online(view, uuid, f"disk {index} of {instance.name} cannot grow there")
        size_mib = self._size(index, disks[index].size)
        after = [replace(disk, size=size_mib) if disk is disks[index] else disk for disk in disks]
        warnings = check_policy(view, instance, instance, after, template, ignore=self.ignore_ipolicy)
        spec = instance_spec(view, ctx.catalogue, instance)
        return Checked(instance, spec, spec.disks[index], size_mib, warnings)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = list(dict.fromkeys([view.cluster.master_node, *view.instance_nodes(checked.instance)]))
        env = {"DISK": str(self.disk), "AMOUNT": str(self.amount), "ABSOLUTE": str(self.absolute)}
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        """Whether its nodes have room for what it grows by; only one without snapshots can grow there."""
        for warning in checked.warnings:
            ctx.log.warning(warning)
        spec, disk, template = checked.spec, checked.disk, ctx.catalogue.template(checked.disk.template)
        if template.uses_node_disk:
            await require_none(ctx, replace(spec, disks=[disk]), "with which it cannot grow", "", copied=False)
        if not template.checks_free_space:
            return checked
        more_mib = checked.size_mib - disk.size_mib
        parts = [replace(part, size_mib=more_mib) for part in disk.children[:1]]  # metadata stay as they are
        growth = replace(spec, disks=[replace(disk, size_mib=more_mib, children=parts)])
        primary, *others = ctx.config.view().instance_nodes(checked.instance)
        await check_capacity(ctx, primary, growth, template, ignore_memory=True, copies_on=others)
        return checked

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        """The size is committed when every copy has it: what dies before leaves a disk that is larger than is known.

        New volumes hold what an earlier guest has left: a guest that runs is told of the space once it is wiped.
        """
        spec, disk, grown = checked.spec, checked.disk, replace(checked.disk, size_mib=checked.size_mib)
        disks = plan_of(ctx, spec)
        ctx.log.info(f"Growing disk {disk.index} of {spec.name} from {disk.size_mib} MiB to {checked.size_mib} MiB")
        running = await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec))
        holds_old = ctx.catalogue.template(disk.template).uses_node_disk
        wipes = ctx.config.view().cluster.prealloc_wipe_disks and (running is None or holds_old)
        used_mib = await self._used_mib(spec, disk, ctx) if wipes else 0
        await _grow(ctx, disks.grow(disk, checked.size_mib - disk.size_mib, in_use=running is not None))
        if wipes and running is not None:
            await wipe(ctx, disks.primary, grown, from_mib=used_mib)
        if running is not None:
            await ask(ctx.nodes, spec.primary_node_uuid, InstanceResizeDisk(instance=spec, disk=grown))
            if disk.mode == "ro":
                ctx.log.info(
                    f"{spec.name} only reads disk {disk.index}, and sees its new size when it is started again"
                )
        status = await ask(ctx.nodes, spec.primary_node_uuid, BlockdevFind(disk=disk))
        if status is None or (status.size_mib or 0) < checked.size_mib:
            raise ExecutionError(
                f"Disk {disk.index} of {spec.name} has not grown to {checked.size_mib} MiB: see the log of the node "
                f"daemon on {spec.primary_node}"
            )
        await ctx.config.commit(SetDiskSize(disk_uuid=disk.uuid, size_mib=checked.size_mib), settles=True)
        if wipes and running is None:
            await wipe(ctx, disks.primary, grown, from_mib=used_mib)
        if self.wait_for_sync:
            await wait_for_sync(ctx, disks)

    async def _used_mib(self, spec: InstanceSpec, disk: DiskSpec, ctx: OperationContext) -> int:
        """What the guest may have written: a volume of whole extents is larger than is known, as is one whose growth
        was not committed."""
        found = await ask(ctx.nodes, spec.primary_node_uuid, BlockdevFind(disk=disk))
        return max(disk.size_mib, (found.size_mib or 0) if found is not None else 0)

    def _size(self, index: int, now_mib: int) -> int:
        wanted_mib = self.amount if self.absolute else now_mib + self.amount
        if wanted_mib < now_mib:
            raise PrerequisiteError(
                f"Disk {index} has {now_mib} MiB, which is more than {wanted_mib} MiB: a disk is not made smaller",
                WRONG_STATE,
            )
        if wanted_mib == now_mib:
            raise PrerequisiteError(f"Disk {index} has {now_mib} MiB already: give a greater size", WRONG_INPUT)
        if wanted_mib > MAX_DISK_MIB:
            raise PrerequisiteError(f"Disk {index}: a disk can have {MAX_DISK_MIB} MiB at most", WRONG_INPUT)
        return wanted_mib


async def _grow(ctx: OperationContext, steps: list[DiskStep]) -> None:
    """All copies, or none: those that have grown give the space back where a later one cannot grow."""
    grown: list[UndoNodeCall] = []
    for step in steps:
        try:
            await take(ctx, step)
        except GanetiError:
            for undo in grown:
                try:
                    await undo.carry_out(ctx.nodes)
                except GanetiError as err:
                    ctx.log.warning(f"Could not {undo.sentence}: {err}")
            raise
        if step.undo is not None:
            grown.append(step.undo)
