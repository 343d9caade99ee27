# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_FAILOVER: move an instance by stopping it here and starting it there.

At most one copy of a guest may write its disks. If the old primary answers, it stops the guest and gives the image
lock back. If not, the lock may be taken from it only when an administrator has said that the node is down (marked
offline), or says here that the risk is understood (--ignore-consistency).
"""

from dataclasses import dataclass
from typing import Annotated

from ganeti.base.command import ASSUME_YES, PRIORITY, Argument, Command
from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.changes import SetInstanceState, SetPrimaryNode
from ganeti.master.operations.instance.disks.disk_steps import close_disks, plan_of
from ganeti.master.operations.instance.existing import reachable, require_bridges, require_hvparams, require_one_moment
from ganeti.master.operations.instance.moving.cleanup import clean_up
from ganeti.master.operations.instance.moving.lost_guest import wait_for_its_end
from ganeti.master.operations.instance.moving.move_target import (
    check_target,
    choose_target,
    move_locks,
    move_request,
    require_movable,
    secondary_variables,
)
from ganeti.master.operations.instance.power.guest_power import end_on_primary, start_on_primary, undo_by_starting
from ganeti.master.operations.parameters import (
    NODE_OR_ALLOCATOR,
    Allocator,
    IgnoreConsistency,
    IgnorePolicy,
    InstanceName,
    InstanceUuid,
    ShutdownTimeout,
    TargetNode,
    TargetNodeUuid,
    Why,
)
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.disks import FAULTY, GOOD, BlockdevFind, BlockdevFindEach, FoundDisk
from ganeti.model.node_calls.instances import InstanceDisksSteal
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoChange
from ganeti.ports.nodes import ask


@dataclass(frozen=True)
class Facts:
    target_uuid: str
    source_answers: bool


@dataclass(frozen=True)
class Move:
    instance: Instance
    spec: InstanceSpec
    """As on the old primary node."""
    target_uuid: str
    target_name: str
    source_gone: bool


_EXAMPLE = {"instance_name": "one.example.com", "target_node": "node3.example.com"}


@operation(
    "OP_INSTANCE_FAILOVER",
    summary_field="instance_name",
    hooks="instance-failover",
    cli=(
        Command(
            "gnt-instance failover",
            "stop an instance and start it on another node",
            arguments=("instance_name",),
            confirm="Failover will happen to instance {instance_name}: it is stopped and started on another node. "
            "Continue?",
            confirm_for=(
                (
                    "cleanup",
                    "Instance {instance_name} will be recovered from an interrupted failover. This may change where "
                    "it runs. Continue?",
                ),
            ),
            excludes=(NODE_OR_ALLOCATOR,),
        ),
        Command(
            "gnt-node failover",
            "fail over all primary instances of a node",
            arguments=(Argument("node_name", "node-name"),),
            options=(ASSUME_YES, PRIORITY),
            parameters=("ignore_consistency", "iallocator"),
            handler="node.jobs:failover",
            is_job=False,
        ),
    ),
    rapi="PUT /2/instances/[instance_name]/failover",
    examples=(
        Example("failover", _EXAMPLE, before=("create",)),
        Example(
            "failover-mirrored", {"instance_name": "one.example.com"}, before=("cluster-mirroring", "create-mirrored")
        ),
        Example("failover-stopped", _EXAMPLE, before=("create-stopped",)),
    ),
)
class FailoverInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fail an instance over to another node."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    ignore_consistency: IgnoreConsistency = False
    shutdown_timeout: ShutdownTimeout = 120
    target_node: TargetNode = None
    target_node_uuid: TargetNodeUuid = None
    iallocator: Allocator | None = None
    ignore_ipolicy: IgnorePolicy = False
    cleanup: Annotated[bool, Parameter("clean up after an interrupted failover", "--cleanup")] = False
    why: Why = False

    def locks(self, view: ConfigView) -> LockPlan:
        return move_locks(view, move_request(self))

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        instance = view.find_instance(move_request(self).instance)
        source = view.node(instance.primary_node)
        may_be_lost = not self.cleanup and (source.offline or self.ignore_consistency)
        require_movable(view, ctx.catalogue, instance, "failed over", reverting=may_be_lost)
        if self.cleanup:
            return Facts(source.uuid, True)
        answers = not source.offline and await reachable(ctx, source.uuid)
        if not answers and not source.offline and not self.ignore_consistency:
            raise PrerequisiteError(
                f"Node {source.name} does not answer, so {instance.name} may still be running there and writing its "
                "disks. "
                f"Switch the node off and mark it with gnt-node modify --offline yes {source.name}, "
                "or add --ignore-consistency if you are sure",
                WRONG_STATE,
            )
        if answers:
            require_one_moment(instance)
            await require_equal_copies(ctx, view, instance)
        target_uuid = await choose_target(ctx, move_request(self))
        if answers:
            await require_reached_disks(ctx, view, instance, target_uuid)
        if not answers:
            await _require_usable_copies(ctx, view, instance, target_uuid, older=self.ignore_consistency)
        return Facts(target_uuid, answers)

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Move:
        instance = view.find_instance(move_request(self).instance)
        if not self.cleanup:
            check_target(view, instance, facts.target_uuid, ignore_ipolicy=self.ignore_ipolicy)
        spec = instance_spec(view, ctx.catalogue, instance)
        target = view.node(facts.target_uuid)
        return Move(instance, spec, target.uuid, target.name, not facts.source_answers)

    def hooks(self, view: ConfigView, checked: Move) -> Hooks:
        env = {
            "IGNORE_CONSISTENCY": str(self.ignore_consistency),
            "SHUTDOWN_TIMEOUT": str(self.shutdown_timeout),
            "FAILOVER_CLEANUP": str(self.cleanup),
            "OLD_PRIMARY": checked.spec.primary_node,
            "NEW_PRIMARY": checked.target_name,
            **secondary_variables(checked.spec, checked.target_name),
        }
        before = list(dict.fromkeys([view.cluster.master_node, checked.target_uuid]))
        after = before if checked.source_gone else [*before, checked.instance.primary_node]
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, before, after, env)

    async def check_on_nodes(self, checked: Move, ctx: OperationContext) -> Move:
        if not self.cleanup:
            await _check_target(ctx, checked)
        return checked

    async def execute(self, checked: Move, ctx: OperationContext) -> None:
        if self.cleanup:
            await clean_up(ctx, checked.instance, checked.spec)
            return
        if checked.source_gone:
            ctx.log.warning(
                f"Node {checked.spec.primary_node} is gone: its lock on {checked.spec.name} is taken from it"
            )
        await move_stopped(ctx, checked, shutdown_timeout_s=float(self.shutdown_timeout), steal=checked.source_gone)


async def require_equal_copies(ctx: OperationContext, view: ConfigView, instance: Instance) -> None:
    """Raise `PrerequisiteError`, while the guest still runs, where a secondary's copy lacks what the primary's has.

    Where the primary's own copy cannot be used, the secondary's is the only good one.
    """
    for side in plan_of(ctx, instance_spec(view, ctx.catalogue, instance)).secondaries:
        for disk in side.spec.disks:
            status = await ask(ctx.nodes, instance.primary_node, BlockdevFind(disk=disk))
            if status is not None and status.is_degraded and status.ldisk_status != FAULTY:
                if view.node(side.node_uuid).offline:
                    raise PrerequisiteError(
                        f"Node {side.node_name}, which has the other copy of the disks of {instance.name}, is offline: "
                        f"bring it back, or make the copies elsewhere (gnt-instance replace-disks -n NODE "
                        f"{instance.name})",
                        WRONG_STATE,
                    )
                raise PrerequisiteError(
                    f"The copy of disk {disk.index} of {instance.name} on {side.node_name} is behind: bring it up to "
                    f"date with gnt-instance activate-disks --wait-for-sync {instance.name} first",
                    WRONG_STATE,
                )


async def require_reached_disks(ctx: OperationContext, view: ConfigView, instance: Instance, target_uuid: str) -> None:
    """Raise `PrerequisiteError`, while the guest still runs, where the target cannot look at a shared disk."""
    if not ctx.catalogue.template(view.disk_template(instance)).shared:
        return
    disks = instance_spec(view, ctx.catalogue, instance).disks
    found_disks: list[FoundDisk] = await ask(ctx.nodes, target_uuid, BlockdevFindEach(disks=disks))
    for disk, found in zip(disks, found_disks, strict=True):
        if found.fault:
            raise PrerequisiteError(
                f"{instance.name} stays on {view.node(instance.primary_node).name}, as node "
                f"{view.node(target_uuid).name} does not reach its disk {disk.index}: {found.fault}",
                WRONG_STATE,
            )


async def _require_usable_copies(
    ctx: OperationContext, view: ConfigView, instance: Instance, target_uuid: str, *, older: bool
) -> None:
    """Raise `PrerequisiteError`, while nothing has changed, where the target's copy of a disk cannot be used.

    Unless an *older* one may be, nor may one that lacks something, or that the lost primary is known to have gone on
    without.
    """
    source, target = view.node(instance.primary_node).name, view.node(target_uuid).name
    again = ", or add --ignore-consistency to go back to the older state"
    sides = plan_of(ctx, instance_spec(view, ctx.catalogue, instance)).secondaries
    for disk in next((side.spec.disks for side in sides if side.node_uuid == target_uuid), []):
        status = await ask(ctx.nodes, target_uuid, BlockdevFind(disk=disk))
        copy = f"The copy of disk {disk.index} of {instance.name} on {target}"
        if status is None or status.ldisk_status == FAULTY:
            what = "missing" if status is None else "not complete"
            raise PrerequisiteError(f"{copy} is {what}, so it cannot be used: bring {source} back", WRONG_STATE)
        if older:
            continue
        if status.ldisk_status != GOOD:
            raise PrerequisiteError(
                f"{copy} lacks something of what {source} wrote: bring {source} back{again}", WRONG_STATE
            )
        known, own = disk.generation, status.generation
        if known is not None and own is not None and own < known:
            raise PrerequisiteError(
                f"{copy} is older than that on {source}, which went on without it: bring {source} back{again}",
                WRONG_STATE,
            )


def _should_run(move: Move) -> bool:
    return move.instance.admin_state == "up" and move.instance.reverting is None


async def _check_target(ctx: OperationContext, move: Move) -> None:
    """Raise `PrerequisiteError` where the target cannot take the instance."""
    spec, should_run = move.spec, _should_run(move)
    template = ctx.catalogue.template(ctx.config.view().disk_template(move.instance))
    await allocation.check_capacity(
        ctx, move.target_uuid, spec, template, ignore_memory=not should_run, makes_disks=False
    )
    if not should_run:
        return
    await require_bridges(ctx, move.target_uuid, spec)
    if not move.source_gone:
        await require_hvparams(ctx, spec, node_uuid=move.target_uuid, starts=True)


async def move_stopped(ctx: OperationContext, move: Move, *, shutdown_timeout_s: float, steal: bool) -> None:
    """Stop on the old primary (unless it is gone), make the target primary, start there if it should run."""
    spec = move.spec
    reverting = move.instance.reverting
    should_run = _should_run(move)
    if not move.source_gone:
        if should_run:
            await undo_by_starting(ctx, spec)
        ctx.log.info(f"* shutting down instance on source node {spec.primary_node}")
        await end_on_primary(ctx, spec, timeout_s=shutdown_timeout_s)
        # The guest may have taken minutes: what it wrote last is lost where the other copy fell behind meanwhile.
        await require_equal_copies(ctx, ctx.config.view(), move.instance)
        await close_disks(ctx, spec)
        await ctx.undo.push(
            UndoChange(
                f"make {spec.primary_node} the primary node of {spec.name} again",
                SetPrimaryNode(instance_uuid=spec.uuid, node_uuid=spec.primary_node_uuid),
            )
        )
    arrive = SetPrimaryNode(instance_uuid=spec.uuid, node_uuid=move.target_uuid, by_force=steal)
    await ctx.config.commit(arrive, settles=move.source_gone)
    view = ctx.config.view()
    moved = instance_spec(view, ctx.catalogue, view.instance(spec.uuid))
    if steal:
        await ask(
            ctx.nodes, move.target_uuid, InstanceDisksSteal(instance=moved, reason=f"failover from {spec.primary_node}")
        )
        if should_run:
            await wait_for_its_end(ctx, moved, spec.primary_node)
    if reverting is not None:
        await close_disks(ctx, moved)
        ctx.log.warning(f"{spec.name} is not started before its disks are of one moment: complete what was interrupted")
    if should_run:
        ctx.log.info(f"* starting the instance on the target node {move.target_name}")
        await start_on_primary(ctx, moved, ignore_secondaries=steal)
        if not move.instance.disks_active:  # it was shut down without being marked as down
            await ctx.config.commit(SetInstanceState(instance_uuid=spec.uuid, disks_active=True), settles=True)
    await ctx.config.commit(arrive, settles=True)
