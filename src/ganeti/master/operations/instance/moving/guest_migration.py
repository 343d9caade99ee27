# SPDX-License-Identifier: BSD-2-Clause
"""A running guest's way to another node: what migration and the live move of disks have in common.

Until the guest has arrived, everything is taken back; from then on it stays where it is, whatever dies. Its source
knows which of both is true, and is asked (`migration_resolve`).
"""

from dataclasses import dataclass

from ganeti.base.errors import (
    INSUFFICIENT_RESOURCES,
    WRONG_STATE,
    ExecutionError,
    GanetiError,
    HypervisorError,
    NodeCallError,
    PrerequisiteError,
)
from ganeti.master import allocation
from ganeti.master.instance_spec import bare
from ganeti.master.operations.changes import SetPrimaryNode
from ganeti.master.operations.instance.disks.disk_steps import plan_of, push_undo, take
from ganeti.master.operations.instance.existing import require_bridges
from ganeti.model.node_calls.instances import InstanceBalloonMemory, InstanceDisksAssemble
from ganeti.model.node_calls.migration import (
    AcceptInstance,
    InstanceFinalizeMigrationDst,
    InstanceFinalizeMigrationSrc,
    InstanceGetMigrationStatus,
    InstanceMigrate,
    MigrationContinue,
    MigrationHandOver,
    MigrationInfo,
    MigrationResolve,
    MigrationTakeOver,
    MigrationTarget,
)
from ganeti.model.node_calls.node import NodeInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Node
from ganeti.model.traits import TemplateTraits
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

POLL_S = 0.1
QUICK_POLL_S = 0.02
"""In the first second, which is all that a small guest takes."""
SWITCH_POLL_S = 0.005
"""Once the guest is stopped: what is left takes a moment, and nobody has the guest meanwhile."""
STALL_S = 120.0
"""A migration that moves no byte for this long is given up."""


@dataclass(frozen=True)
class Way:
    """One guest, as it is on its source, and where it goes."""

    spec: InstanceSpec
    target: Node
    memory_mib: int
    """What the guest uses now."""
    live: bool = True

    @property
    def source_uuid(self) -> str:
        return self.spec.primary_node_uuid


class GuestMigration:
    """One guest's migration; `accept`, `send` and `settle` are its steps."""

    makes_disks = False
    """Whether its disks are to be made on the target first."""

    def __init__(self, ctx: OperationContext, way: Way) -> None:
        self.ctx = ctx
        self.way = way

    @property
    def arrival(self) -> SetPrimaryNode:
        """The change that makes the target its primary node."""
        return SetPrimaryNode(instance_uuid=self.way.spec.uuid, node_uuid=self.way.target.uuid)

    async def check_nodes(self, template: TemplateTraits, *, same_version: bool, may_shrink: bool) -> int:
        """Gives the memory, in MiB, that is free on the target; raises `PrerequisiteError`."""
        ctx, spec, target = self.ctx, self.way.spec, self.way.target
        free_mib = await allocation.check_capacity(ctx, target.uuid, spec, template, makes_disks=self.makes_disks)
        self._require_memory(free_mib, may_shrink=may_shrink)
        await require_bridges(ctx, target.uuid, spec)
        if not same_version:
            return free_mib
        query = NodeInfo(storage=[], hypervisors={spec.hypervisor: spec.hvparams})
        versions = []
        for uuid in (self.way.source_uuid, target.uuid):
            info = await ask(ctx.nodes, uuid, query)
            versions.append(info.hypervisors[spec.hypervisor].hv_version)
        if versions[0] != versions[1]:
            raise PrerequisiteError(
                f"Hypervisor versions differ: {versions[0]} on {spec.primary_node}, {versions[1]} on {target.name}: "
                "add --ignore-hvversions to migrate anyway",
                WRONG_STATE,
            )
        return free_mib

    def _require_memory(self, free_mib: int, *, may_shrink: bool) -> None:
        spec, memory_mib = self.way.spec, self.way.memory_mib
        able = self.ctx.catalogue.hypervisor(spec.hypervisor).can_balloon
        if memory_mib > free_mib and not (may_shrink and able):
            why = "leave --no-runtime-changes out" if able else f"hypervisor {spec.hypervisor} cannot shrink it"
            raise PrerequisiteError(
                f"Not enough memory on node {self.way.target.name} for {spec.name} as it runs: it uses "
                f"{memory_mib} MiB, available {free_mib} MiB: choose another node; {why}",
                INSUFFICIENT_RESOURCES,
            )

    async def shrink(self, free_mib: int) -> None:
        """Take memory from a guest that uses more than the target has; what it needs at least is there."""
        ctx, spec, memory_mib = self.ctx, self.way.spec, self.way.memory_mib
        if memory_mib <= free_mib:
            return
        ctx.log.info(f"* shrinking the memory of the instance from {memory_mib} to {free_mib} MiB")
        await ctx.undo.push(
            UndoNodeCall.of(
                f"give {spec.name} its {memory_mib} MiB of memory back",
                self.way.source_uuid,
                InstanceBalloonMemory(instance=bare(spec), memory_mib=memory_mib),
            )
        )
        await ask(ctx.nodes, self.way.source_uuid, InstanceBalloonMemory(instance=spec, memory_mib=free_mib))

    async def accept(self, *, then: UndoNodeCall | None = None) -> MigrationTarget:
        """Have the target wait for the guest; *then* is what completes the work after an arrival."""
        ctx, spec, target = self.ctx, self.way.spec, self.way.target
        ctx.log.info(f"* preparing {target.name} to accept the instance")
        info = await ask(ctx.nodes, self.way.source_uuid, MigrationInfo(instance=spec))
        steps = plan_of(ctx, spec).admit(target.uuid, target.name)
        await push_undo(ctx, steps)
        await ctx.undo.push(
            UndoNodeCall.of(
                f"clean up {target.name}", target.uuid, InstanceFinalizeMigrationDst(instance=bare(spec), success=False)
            )
        )
        for step in steps:
            await take(ctx, step)
        found = await ask(ctx.nodes, target.uuid, AcceptInstance(instance=spec, info=info, address=target.secondary_ip))
        await ctx.undo.push(
            UndoNodeCall.of(
                f"let {spec.name} run on {spec.primary_node} again",
                self.way.source_uuid,
                MigrationResolve(instance=bare(spec)),
                settled_change=self.arrival,
                settled_call=UndoNodeCall.of(
                    f"let {spec.name} stay on {target.name}",
                    target.uuid,
                    InstanceFinalizeMigrationDst(instance=bare(spec), success=True, may_have_ended=True),
                    settled_call=then,
                ),
            )
        )
        return found

    async def send(self, where: MigrationTarget) -> None:
        """Send the guest until nothing of it is left to send; raises `ExecutionError`."""
        ctx, way = self.ctx, self.way
        ctx.log.info(f"* migrating instance to {way.target.name}")
        await ask(ctx.nodes, way.source_uuid, InstanceMigrate(instance=way.spec, target=where, live=way.live))
        await self._follow()

    async def hand_over(self) -> None:
        """The guest has stopped: where both nodes have a copy of its disks, the target's is written from now on."""
        spec = self.way.spec
        if self._has_two_copies():
            await ask(self.ctx.nodes, self.way.source_uuid, MigrationHandOver(instance=spec))
            await ask(self.ctx.nodes, self.way.target.uuid, MigrationTakeOver(instance=spec))

    async def arrive(self) -> None:
        """The target is told that the guest is there for good; raises `ExecutionError` where it went back."""
        ctx, spec, target = self.ctx, self.way.spec, self.way.target.uuid
        try:
            await ask(ctx.nodes, target, InstanceFinalizeMigrationDst(instance=spec, success=True))
        except HypervisorError as err:
            # The source has sent everything and the target could not use it: the guest is still whole on the source.
            await ask(ctx.nodes, target, InstanceFinalizeMigrationDst(instance=spec, success=False))
            source = self.way.source_uuid
            await ask(ctx.nodes, source, InstanceFinalizeMigrationSrc(instance=spec, success=False))
            raise ExecutionError(f"Could not migrate instance {spec.name}, it runs on where it was: {err}") from err

    async def leave(self) -> None:
        """The source is told that the guest has left."""
        source = self.way.source_uuid
        await ask(self.ctx.nodes, source, InstanceFinalizeMigrationSrc(instance=self.way.spec, success=True))

    async def settle(self) -> None:
        """The guest has arrived: both nodes are told, then it is written down; repeating any of it does no harm."""
        await self.arrive()
        try:
            await self.leave()
        except NodeCallError as err:
            name = self.way.target.name
            self.ctx.log.warning(f"{self.way.spec.name} runs on {name}, but its old node was not cleaned up: {err}")
        else:
            await self._end_sharing()
        await self.ctx.config.commit(self.arrival, settles=True)

    async def _end_sharing(self) -> None:
        """Both nodes follow their roles by now: the target is told that it writes its copies alone."""
        ctx, spec, target = self.ctx, self.way.spec, self.way.target
        if self._has_two_copies():
            try:
                await ask(ctx.nodes, target.uuid, InstanceDisksAssemble(instance=spec))
            except GanetiError as err:
                ctx.log.warning(f"The disks of {spec.name} on {target.name} need a look: {err}")

    def _has_two_copies(self) -> bool:
        """Whether both nodes have a copy of its disks, so that the guest stands until the target's are written."""
        view = self.ctx.config.view()
        return bool(view.secondary_nodes(view.instance(self.way.spec.uuid)))

    async def _follow(self) -> None:
        """Watch the source until it is done; raises `ExecutionError` when it fails or makes no progress."""
        ctx, source, spec = self.ctx, self.way.source_uuid, self.way.spec
        moved, moved_at_s = -1, ctx.clock.now_s()
        began_s, switches = moved_at_s, False
        must_hurry = self._has_two_copies()
        while True:
            poll_s = QUICK_POLL_S if ctx.clock.now_s() - began_s < 1.0 else POLL_S
            within_s = poll_s if must_hurry and not switches else 0.0
            status = await ask(ctx.nodes, source, InstanceGetMigrationStatus(instance=spec, within_s=within_s))
            state = status.status
            if state == "completed":
                ctx.log.progress("memory", status.total_ram, status.total_ram)
                return
            if state in ("failed", "cancelled", "none"):
                reason = status.error or "the hypervisor gave no reason"
                raise ExecutionError(f"Could not migrate instance {spec.name}: {state}: {reason}")
            if status.transferred_ram != moved:
                moved, moved_at_s = status.transferred_ram, ctx.clock.now_s()
                # More is sent than there is, since the guest goes on writing: the end is said once, above.
                ctx.log.progress("memory", moved, max(status.total_ram, moved + 1))
            elif ctx.clock.now_s() - moved_at_s > STALL_S:
                raise ExecutionError(
                    f"Could not migrate instance {spec.name}: no data moved for {STALL_S:.0f} seconds in state {state}"
                )
            if state == "pre-switchover":
                await self.hand_over()
                await ask(ctx.nodes, source, MigrationContinue(instance=spec))
                poll_s, switches = poll_s if switches else SWITCH_POLL_S, True
            await ctx.clock.sleep(0.0 if within_s and state == "active" else poll_s)
