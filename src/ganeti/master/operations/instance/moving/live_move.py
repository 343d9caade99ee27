# SPDX-License-Identifier: BSD-2-Clause
"""A running guest moves with disks that only its primary node has: they are copied while it writes them.

1. Disks are made on the target, and its hypervisor waits there for the guest and for their content.
2. The content is sent; the guest goes on writing, and what it changes is sent again.
3. Its memory follows. At the switchover the guest stops, the rest is sent, and both copies are equal.
4. It goes on at the target. The source's disks are removed when it does.

Until 4 everything is taken back: the copies go, and the guest runs where it was. From then on the move is completed,
whatever dies, by the record that asks the source where the guest is.
"""

from ganeti.base.errors import (
    WRONG_INPUT,
    WRONG_STATE,
    ExecutionError,
    NodeCallError,
    PrerequisiteError,
)
from ganeti.master.disk_plan import DiskStep, Side, completion
from ganeti.master.instance_spec import bare
from ganeti.master.operations.instance.disks.disk_steps import SYNC_POLL_S, plan_of, push_undo, take
from ganeti.master.operations.instance.disks.snapshot_steps import require_none
from ganeti.master.operations.instance.moving.guest_migration import STALL_S, GuestMigration
from ganeti.master.operations.instance.moving.move_target import require_no_copies
from ganeti.model import inheritance
from ganeti.model.node_calls.disk_transfer import (
    DiskDoor,
    InstanceCopyRemove,
    InstanceDisksReceived,
    InstanceHandOverDisks,
    InstanceReceiveDisks,
    InstanceSendDisks,
    InstanceStopSending,
)
from ganeti.model.node_calls.disks import BlockdevCreate
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import Instance
from ganeti.model.traits import Catalogue, TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.context import UndoNodeCall
from ganeti.ports.nodes import ask


def check(view: ConfigView, catalogue: Catalogue, instance: Instance, running: FoundInstance | None) -> None:
    """Raise `PrerequisiteError` where a guest cannot take its disks along."""
    if not catalogue.hypervisor(instance.hypervisor).can_move_disks:
        raise PrerequisiteError(
            f"Hypervisor {instance.hypervisor} does not copy the disks of a guest that runs: use gnt-instance move "
            "without --live",
            WRONG_STATE,
        )
    if inheritance.instance_be(view.cluster, instance)["always_failover"]:
        raise PrerequisiteError(
            f"Instance {instance.name} is never migrated (always_failover): move it without --live", WRONG_STATE
        )
    template = catalogue.template(view.disk_template(instance))
    if not template.copyable:
        raise PrerequisiteError(
            f"Disks of template {template.name} need no copy to move {instance.name}: use gnt-instance migrate",
            WRONG_INPUT,
        )
    if running is None or running.state not in ("running", "paused"):
        state = "is not running" if running is None else f"is {running.state}"
        raise PrerequisiteError(
            f"Instance {instance.name} {state}: start it first, or move it without --live", WRONG_STATE
        )


class LiveMove(GuestMigration):
    """A migration with disks."""

    makes_disks = True

    async def check_nodes(self, template: TemplateTraits, *, same_version: bool, may_shrink: bool) -> int:
        """The same; a running guest cannot take snapshots along, and what is on the target must not be in the way."""
        ctx, spec = self.ctx, self.way.spec
        free_mib = await super().check_nodes(template, same_version=same_version, may_shrink=may_shrink)
        why = "which stay behind when it moves while it runs"
        await require_none(ctx, spec, why, ", or move it without --live", copied=False)
        await require_no_copies(ctx, spec, self.way.target)
        return free_mib

    async def run(self) -> None:
        """Move the guest; raises `ExecutionError` where it runs on as before."""
        ctx, spec, target = self.ctx, self.way.spec, self.way.target
        for disk in spec.disks:
            await self._make(disk)
        removal = plan_of(ctx, spec).remove()
        where = await self.accept(then=completion(removal, f"complete the move of {spec.name}", self.arrival))
        stop = {"instance": bare(spec)}
        sentence = f"end the copying of disks of {spec.name}"
        await ctx.undo.push(UndoNodeCall.of(sentence, self.way.source_uuid, InstanceStopSending(**stop)))
        door = await ask(ctx.nodes, target.uuid, InstanceReceiveDisks(instance=spec, address=target.secondary_ip))
        ctx.log.info(f"* copying the disks to {target.name} while the instance runs")
        await self._send_disks(door)
        await self.send(where)
        await self.arrive()
        try:
            await self.leave()
        except NodeCallError as err:
            await ctx.config.commit(self.arrival, settles=True)
            ctx.log.warning(
                f"{spec.name} runs on {target.name}, but its old node did not answer: its disks stay on "
                f"{spec.primary_node}, remove them there when it is back: {err}"
            )
            return
        await ctx.config.commit(self.arrival)
        ctx.log.info(f"* removing the disks on {spec.primary_node}")
        for step in removal:
            await take(ctx, step)
        await ctx.config.commit(self.arrival, settles=True)

    async def hand_over(self) -> None:
        """The guest has stopped: what is left of its disks follows."""
        await ask(self.ctx.nodes, self.way.source_uuid, InstanceHandOverDisks(instance=self.way.spec))
        await ask(self.ctx.nodes, self.way.target.uuid, InstanceDisksReceived(instance=self.way.spec))

    async def _make(self, disk: DiskSpec) -> None:
        """Make room for one disk on the target; its undo removes it."""
        ctx, spec, target = self.ctx, self.way.spec, self.way.target
        undo = UndoNodeCall.of(
            f"remove the copy of disk {disk.index} of {spec.name} from {target.name}",
            target.uuid,
            InstanceCopyRemove(instance=bare(spec), disk=disk),
        )
        step = DiskStep(Side(target.uuid, target.name, spec), BlockdevCreate(disk=disk), undo)
        await push_undo(ctx, [step])
        await take(ctx, step)

    async def _send_disks(self, door: DiskDoor) -> None:
        """Until all disks are equal; raises `ExecutionError` where nothing moves any more."""
        ctx, source, spec = self.ctx, self.way.source_uuid, self.way.spec
        moved, moved_at_s = -1, ctx.clock.now_s()
        while True:
            disks = await ask(ctx.nodes, source, InstanceSendDisks(instance=spec, door=door))
            done, total = sum(disk.done_bytes for disk in disks), max(1, sum(disk.total_bytes for disk in disks))
            if all(disk.is_equal for disk in disks):
                ctx.log.progress("disks are copied", total, total)
                return
            ctx.log.progress("disks are copied", min(done, total - 1), total)
            if done != moved:
                moved, moved_at_s = done, ctx.clock.now_s()
            elif ctx.clock.now_s() - moved_at_s > STALL_S:
                raise ExecutionError(
                    f"Could not copy the disks of {spec.name}: no data moved for {STALL_S:.0f} seconds. See that "
                    f"{self.way.target.name} and the network to it are well"
                )
            await ctx.clock.sleep(SYNC_POLL_S)
