# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_MIGRATE: move a running instance to another node without stopping it.

The guest is paused before the switch (pause-before-switchover) and resumed on the target. The point of no return is
the source's word that the switch is complete; before it every way back ends with the guest running on the source,
after it the configuration follows the guest. A successor of a dead job asks the source which side of that point it is
on (`migration_resolve`).
"""

from dataclasses import dataclass
from typing import Annotated, Any

from ganeti.base.command import Command
from ganeti.base.errors import (
    INSUFFICIENT_RESOURCES,
    WRONG_INPUT,
    WRONG_STATE,
    ExecutionError,
    HypervisorError,
    NodeCallError,
    PrerequisiteError,
)
from ganeti.master import allocation
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.changes import SetPrimaryNode
from ganeti.master.operations.instance import failover
from ganeti.master.operations.instance.cleanup import clean_up
from ganeti.master.operations.instance.disks import plan_of, push_undo, take
from ganeti.master.operations.instance.existing import require_bridges, require_online
from ganeti.master.operations.instance.move_target import (
    check_target,
    choose_target,
    move_locks,
    move_request,
    require_movable,
    secondary_variables,
)
from ganeti.master.operations.parameters import (
    MODE_OR_FLAG,
    NODE_OR_ALLOCATOR,
    Allocator,
    IgnorePolicy,
    InstanceName,
    InstanceUuid,
    Live,
    MigrationMode,
    RuntimeChanges,
    TargetNode,
    TargetNodeUuid,
    Why,
)
from ganeti.master.parameter import Parameter
from ganeti.model import inheritance
from ganeti.model.locks import ALL_NODE_RES, LockPlan
from ganeti.model.node_calls.instances import FoundInstance, InstanceInfo
from ganeti.model.node_calls.node import NodeInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

POLL_S = 0.1
QUICK_POLL_S = 0.02
"""In the first second, which is all that a small guest takes, and once the guest is stopped."""
STALL_S = 120.0
"""A migration that moves no byte for this long is given up."""


@dataclass(frozen=True)
class Facts:
    target_uuid: str
    running: FoundInstance | None
    """The guest as its primary node knows it."""


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    target_uuid: str
    target_name: str
    target_address: str
    live: bool
    by_failover: bool
    chosen: bool
    memory_mib: int
    """What the guest uses now."""


@operation(
    "OP_INSTANCE_MIGRATE",
    summary_field="instance_name",
    hooks="instance-migrate",
    cli=Command(
        "gnt-instance migrate",
        "migrate an instance to another node while it runs",
        arguments=("instance_name",),
        confirm="Instance {instance_name} will be migrated. If something goes wrong in the hypervisor, the guest may "
        "stop. Continue?",
        confirm_for=(
            (
                "cleanup",
                "Instance {instance_name} will be recovered from an interrupted migration. This may change where it "
                "runs. Continue?",
            ),
        ),
        excludes=(NODE_OR_ALLOCATOR, MODE_OR_FLAG),
    ),
    rapi="PUT /2/instances/[instance_name]/migrate",
    examples=(
        Example(
            "migrate", {"instance_name": "one.example.com", "target_node": "node3.example.com"}, before=("create",)
        ),
        Example(
            "migrate-to-master",
            {"instance_name": "one.example.com", "target_node": "node1.example.com"},
            before=("create",),
        ),
    ),
)
class MigrateInstance(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Migrate an instance to another node."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    mode: MigrationMode = None
    live: Live = None
    cleanup: Annotated[bool, Parameter("put right what an interrupted migration has left", "--cleanup")] = False
    target_node: TargetNode = None
    target_node_uuid: TargetNodeUuid = None
    iallocator: Allocator | None = None
    allow_failover: Annotated[bool, Parameter("fail over if it cannot be migrated", "--allow-failover")] = False
    ignore_ipolicy: IgnorePolicy = False
    ignore_hvversions: Annotated[bool, Parameter("do not compare the hypervisors' versions", "--ignore-hvversions")] = (
        False
    )
    allow_runtime_changes: RuntimeChanges = True
    why: Why = False

    def locks(self, view: ConfigView) -> LockPlan:
        return move_locks(view, move_request(self))

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        self._check_input(view, ctx)
        instance = view.find_instance(move_request(self).instance)
        spec = instance_spec(view, ctx.catalogue, instance)
        running = await ask(ctx.nodes, instance.primary_node, InstanceInfo(instance=spec))
        if self.cleanup:
            return Facts(instance.primary_node, running)
        return Facts(await choose_target(ctx, move_request(self)), running)

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        instance = view.find_instance(move_request(self).instance)
        if not self.cleanup:
            check_target(view, instance, facts.target_uuid, ignore_ipolicy=self.ignore_ipolicy)
        target = view.node(facts.target_uuid)
        spec = instance_spec(view, ctx.catalogue, instance)
        down = facts.running is None and instance.admin_state != "up"
        if facts.running is None and not down and not self.cleanup and not self.allow_failover:
            raise PrerequisiteError(
                f"Instance {instance.name} is not running on {spec.primary_node}: start it first, or fail it over",
                WRONG_STATE,
            )
        backend = inheritance.instance_be(view.cluster, instance)
        return Checked(
            instance=instance,
            spec=spec,
            target_uuid=target.uuid,
            target_name=target.name,
            target_address=target.secondary_ip,
            live=self._is_live(spec),
            by_failover=facts.running is None or backend["always_failover"],
            chosen=not view.secondary_nodes(instance) and move_request(self).target_node is None,
            memory_mib=facts.running.memory_mib if facts.running is not None else 0,
        )

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        env = {
            "MIGRATE_LIVE": str(checked.live),
            "MIGRATE_CLEANUP": str(self.cleanup),
            "ALLOW_RUNTIME_CHANGES": str(self.allow_runtime_changes),
            "OLD_PRIMARY": checked.spec.primary_node,
            "NEW_PRIMARY": checked.target_name,
            **secondary_variables(checked.spec, checked.target_name),
        }
        nodes = list(dict.fromkeys([view.cluster.master_node, checked.instance.primary_node, checked.target_uuid]))
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        if self.cleanup:
            await clean_up(ctx, checked.instance, checked.spec)
            return
        if checked.by_failover:
            ctx.log.info(f"* {checked.spec.name} is not running, or may not migrate: failing over instead")
            move = failover.Move(checked.instance, checked.spec, checked.target_uuid, checked.target_name, False)
            await failover.move_stopped(ctx, move, shutdown_timeout_s=120.0, steal=False)
            return
        free_mib = await self._check_nodes(checked, ctx)
        await self._shrink(checked, free_mib, ctx)
        ctx.log.info(f"* preparing {checked.target_name} to accept the instance")
        target = await self._accept(checked, ctx)
        if checked.chosen:
            await ctx.locks.release([ALL_NODE_RES])
        ctx.log.info(f"* migrating instance to {checked.target_name}")
        source = checked.instance.primary_node
        await ctx.nodes.call(source, "instance_migrate", instance=checked.spec, target=target, live=checked.live)
        await self._follow(checked, ctx)
        await self._settle(checked, ctx)
        ctx.log.info("* done")

    def _check_input(self, view: ConfigView, ctx: OperationContext) -> None:
        instance = view.find_instance(move_request(self).instance)
        if self.mode is not None and self.live is not None:
            raise PrerequisiteError("Give either the migration mode or --non-live, not both", WRONG_INPUT)
        require_movable(view, ctx.catalogue, instance, "migrated")
        if not ctx.catalogue.hypervisor(instance.hypervisor).can_migrate:
            raise PrerequisiteError(
                f"Hypervisor {instance.hypervisor} cannot migrate instances: use gnt-instance failover", WRONG_STATE
            )
        require_online(view, instance.primary_node, f"use gnt-instance failover {instance.name}")

    def _is_live(self, spec: InstanceSpec) -> bool:
        if self.live is not None:
            return self.live
        return (self.mode or spec.hvparams.get("migration_mode", "live")) == "live"

    async def _check_nodes(self, checked: Checked, ctx: OperationContext) -> int:
        """Gives the memory, in MiB, that is free on the target."""
        template = ctx.catalogue.template(ctx.config.view().disk_template(checked.instance))
        free_mib = await allocation.check_capacity(ctx, checked.target_uuid, checked.spec, template)
        await require_bridges(ctx, checked.target_uuid, checked.spec)
        if self.ignore_hvversions:
            return free_mib
        query = NodeInfo(storage=[], hypervisors={checked.spec.hypervisor: checked.spec.hvparams})
        versions = []
        for uuid in (checked.instance.primary_node, checked.target_uuid):
            info = await ask(ctx.nodes, uuid, query)
            versions.append(info.hypervisors[checked.spec.hypervisor].hv_version)
        if versions[0] != versions[1]:
            raise PrerequisiteError(
                f"Hypervisor versions differ: {versions[0]} on {checked.spec.primary_node}, {versions[1]} on "
                f"{checked.target_name}: add --ignore-hvversions to migrate anyway",
                WRONG_STATE,
            )
        return free_mib

    async def _shrink(self, checked: Checked, free_mib: int, ctx: OperationContext) -> None:
        """Take memory from a guest that uses more than the target has; what it needs at least is there."""
        spec, source = checked.spec, checked.instance.primary_node
        if checked.memory_mib <= free_mib:
            return
        able = ctx.catalogue.hypervisor(spec.hypervisor).can_balloon
        if not self.allow_runtime_changes or not able:
            why = "leave --no-runtime-changes out" if able else f"hypervisor {spec.hypervisor} cannot shrink it"
            raise PrerequisiteError(
                f"Not enough memory on node {checked.target_name} for {spec.name} as it runs: it uses "
                f"{checked.memory_mib} MiB, available {free_mib} MiB: choose another node; {why}",
                INSUFFICIENT_RESOURCES,
            )
        ctx.log.info(f"* shrinking the memory of the instance from {checked.memory_mib} to {free_mib} MiB")
        await ctx.undo.push(
            UndoNodeCall(
                f"give {spec.name} its {checked.memory_mib} MiB of memory back",
                source,
                "instance_balloon_memory",
                {"instance": bare(spec), "memory_mib": checked.memory_mib},
            )
        )
        await ctx.nodes.call(source, "instance_balloon_memory", instance=spec, memory_mib=free_mib)

    async def _accept(self, checked: Checked, ctx: OperationContext) -> dict[str, Any]:
        spec = checked.spec
        info = await ctx.nodes.call(checked.instance.primary_node, "migration_info", instance=spec)
        steps = plan_of(ctx, spec).admit(checked.target_uuid, checked.target_name)
        await push_undo(ctx, steps)
        await ctx.undo.push(
            UndoNodeCall(
                f"clean up {checked.target_name}",
                checked.target_uuid,
                "instance_finalize_migration_dst",
                {"instance": bare(spec), "success": False},
            )
        )
        for step in steps:
            await take(ctx, step)
        target: dict[str, Any] = await ctx.nodes.call(
            checked.target_uuid, "accept_instance", instance=spec, info=info, address=checked.target_address
        )
        await ctx.undo.push(
            UndoNodeCall(
                f"let {spec.name} run on {spec.primary_node} again",
                checked.instance.primary_node,
                "migration_resolve",
                {"instance": bare(spec)},
                settled_change=SetPrimaryNode(instance_uuid=spec.uuid, node_uuid=checked.target_uuid),
                settled_call=UndoNodeCall(
                    f"let {spec.name} stay on {checked.target_name}",
                    checked.target_uuid,
                    "instance_finalize_migration_dst",
                    {"instance": bare(spec), "success": True, "may_have_ended": True},
                ),
            )
        )
        return target

    async def _follow(self, checked: Checked, ctx: OperationContext) -> None:
        """Watch the source until it is done; raises `ExecutionError` when it fails or makes no progress."""
        source, spec = checked.instance.primary_node, checked.spec
        moved, moved_at_s = -1, ctx.clock.now_s()
        began_s = moved_at_s
        while True:
            status = await ctx.nodes.call(source, "instance_get_migration_status", instance=spec)
            state = status["status"]
            if state == "completed":
                ctx.log.progress("memory", status["total_ram"], status["total_ram"])
                return
            if state in ("failed", "cancelled", "none"):
                reason = status.get("error") or "the hypervisor gave no reason"
                raise ExecutionError(f"Could not migrate instance {spec.name}: {state}: {reason}")
            if state == "pre-switchover":
                await self._hand_over(checked, ctx)
                await ctx.nodes.call(source, "migration_continue", instance=spec)
            if status["transferred_ram"] != moved:
                moved, moved_at_s = status["transferred_ram"], ctx.clock.now_s()
                # More is sent than there is, since the guest goes on writing: the end is said once, above.
                ctx.log.progress("memory", moved, max(status["total_ram"], moved + 1))
            elif ctx.clock.now_s() - moved_at_s > STALL_S:
                raise ExecutionError(
                    f"Could not migrate instance {spec.name}: no data moved for {STALL_S:.0f} seconds in state {state}"
                )
            quick = state == "pre-switchover" or ctx.clock.now_s() - began_s < 1.0
            await ctx.clock.sleep(QUICK_POLL_S if quick else POLL_S)

    async def _hand_over(self, checked: Checked, ctx: OperationContext) -> None:
        """The guest has stopped: where both nodes have a copy of its disks, the target's is written from now on."""
        view = ctx.config.view()
        if view.secondary_nodes(checked.instance):
            await ctx.nodes.call(checked.instance.primary_node, "migration_hand_over", instance=checked.spec)
            await ctx.nodes.call(checked.target_uuid, "migration_take_over", instance=checked.spec)

    async def _settle(self, checked: Checked, ctx: OperationContext) -> None:
        """The guest has arrived: both nodes are told, then it is written down; repeating any of it does no harm."""
        spec, source = checked.spec, checked.instance.primary_node
        try:
            await ctx.nodes.call(checked.target_uuid, "instance_finalize_migration_dst", instance=spec, success=True)
        except HypervisorError as err:
            # The source has sent everything and the target could not use it: the guest is still whole on the source.
            await ctx.nodes.call(checked.target_uuid, "instance_finalize_migration_dst", instance=spec, success=False)
            await ctx.nodes.call(source, "instance_finalize_migration_src", instance=spec, success=False)
            raise ExecutionError(f"Could not migrate instance {spec.name}, it runs on where it was: {err}") from err
        try:
            await ctx.nodes.call(source, "instance_finalize_migration_src", instance=spec, success=True)
        except NodeCallError as err:
            ctx.log.warning(f"{spec.name} runs on {checked.target_name}, but its old node was not cleaned up: {err}")
        await ctx.config.commit(SetPrimaryNode(instance_uuid=spec.uuid, node_uuid=checked.target_uuid), settles=True)
