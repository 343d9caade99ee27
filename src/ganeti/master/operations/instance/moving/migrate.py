# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_MIGRATE: move a running instance to another node without stopping it.

The guest is paused before the switch (pause-before-switchover) and resumed on the target. The point of no return is
the source's word that the switch is complete; before it every way back ends with the guest running on the source,
after it the configuration follows the guest. A successor of a dead job asks the source which side of that point it is
on (`migration_resolve`).
"""

from dataclasses import dataclass, replace
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
from ganeti.master.operations.instance.moving.live_move import LiveMove
from ganeti.master.operations.instance.moving.move_target import (
    check_target,
    choose_target,
    move_locks,
    move_request,
    require_movable,
    secondary_variables,
)
from ganeti.master.operations.lock_plans import candidate_locks
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
from ganeti.model.locks import LockPlan, node_res_lock
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
    why_failover: str = ""
    """Why it is failed over instead; empty where it is not."""
    source_gone: bool = False


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    way: Way
    why_failover: str
    source_gone: bool
    chosen: bool
    free_mib: int = 0
    """Memory that the target has for it."""


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
    cleanup: Annotated[bool, Parameter("clean up after an interrupted migration", "--cleanup")] = False
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
        source = view.node(instance.primary_node)
        if self._is_lost(view, instance):
            found = await self._failover().gather(ctx, view)
            return Facts(found.target_uuid, None, f"node {source.name} is marked offline", source_gone=True)
        spec = instance_spec(view, ctx.catalogue, instance)
        running = await ask(ctx.nodes, source.uuid, InstanceInfo(instance=spec))
        if self.cleanup:
            return Facts(source.uuid, running)
        why = self._why_failover(view, ctx, instance, running)
        if not why:
            return Facts(await choose_target(ctx, move_request(self)), running)
        found = await self._failover().gather(ctx, view)
        return Facts(found.target_uuid, running, why, source_gone=not found.source_answers)

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
            why_failover=facts.why_failover,
            source_gone=facts.source_gone,
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
        source = [] if checked.source_gone else [checked.instance.primary_node]
        nodes = list(dict.fromkeys([view.cluster.master_node, *source, checked.way.target.uuid]))
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        if self.cleanup:
            return checked
        if checked.why_failover:
            await self._failover().check_on_nodes(_as_failover(checked), ctx)
            return checked
        template = ctx.catalogue.template(ctx.config.view().disk_template(checked.instance))
        free_mib = await self._movement(checked, ctx).check_nodes(
            template, same_version=not self.ignore_hvversions, may_shrink=self.allow_runtime_changes
        )
        return replace(checked, free_mib=free_mib)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        if self.cleanup:
            await clean_up(ctx, checked.instance, checked.spec)
            return
        if checked.why_failover:
            ctx.log.info(f"* {checked.spec.name} cannot migrate ({checked.why_failover}): failing over instead")
            await self._failover().execute(_as_failover(checked), ctx)
            return
        await self._migrate(checked, ctx)
        ctx.log.info("* done")

    def _movement(self, checked: Checked, ctx: OperationContext) -> GuestMigration:
        return (LiveMove if self.move_disks else GuestMigration)(ctx, checked.way)

    async def _migrate(self, checked: Checked, ctx: OperationContext) -> None:
        move = self._movement(checked, ctx)
        await move.shrink(checked.free_mib)
        if isinstance(move, LiveMove):
            await move.run()
        else:
            where = await move.accept()
            # Its source's room is needed no more: the next guest may leave for another node meanwhile. The target's is,
            # unless it was reserved: the guest's memory is not in use there yet.
            view, room = ctx.config.view(), [node_res_lock(checked.spec.primary_node_uuid)]
            if checked.chosen:
                _, room = candidate_locks(view, view.find_instance(checked.spec.name))
            await ctx.locks.release(room)
            await move.send(where)
            await move.settle()

    def _check_input(self, view: ConfigView, ctx: OperationContext) -> None:
        instance = view.find_instance(move_request(self).instance)
        if self.mode is not None and self.live is not None:
            raise PrerequisiteError("Give either the migration mode or --non-live, not both", WRONG_INPUT)
        if self.move_disks:
            self._check_move_input(instance)
        elif not self.cleanup:
            require_movable(view, ctx.catalogue, instance, "migrated")
        if self.cleanup and not ctx.catalogue.hypervisor(instance.hypervisor).can_migrate:
            raise PrerequisiteError(
                f"Hypervisor {instance.hypervisor} cannot migrate instances: use gnt-instance failover --cleanup",
                WRONG_STATE,
            )
        if not self._is_lost(view, instance):
            require_online(view, instance.primary_node, f"use gnt-instance failover {instance.name}")

    def _is_lost(self, view: ConfigView, instance: Instance) -> bool:
        """Whether the primary node is known to be down, and the instance may be started elsewhere for that."""
        allowed = self.allow_failover and not (self.cleanup or self.move_disks)
        return allowed and view.node(instance.primary_node).offline

    def _why_failover(
        self, view: ConfigView, ctx: OperationContext, instance: Instance, running: FoundInstance | None
    ) -> str:
        """Why it is failed over instead; empty where it migrates. Raises `PrerequisiteError` where it does neither."""
        if self.move_disks:
            return ""
        if running is None:
            return "it is not running"
        if inheritance.instance_be(view.cluster, instance)["always_failover"]:
            return "always_failover is set"
        if ctx.catalogue.hypervisor(instance.hypervisor).can_migrate:
            return ""
        why = f"hypervisor {instance.hypervisor} cannot migrate instances"
        if self.allow_failover:
            return why
        raise PrerequisiteError(
            f"Instance {instance.name} stays on {view.node(instance.primary_node).name}: {why}. Use gnt-instance "
            "failover, or add --allow-failover, which stops it and starts it on the other node",
            WRONG_STATE,
        )

    def _failover(self) -> failover.FailoverInstance:
        return failover.FailoverInstance(
            instance_name=self.instance_name,
            instance_uuid=self.instance_uuid,
            target_node=self.target_node,
            target_node_uuid=self.target_node_uuid,
            iallocator=self.iallocator,
            ignore_ipolicy=self.ignore_ipolicy,
            why=self.why,
            dry_run=self.dry_run,
        )

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


def _as_failover(checked: Checked) -> failover.Move:
    target = checked.way.target
    return failover.Move(checked.instance, checked.spec, target.uuid, target.name, checked.source_gone)
