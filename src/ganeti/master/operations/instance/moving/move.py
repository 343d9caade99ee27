# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_MOVE: copy the disks of an instance to another node, and let it live there.

With ``live`` the guest runs on (`live_move`); without, it is stopped meanwhile. Until the copies are whole, everything
is taken back: they go, and the guest starts where it was. From then on the move is completed, whatever dies: one undo
record asks the target for the disks, makes it the primary node, removes those of the source and starts the guest. Only
where the target is lost at the same time it is taken back.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import structs

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ExecutionError, GanetiError, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.disk_plan import completion
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.backup.dumps import require_compression
from ganeti.master.operations.changes import SetPrimaryNode
from ganeti.master.operations.instance.disks.disk_steps import close_disks, plan_of, take
from ganeti.master.operations.instance.disks.snapshot_steps import require_none
from ganeti.master.operations.instance.existing import (
    guest_on_primary,
    instance_and_nodes,
    require_bridges,
    require_complete,
    require_hvparams,
    require_stopped,
)
from ganeti.master.operations.instance.moving import live_move
from ganeti.master.operations.instance.moving.guest_migration import Way
from ganeti.master.operations.instance.moving.move_target import check_target, require_no_copies
from ganeti.master.operations.instance.power.guest_power import start_on_primary, stop_on_primary, undo_by_starting
from ganeti.master.operations.parameters import (
    IgnoreConsistency,
    IgnorePolicy,
    InstanceName,
    InstanceUuid,
    ShutdownTimeout,
    TargetNodeUuid,
    Text,
)
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.disk_copy import (
    BlockdevCopyBegin,
    BlockdevCopyEnd,
    BlockdevCopyWrite,
    BlockdevRead,
    InstanceDisksArrived,
)
from ganeti.model.node_calls.disks import BlockdevRemove
from ganeti.model.node_calls.instances import FoundInstance, InstanceStart
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import Instance, Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall
from ganeti.ports.nodes import ask


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    """As on the old primary node."""
    target: Node
    running: FoundInstance | None
    free_mib: int = 0
    """Memory that the target has for a guest that runs on."""


_EXAMPLE = {"instance_name": "one.example.com", "target_node": "node3.example.com"}


@operation(
    "OP_INSTANCE_MOVE",
    summary_field="instance_name",
    hooks="instance-move",
    cli=Command(
        "gnt-instance move",
        "copy the disks of an instance to another node, where it lives from then on",
        arguments=("instance_name",),
        confirm="Instance {instance_name} will be moved. It is shut down while its disks are copied. Continue?",
        confirm_for=(("live", "Instance {instance_name} will be moved while it runs, its disks with it. Continue?"),),
        excludes=(("--live", "--compress", "what a running guest sends is not compressed: leave the second out"),),
    ),
    examples=(
        Example("move", _EXAMPLE, before=("create-on-file",)),
        Example("move-stopped", _EXAMPLE | {"compress": "gzip"}, before=("create-on-file-stopped",)),
        Example(
            "move-to-master",
            {"instance_name": "one.example.com", "target_node": "node1.example.com"},
            before=("create-on-file-stopped",),
        ),
        Example("move-live", _EXAMPLE | {"live": True}, before=("create-on-file",)),
    ),
)
class MoveInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Move an instance whose disks only its primary node has."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    shutdown_timeout: ShutdownTimeout = 120
    ignore_ipolicy: IgnorePolicy = False
    target_node: Annotated[
        Text, Parameter("where to move to", "-n", "--node", "--target-node", subject="node", metavar="NODE")
    ]
    target_node_uuid: TargetNodeUuid = None
    compress: Annotated[
        str, Parameter("compression of data during the transfer: none, or a tool of the cluster", "--compress")
    ] = "none"
    ignore_consistency: IgnoreConsistency = False
    live: Annotated[bool, Parameter("let it run on while its disks are copied", "--live")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        name = self.instance_uuid or self.instance_name
        return instance_and_nodes(view, name, self._target(view).uuid)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> FoundInstance | None:
        """The guest, if it runs."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "moved")
        if self.live and self.compress != "none":
            raise PrerequisiteError(
                f"What a running guest sends is not compressed ({self.compress}): leave --compress out", WRONG_INPUT
            )
        await require_compression(ctx, view, self.compress, [instance.primary_node, self._target(view).uuid])
        return await guest_on_primary(ctx, view, instance, "its disks cannot be read until it is back")

    def check(self, view: ConfigView, facts: FoundInstance | None, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        template = ctx.catalogue.template(view.disk_template(instance))
        if not template.copyable and (template.has_disks or self.live):
            raise PrerequisiteError(
                f"Instance {instance.name} cannot be moved: disks of template {template.name} are not copied. "
                f"Use gnt-instance migrate, or failover, {instance.name}",
                WRONG_STATE,
            )
        if self.live:
            live_move.check(view, ctx.catalogue, instance, facts)
        elif instance.admin_state != "up":
            require_stopped(instance, facts, "moved")
        target = self._target(view)
        check_target(view, instance, target.uuid, ignore_ipolicy=self.ignore_ipolicy)
        return Checked(instance, instance_spec(view, ctx.catalogue, instance), target, facts)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        env = {"TARGET_NODE": checked.target.name, "SHUTDOWN_TIMEOUT": str(self.shutdown_timeout)}
        nodes = [view.cluster.master_node, checked.instance.primary_node, checked.target.uuid]
        nodes = list(dict.fromkeys(nodes))
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        if self.live:
            await self._move_live(checked, ctx)
            return
        spec, target = checked.spec, checked.target
        await self._stop(checked, ctx)
        for disk in spec.disks:
            await self._copy(spec, disk, target, ctx)
        arrive = SetPrimaryNode(instance_uuid=spec.uuid, node_uuid=target.uuid)
        await self._settle(checked, arrive, ctx)
        if checked.instance.admin_state == "up":
            ctx.log.info(f"* starting the instance on the target node {target.name}")
            await self._start(checked, arrive, ctx)
        await ctx.config.commit(arrive, settles=True)

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        if self.live:
            template = ctx.catalogue.template(ctx.config.view().disk_template(checked.instance))
            found = await self._live_move(checked, ctx).check_nodes(template, same_version=True, may_shrink=True)
            return replace(checked, free_mib=found)
        spec, target = checked.spec, checked.target
        runs = checked.instance.admin_state == "up"
        template = ctx.catalogue.template(ctx.config.view().disk_template(checked.instance))
        await allocation.check_capacity(ctx, target.uuid, spec, template, ignore_memory=not runs)
        await require_bridges(ctx, target.uuid, spec)
        if runs:
            await require_hvparams(ctx, spec, node_uuid=target.uuid, starts=True)
        await require_none(ctx, spec, "which are not copied to another node", "", copied=True)
        await require_no_copies(ctx, spec, target)
        return checked

    async def _start(self, checked: Checked, arrive: SetPrimaryNode, ctx: OperationContext) -> None:
        """Start the guest where its disks are by now; where it does not start, it stays there, stopped."""
        moved = _on_target(checked, ctx)
        try:
            await start_on_primary(ctx, moved)
        except GanetiError:
            await close_disks(ctx, moved)
            await ctx.config.commit(arrive, settles=True)
            raise

    async def _move_live(self, checked: Checked, ctx: OperationContext) -> None:
        move = self._live_move(checked, ctx)
        await move.shrink(checked.free_mib)
        await move.run()

    def _live_move(self, checked: Checked, ctx: OperationContext) -> live_move.LiveMove:
        memory_mib = checked.running.memory_mib if checked.running is not None else 0
        return live_move.LiveMove(ctx, Way(checked.spec, checked.target, memory_mib))

    def _target(self, view: ConfigView) -> Node:
        return view.find_node(self.target_node_uuid or self.target_node)

    async def _stop(self, checked: Checked, ctx: OperationContext) -> None:
        spec = checked.spec
        if checked.instance.admin_state == "up":
            await undo_by_starting(ctx, spec)
        ctx.log.info(f"* shutting down instance on source node {spec.primary_node}")
        try:
            await stop_on_primary(ctx, spec, timeout_s=float(self.shutdown_timeout))
        except GanetiError as err:
            if not self.ignore_consistency:
                raise
            ctx.log.warning(f"{spec.name} was not shut down on {spec.primary_node}, its copy may be torn: {err}")

    async def _copy(self, spec: InstanceSpec, disk: DiskSpec, target: Node, ctx: OperationContext) -> None:
        """Copy one disk, empty parts left out; its undo removes what is there of it."""
        source = spec.primary_node_uuid
        piece = await ask(ctx.nodes, source, BlockdevRead(disk=disk, offset=0, compression=self.compress))
        size = piece.size
        ctx.log.info(f"* copying disk {disk.index} to {target.name}...")
        sentence = f"remove the copy of disk {disk.index} of {spec.name} from {target.name}"
        await ctx.undo.push(UndoNodeCall.of(sentence, target.uuid, BlockdevRemove(disk=disk)))
        boot = await ask(ctx.nodes, target.uuid, BlockdevCopyBegin(disk=disk, size=size))
        offset = piece.offset
        while offset < size:
            if piece.data:
                write = BlockdevCopyWrite(
                    disk=disk, offset=offset, data=piece.data, compression=self.compress, boot=boot
                )
                offset = await ask(ctx.nodes, target.uuid, write)
            ctx.log.progress(f"disk {disk.index} is copied", offset, size)
            piece = await ask(ctx.nodes, source, BlockdevRead(disk=disk, offset=offset, compression=self.compress))
            if piece.size != size:
                raise ExecutionError(f"Disk {disk.index} of {spec.name} has changed its size while it was copied")
            offset = piece.offset
        await ask(ctx.nodes, target.uuid, BlockdevCopyEnd(disk=disk, boot=boot))

    async def _settle(self, checked: Checked, arrive: SetPrimaryNode, ctx: OperationContext) -> None:
        """Make the target primary and remove the disks of the source: what has begun is completed, by a start too."""
        spec, start = checked.spec, None
        if checked.instance.admin_state == "up":
            request = InstanceStart(instance=bare(_on_target(checked, ctx)), paused=False)
            start = UndoNodeCall.of(f"start {spec.name} on {checked.target.name}", arrive.node_uuid, request)
        back = SetPrimaryNode(instance_uuid=spec.uuid, node_uuid=spec.primary_node_uuid)
        await ctx.undo.push(UndoChange(f"make {spec.primary_node} the primary node of {spec.name} again", back))
        steps = plan_of(ctx, spec).remove()
        sentence = f"complete the move of {spec.name}"
        await ctx.undo.push(
            UndoNodeCall.of(
                sentence,
                arrive.node_uuid,
                InstanceDisksArrived(instance=bare(spec)),
                settled_change=arrive,
                settled_call=completion(steps, sentence, arrive, start),
                forward=True,
            )
        )
        await ctx.config.commit(arrive)
        ctx.log.info(f"* removing the disks on {spec.primary_node}")
        for step in steps:
            await take(ctx, step)


def _on_target(checked: Checked, ctx: OperationContext) -> InstanceSpec:
    """The instance as it is once it has moved."""
    moved = structs.replace(checked.instance, primary_node=checked.target.uuid)
    return instance_spec(ctx.config.view(), ctx.catalogue, moved)
