# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_MIGRATE: move a running instance to another node without stopping it.

The guest is paused before the switch (pause-before-switchover) and resumed on the target. The point of no return is
the source's word that the switch is complete; before it every way back ends with the guest running on the source,
after it the configuration follows the guest. A successor of a dead job asks the source which side of that point it is
on (`migration_resolve`).
"""

from dataclasses import dataclass
from typing import Annotated

from ganeti.base.command import Command
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.instance.existing import require_complete, require_online
from ganeti.master.operations.instance.moving import failover, live_move
from ganeti.master.operations.instance.moving.cleanup import clean_up
from ganeti.master.operations.instance.moving.guest_migration import GuestMigration, Way
from ganeti.master.operations.instance.moving.live_move import LiveMove, check_snapshots
from ganeti.master.operations.instance.moving.move_target import (
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
from ganeti.model.locks import ALL_NODE_RES, LockPlan, node_res_lock
from ganeti.model.node_calls.instances import FoundInstance, InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@dataclass(frozen=True)
class Facts:
    target_uuid: str
    running: FoundInstance | None
    """The guest as its primary node knows it."""


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    way: Way
    by_failover: bool
    chosen: bool


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
            "migrate-mirrored", {"instance_name": "one.example.com"}, before=("cluster-mirroring", "create-mirrored")
        ),
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
    move_disks: Annotated[
        bool,
        Parameter("copy its disks to the target while it runs, where only its primary node has them", "--move-disks"),
    ] = False
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
        by_failover = _by_failover(view, instance, running)
        if by_failover:
            await failover.require_equal_copies(ctx, view, instance)
        target_uuid = await choose_target(ctx, move_request(self))
        if by_failover:
            await failover.require_reached_disks(ctx, view, instance, target_uuid)
        return Facts(target_uuid, running)

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        instance = view.find_instance(move_request(self).instance)
        if not self.cleanup:
            check_target(view, instance, facts.target_uuid, ignore_ipolicy=self.ignore_ipolicy)
        target = view.node(facts.target_uuid)
        spec = instance_spec(view, ctx.catalogue, instance)
        if self.move_disks and not self.cleanup:
            live_move.check(view, ctx.catalogue, instance, facts.running)
        down = facts.running is None and instance.admin_state != "up"
        if facts.running is None and not down and not self.cleanup and not self.allow_failover:
            raise PrerequisiteError(
                f"Instance {instance.name} is not running on {spec.primary_node}: start it first, or fail it over",
                WRONG_STATE,
            )
        return Checked(
            instance=instance,
            spec=spec,
            way=Way(
                spec=spec,
                target=target,
                memory_mib=facts.running.memory_mib if facts.running is not None else 0,
                live=self._is_live(spec),
            ),
            by_failover=_by_failover(view, instance, facts.running),
            chosen=not view.secondary_nodes(instance) and move_request(self).target_node is None,
        )

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        env = {
            "MIGRATE_LIVE": str(checked.way.live),
            "MIGRATE_CLEANUP": str(self.cleanup),
            "ALLOW_RUNTIME_CHANGES": str(self.allow_runtime_changes),
            "OLD_PRIMARY": checked.spec.primary_node,
            "NEW_PRIMARY": checked.way.target.name,
            **secondary_variables(checked.spec, checked.way.target.name),
        }
        nodes = list(dict.fromkeys([view.cluster.master_node, checked.instance.primary_node, checked.way.target.uuid]))
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        if self.cleanup:
            await clean_up(ctx, checked.instance, checked.spec)
            return
        if checked.by_failover:
            ctx.log.info(f"* {checked.spec.name} is not running, or may not migrate: failing over instead")
            target = checked.way.target
            stopped = failover.Move(checked.instance, checked.spec, target.uuid, target.name, False)
            await failover.move_stopped(ctx, stopped, shutdown_timeout_s=120.0, steal=False)
            return
        move = (LiveMove if self.move_disks else GuestMigration)(ctx, checked.way)
        template = ctx.catalogue.template(ctx.config.view().disk_template(checked.instance))
        free_mib = await move.check_nodes(template, same_version=not self.ignore_hvversions)
        await move.shrink(free_mib, allowed=self.allow_runtime_changes)
        if isinstance(move, LiveMove):
            await check_snapshots(ctx, checked.spec)
            await move.run()
        else:
            where = await move.accept()
            # Its source's room is needed no more: the next guest may leave for another node meanwhile. The target's is,
            # unless it was promised: the guest's memory is not in use there yet.
            source = node_res_lock(checked.spec.primary_node_uuid)
            await ctx.locks.release([ALL_NODE_RES if checked.chosen else source])
            await move.send(where)
            await move.settle()
        ctx.log.info("* done")

    def _check_input(self, view: ConfigView, ctx: OperationContext) -> None:
        instance = view.find_instance(move_request(self).instance)
        if self.mode is not None and self.live is not None:
            raise PrerequisiteError("Give either the migration mode or --non-live, not both", WRONG_INPUT)
        if self.move_disks:
            self._check_move_input(instance)
        elif not self.cleanup:
            require_movable(view, ctx.catalogue, instance, "migrated")
        if not ctx.catalogue.hypervisor(instance.hypervisor).can_migrate:
            raise PrerequisiteError(
                f"Hypervisor {instance.hypervisor} cannot migrate instances: use gnt-instance failover", WRONG_STATE
            )
        require_online(view, instance.primary_node, f"use gnt-instance failover {instance.name}")

    def _check_move_input(self, instance: Instance) -> None:
        require_complete(instance, "migrated")
        if self.target_node is None and self.target_node_uuid is None:
            raise PrerequisiteError(
                f"Name the node that {instance.name} and its disks move to (-n NODE): --move-disks has no other",
                WRONG_INPUT,
            )

    def _is_live(self, spec: InstanceSpec) -> bool:
        if self.live is not None:
            return self.live
        return (self.mode or spec.hvparams.get("migration_mode", "live")) == "live"


def _by_failover(view: ConfigView, instance: Instance, running: FoundInstance | None) -> bool:
    return running is None or bool(inheritance.instance_be(view.cluster, instance)["always_failover"])
