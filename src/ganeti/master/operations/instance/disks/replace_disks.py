# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_REPLACE_DISKS: another secondary node for mirrored disks, or a new copy where the old one is bad.

The copy that leaves, or is made anew, is removed after the new one holds everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from ganeti.base.command import Command, Option
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, ExecutionError, GanetiError, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.allocator_input import relocate_request
from ganeti.master.disk_numbers import exchange_numbers, on_nodes
from ganeti.master.disk_plan import DiskPlan, Side
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import bare, instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.instance.disks.disk_steps import open_disks, plan_of, push_undo, take, wait_for_sync
from ganeti.master.operations.instance.disks.moved_disks import hold_numbers
from ganeti.master.operations.instance.disks.snapshot_steps import snapshots_on, warn_of_lost_snapshots
from ganeti.master.operations.instance.existing import require_complete, require_online
from ganeti.master.operations.instance.wanted.device_changes import position
from ganeti.master.operations.instance.wanted.modification import check_policy
from ganeti.master.operations.lock_plans import allocation_plan, candidate_locks, plan
from ganeti.master.operations.parameters import Allocator, IgnorePolicy, InstanceName, InstanceUuid, Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, instance_lock, node_lock, node_res_lock
from ganeti.model.node_calls.disks import (
    FAULTY,
    GOOD,
    BlockdevFind,
    BlockdevForgetReplaced,
    BlockdevRemove,
    BlockdevRenew,
    BlockdevShutdown,
)
from ganeti.model.node_calls.instances import InstanceDisksRemove
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.model.objects import Disk, Instance
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall
from ganeti.ports.nodes import ask

ON_PRIMARY, ON_SECONDARY = "replace_on_primary", "replace_on_secondary"
_TRIES, _AGAIN_S = 3, 2.0
NEW_SECONDARY, AUTO = "replace_new_secondary", "replace_auto"
_EXAMPLE = {"instance_name": "one.example.com", "mode": NEW_SECONDARY, "remote_node": "node1.example.com"}


class MoveCopies(Change, frozen=True, kw_only=True):
    """The second copies of an instance's disks are on another node from now on."""

    instance_uuid: str
    disks: list[Disk]
    stand_ins: dict[str, str] = {}
    """What held the numbers of the new copies, by the UUIDs of the disks."""

    def apply(self, draft: Draft) -> None:
        for disk in self.disks:
            exchange_numbers(draft, disk, self.stand_ins.get(disk.uuid))
        draft.put("instances", draft.instance(self.instance_uuid))


@dataclass(frozen=True)
class Facts:
    """*new_secondary* is empty where the node stays; *bad* are the disks with a copy to be made anew, by UUID."""

    new_secondary: str
    bad: frozenset[str]
    on_primary: bool = False
    """Whether the copies of the primary node are the bad ones."""
    lost: bool = False
    """Whether they were found to be bad, and not only said to be."""


@dataclass(frozen=True)
class Checked:
    instance: Instance
    spec: InstanceSpec
    disks: list[Disk]
    """On the nodes they will be on."""
    secondary: str
    new_secondary: str
    bad: frozenset[str]
    warnings: list[str]
    on_primary: bool = False
    lost: bool = False


@operation(
    "OP_INSTANCE_REPLACE_DISKS",
    summary_field="instance_name",
    hooks="mirrors-replace",
    cli=Command(
        "gnt-instance replace-disks",
        "give mirrored disks another secondary node, or make a bad copy anew",
        arguments=("instance_name",),
        options=(
            Option(("-p", "--on-primary"), "mode", "flag", "make the copies on the primary node anew", ON_PRIMARY),
            Option(
                ("-s", "--on-secondary"), "mode", "flag", "make the copies on the secondary node anew", ON_SECONDARY
            ),
            Option(("-a", "--auto"), "mode", "flag", "make bad copies anew", AUTO),
            Option(("--disks",), "disks", "list", "only these disks, by their indexes", metavar="N,…"),
        ),
        excludes=tuple((one, other, "give one of them") for one, other in (("-p", "-s"), ("-p", "-a"), ("-s", "-a"))),
        handler="instance.disks:replace",
    ),
    rapi="POST /2/instances/[instance_name]/replace-disks",
    examples=(
        Example("replace-disks", _EXAMPLE, before=("cluster-mirroring", "create-mirrored")),
        Example("replace-disks-stopped", _EXAMPLE, before=("cluster-mirroring", "create-mirrored-stopped")),
        Example(
            "replace-disks-secondary",
            {"instance_name": "one.example.com", "mode": ON_SECONDARY},
            before=("cluster-mirroring", "create-mirrored"),
        ),
    ),
)
class ReplaceDisks(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replace copies of mirrored disks."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    early_release: Annotated[
        bool, Parameter("free the locks of the nodes before the new copies are complete", "--early-release")
    ] = False
    ignore_ipolicy: IgnorePolicy = False
    mode: Annotated[
        Literal["replace_on_primary", "replace_on_secondary", "replace_new_secondary", "replace_auto"],
        Parameter("which copies are made anew"),
    ]
    disks: Annotated[list[int], Parameter("indexes of disks; empty for all")] = []
    remote_node: Annotated[
        Text | None, Parameter("the new secondary node", "-n", "--new-secondary", subject="node", metavar="NODE")
    ] = None
    remote_node_uuid: Annotated[Text | None, Parameter("its UUID, in place of its name", subject="node")] = None
    iallocator: Allocator | None = None
    between_groups: Annotated[
        bool,
        Parameter(
            "a step of a move to another node group, as change-group makes them: the new secondary node may be there"
        ),
    ] = False

    def locks(self, view: ConfigView) -> LockPlan:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        if self.iallocator is not None:
            return allocation_plan(view, instance)
        remote = self.remote_node_uuid or self.remote_node
        nodes = dict.fromkeys([*view.instance_nodes(instance), *([view.find_node(remote).uuid] if remote else [])])
        return plan(
            shared=[node_lock(uuid) for uuid in nodes],
            exclusive=[instance_lock(instance.name), *(node_res_lock(uuid) for uuid in nodes)],
        )

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        self._check_input(view, ctx.catalogue, instance)
        require_online(view, instance.primary_node, f"fail {instance.name} over first")
        secondary = view.secondary_nodes(instance)[0]
        if self.mode == NEW_SECONDARY:
            return Facts(await self._new_secondary(ctx, view, instance, secondary), frozenset())
        require_online(view, secondary, "name another secondary node (-n NODE)")
        spec = instance_spec(view, ctx.catalogue, instance)
        chosen = {position("disk", spec.disks, index) for index in self.disks} or range(len(spec.disks))
        disks = [spec.disks[index] for index in chosen]
        if self.mode != AUTO:
            return Facts("", frozenset(disk.uuid for disk in disks), self.mode == ON_PRIMARY)
        return await self._bad(ctx, instance, secondary, disks, _may_lose_own(view, ctx.catalogue, instance))

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        secondary = view.secondary_nodes(instance)[0]
        lost = bool(facts.new_secondary) and view.node(secondary).offline
        require_complete(instance, "given new disks", reverting=lost)
        spec, disks = instance_spec(view, ctx.catalogue, instance), view.instance_disks(instance)
        warnings: list[str] = []
        if facts.new_secondary:
            self._check_new(view, instance, secondary, facts.new_secondary)
            nodes = [instance.primary_node, facts.new_secondary]
            disks = [on_nodes(disk, nodes) for disk in disks]
            template = ctx.catalogue.template(disks[0].dev_type)
            warnings = check_policy(view, instance, instance, disks, template, ignore=self.ignore_ipolicy)
        return Checked(
            instance, spec, disks, secondary, facts.new_secondary, facts.bad, warnings, facts.on_primary, facts.lost
        )

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        """Whether a new secondary node has room."""
        for warning in checked.warnings:
            ctx.log.warning(warning)
        template = ctx.catalogue.template(checked.disks[0].dev_type)
        if checked.new_secondary and template.checks_free_space:
            spec = instance_spec(ctx.config.view(), ctx.catalogue, checked.instance, disks=checked.disks)
            await allocation.check_capacity(ctx, checked.new_secondary, spec, template, ignore_memory=True)
        return checked

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        old, new = (view.node(uuid).name if uuid else "" for uuid in (checked.secondary, checked.new_secondary))
        env = {"MODE": self.mode, "NEW_SECONDARY": new, "OLD_SECONDARY": old}
        primary = checked.instance.primary_node
        nodes = [view.cluster.master_node, primary, *([checked.new_secondary] if checked.new_secondary else [])]
        nodes = list(dict.fromkeys(nodes))
        return instance_hooks(view, self.hooks_path, checked.spec, checked.instance, nodes, nodes, env)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        if checked.new_secondary:
            await self._move(checked, ctx)
        elif checked.bad:
            await self._renew(checked, ctx)
        else:
            ctx.log.info(f"All copies of the disks of {checked.spec.name} are good: nothing is replaced")
            now = plan_of(ctx, checked.spec)
            await self._forget_replaced(ctx, checked, now.primary, *now.present)

    async def _move(self, checked: Checked, ctx: OperationContext) -> None:
        """Copies on another node; what was there before stays until they are complete."""
        moved = await hold_numbers(ctx, checked.spec.name, checked.disks)
        view = ctx.config.view()
        after = instance_spec(view, ctx.catalogue, checked.instance, disks=list(moved.disks))
        old, new = plan_of(ctx, checked.spec), _plan(view, after, checked.new_secondary)
        snapshots = await snapshots_on(ctx, old.primary, *old.present)
        ctx.log.info(f"* making new copies on {view.node(checked.new_secondary).name}")
        for disk in after.disks:
            for step in new.create(disk):
                if step.side is not new.primary:
                    await push_undo(ctx, [step])
                    await take(ctx, step)
        await self._open_as_they_are(ctx, checked, old)
        await self._require_good(ctx, checked, checked.spec.disks, old.primary, old.secondaries[0])
        if checked.instance.disks_active:
            for record in old.reopen():
                await ctx.undo.push(record)
        await self._complete(ctx, checked, new)
        change = MoveCopies(
            instance_uuid=checked.instance.uuid, disks=list(moved.disks), stand_ins=dict(moved.stand_ins)
        )
        await self._each_old(ctx, checked, BlockdevShutdown, "is open still")  # others get its minors and ports now
        await ctx.undo.push(_completion(view, checked, change))
        await ctx.config.commit(change)
        ctx.log.info(f"* removing the old copies on {view.node(checked.secondary).name}")
        await self._each_old(ctx, checked, BlockdevRemove, "stays")
        await ctx.config.commit(change, settles=True)
        await warn_of_lost_snapshots(ctx, snapshots, new.primary, new.secondaries[0])

    async def _renew(self, checked: Checked, ctx: OperationContext) -> None:
        """The node keeps what it had until the new copies are complete, for the other node may be lost meanwhile."""
        plan_now = plan_of(ctx, checked.spec)
        opens_later = checked.on_primary and checked.lost and not checked.instance.disks_active
        if not opens_later:
            await self._open_as_they_are(ctx, checked, plan_now)
        if checked.on_primary and not checked.lost:
            await wait_for_sync(ctx, plan_now)
        side, other = plan_now.primary, plan_now.secondaries[0]
        if not checked.on_primary:
            side, other = other, side
        await self._require_good(
            ctx, checked, [disk for disk in checked.spec.disks if disk.uuid in checked.bad], other, side
        )
        snapshots = await snapshots_on(ctx, side, other)
        if checked.instance.disks_active:
            for record in plan_now.reopen():
                await ctx.undo.push(record)
        for disk in checked.spec.disks:
            if disk.uuid in checked.bad:
                which = f"copy of disk {disk.index} of {checked.spec.name} on {side.node_name}"
                mend = BlockdevRenew(disk=disk, only_unusable=True)
                sentence = f"make the {which} anew where it is unusable"
                await ctx.undo.push(UndoNodeCall.of(sentence, side.node_uuid, mend, forward=True))
                ctx.log.info(f"* making the copy of disk {disk.index} on {side.node_name} anew")
                await ask(ctx.nodes, side.node_uuid, BlockdevRenew(disk=disk))
        if opens_later:
            await push_undo(ctx, plan_now.open())
        await self._complete(ctx, checked, plan_now)
        await self._forget_replaced(ctx, checked, side, other)
        await warn_of_lost_snapshots(ctx, snapshots, other, side)

    async def _forget_replaced(self, ctx: OperationContext, checked: Checked, *sides: Side) -> None:
        """Remove what nodes have kept of copies that were made anew, where the other node says that all are good."""
        for disk in checked.spec.disks:
            try:
                found = [await ask(ctx.nodes, side.node_uuid, BlockdevFind(disk=disk)) for side in sides]
                if all(each is not None and each.ldisk_status == GOOD for each in found):
                    for side in sides:
                        await ask(ctx.nodes, side.node_uuid, BlockdevForgetReplaced(disk=disk))
                else:
                    ctx.log.warning(f"What was kept of disk {disk.index} stays: not all of its copies are good")
            except GanetiError as err:
                ctx.log.warning(
                    f"What was kept of disk {disk.index} stays, remove it later by gnt-instance replace-disks -a "
                    f"{checked.spec.name}: {err}"
                )

    async def _open_as_they_are(self, ctx: OperationContext, checked: Checked, plan_now: DiskPlan) -> None:
        """A primary whose copy is behind refuses this: the other copy is the only good one then, and stays."""
        if not checked.instance.disks_active:
            await push_undo(ctx, plan_now.open())
            await open_disks(ctx, plan_now, ignore_secondaries=True, reverting=True)

    async def _complete(self, ctx: OperationContext, checked: Checked, new: DiskPlan) -> None:
        """Open the disks as they are to be, and wait for the copies; they are closed again if they were."""
        await open_disks(ctx, new, reverting=True)
        if self.iallocator is not None:
            # The new copies have their room, and to make them equal may take hours: nobody else is kept off all nodes.
            nodes_of, room_of = candidate_locks(ctx.config.view(), checked.instance)
            await ctx.locks.release([*nodes_of, *room_of])
        elif self.early_release:
            nodes = dict.fromkeys(
                [new.primary.node_uuid, checked.secondary, *(side.node_uuid for side in new.secondaries)]
            )
            await ctx.locks.release([node_res_lock(uuid) for uuid in nodes])
        ctx.log.info("* waiting until all copies are complete")
        await wait_for_sync(ctx, new)
        if not checked.instance.disks_active:
            for step in new.close():
                await take(ctx, step)

    async def _require_good(
        self, ctx: OperationContext, checked: Checked, disks: Sequence[DiskSpec], kept: Side, renewed: Side
    ) -> None:
        """Raise `ExecutionError` where a copy that is to stay has not everything, before any other is given up."""
        for disk in disks:
            status = await ask(ctx.nodes, kept.node_uuid, BlockdevFind(disk=disk))
            if status is None or status.ldisk_status != GOOD:
                what = "missing" if status is None else "unusable" if status.ldisk_status == FAULTY else "incomplete"
                raise ExecutionError(
                    f"The copy of disk {disk.index} of {checked.spec.name} on {kept.node_name} is {what}, so that on "
                    f"{renewed.node_name} may be the only good one and stays: let -a find which copies are bad, or "
                    f"wait until both are equal (gnt-instance activate-disks --wait-for-sync {checked.spec.name})"
                )

    async def _each_old(
        self,
        ctx: OperationContext,
        checked: Checked,
        request: type[BlockdevShutdown | BlockdevRemove],
        otherwise: str,
    ) -> None:
        """Do this to each copy on the node that is left, as far as that node does it; its daemon may be restarting."""
        node = ctx.config.view().node(checked.secondary)
        tries = 1 if node.offline else _TRIES
        for disk in checked.spec.disks:
            while True:
                try:
                    await ask(ctx.nodes, node.uuid, request(disk=disk))
                except GanetiError as err:
                    tries -= 1
                    if tries > 0:
                        await ctx.clock.sleep(_AGAIN_S)
                        continue
                    ctx.log.warning(f"The old copy of disk {disk.index} {otherwise} on {node.name}: {err}")
                break

    def _check_input(self, view: ConfigView, catalogue: Catalogue, instance: Instance) -> None:
        if not view.secondary_nodes(instance):
            raise PrerequisiteError(
                f"The disks of {instance.name} have no second copy: only mirrored disks can be replaced", WRONG_INPUT
            )
        named = [each for each in (self.remote_node or self.remote_node_uuid, self.iallocator) if each]
        if self.mode == ON_PRIMARY and not _may_lose_own(view, catalogue, instance):
            raise PrerequisiteError(
                f"The copies that {instance.name} runs on are not replaced under it: fail it over to its secondary "
                "node (gnt-instance failover), then use replace-disks -s",
                WRONG_STATE,
            )
        if self.mode == NEW_SECONDARY and len(named) != 1:
            raise PrerequisiteError("Name the new secondary node, or an allocator: one of them", WRONG_INPUT)
        if self.mode == NEW_SECONDARY and self.disks:
            raise PrerequisiteError("All disks get the new secondary node: leave the disks out", WRONG_INPUT)
        if self.mode != NEW_SECONDARY and named:
            raise PrerequisiteError(f"Mode {self.mode} keeps the nodes: leave node and allocator out", WRONG_INPUT)
        if self.mode == AUTO and self.disks:
            raise PrerequisiteError(f"Mode {AUTO} finds the disks itself: leave them out", WRONG_INPUT)

    async def _new_secondary(self, ctx: OperationContext, view: ConfigView, instance: Instance, secondary: str) -> str:
        if remote := self.remote_node_uuid or self.remote_node:
            return view.find_node(remote).uuid
        allocator = allocation.allocator_named(view, self.iallocator)
        if not allocator:
            raise PrerequisiteError("The cluster has no default allocator: name one, or a node with -n", WRONG_INPUT)
        request = relocate_request(view, instance, [view.node(secondary).name])
        names = await allocation.place(ctx, allocator, request, reserve=not self.dry_run)
        ctx.log.info(f"Selected nodes for the instance: {', '.join(names)}")
        return ctx.config.view().find_node(names[0]).uuid

    async def _bad(
        self, ctx: OperationContext, instance: Instance, secondary: str, disks: list[DiskSpec], may_lose_own: bool
    ) -> Facts:
        """Disks with a copy that is lost or cannot be used; raises `PrerequisiteError` where that cannot be helped."""
        bad: dict[str, set[str]] = {instance.primary_node: set(), secondary: set()}
        for disk in disks:
            for uuid, found in bad.items():
                status = await ask(ctx.nodes, uuid, BlockdevFind(disk=disk))
                if status is not None and status.ldisk_status != FAULTY:
                    continue
                found.add(disk.uuid)
                if uuid == instance.primary_node and not may_lose_own:
                    raise PrerequisiteError(
                        f"The copy of disk {disk.index} on the primary node is bad: fail {instance.name} over to its "
                        "secondary node first",
                        WRONG_STATE,
                    )
        own, other = bad.values()
        if own and other:
            raise PrerequisiteError(
                f"Disks of {instance.name} are bad on its primary node and on its secondary node: replace those of one "
                "node after those of the other (-p, -s), each with --disks",
                WRONG_STATE,
            )
        return Facts("", frozenset(own or other), on_primary=bool(own), lost=True)

    def _check_new(self, view: ConfigView, instance: Instance, secondary: str, uuid: str) -> None:
        node, primary = view.node(uuid), view.node(instance.primary_node)
        if uuid in (instance.primary_node, secondary):
            which = "primary" if uuid == primary.uuid else "secondary"
            raise PrerequisiteError(
                f"Node {node.name} is the {which} node of {instance.name} already: name another one", WRONG_INPUT
            )
        if not node.usable_for_instances:
            word = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
            raise PrerequisiteError(f"Node {node.name} is {word}: choose another node", WRONG_STATE)
        if node.group != primary.group and not self.between_groups:
            raise PrerequisiteError(
                "Primary and secondary node must be in the same node group: gnt-instance change-group moves "
                f"{instance.name} to another one",
                WRONG_INPUT,
            )


def _completion(view: ConfigView, checked: Checked, change: MoveCopies) -> UndoChange:
    """All copies are complete: from now on the move is completed, and what is left of the old copies removed."""
    new, old = view.node(checked.new_secondary), view.node(checked.secondary)
    rest = UndoNodeCall.of(
        f"remove the old copies of {checked.spec.name} on {old.name}",
        old.uuid,
        InstanceDisksRemove(instance=bare(checked.spec)),
        forward=True,
    )
    sentence = f"complete that {new.name} is the secondary node of {checked.spec.name}"
    return UndoChange(sentence, change, forward=True, rest=rest)


def _plan(view: ConfigView, spec: InstanceSpec, secondary: str) -> DiskPlan:
    """For disks whose second copies are to be on another node than the configuration says."""
    side = Side(secondary, view.node(secondary).name, bare(spec))
    return DiskPlan(Side(spec.primary_node_uuid, spec.primary_node, spec), (side,))


def _may_lose_own(view: ConfigView, catalogue: Catalogue, instance: Instance) -> bool:
    """Whether the guest goes on without the copies of its primary node."""
    return all(catalogue.template(disk.dev_type).diskless_primary for disk in view.instance_disks(instance))
