# SPDX-License-Identifier: BSD-2-Clause
"""OP_INSTANCE_RECREATE_DISKS: make disks that are lost anew, empty, there or on other nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import Command, Option
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master import allocation
from ganeti.master.allocator_input import allocate_request
from ganeti.master.disk_numbers import exchange_numbers, on_nodes, resized
from ganeti.master.instance_hooks import instance_hooks
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.instance.disks.disk_steps import create_disks
from ganeti.master.operations.instance.disks.moved_disks import hold_numbers
from ganeti.master.operations.instance.existing import require_complete, require_one_group, require_stopped
from ganeti.master.operations.instance.moving.move_target import network_fault
from ganeti.master.operations.instance.wanted.creation_input import read_disk
from ganeti.master.operations.instance.wanted.device_changes import position
from ganeti.master.operations.instance.wanted.disk_places import require_exclusive_storage
from ganeti.master.operations.instance.wanted.modification import check_policy
from ganeti.master.operations.lock_plans import allocation_plan, plan
from ganeti.master.operations.parameters import Allocator, InstanceName, InstanceUuid, NodeUuids, Text, Values
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan, instance_lock, node_lock, node_res_lock
from ganeti.model.node_calls.disks import BlockdevFind
from ganeti.model.node_calls.instances import FoundInstance, InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Disk, Instance
from ganeti.model.traits import TemplateTraits
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

_CHANGEABLE = ("size", "mode", "spindles")


class ReplaceDisks(Change, frozen=True, kw_only=True):
    """Disks of an instance are others from now on, and it lives where they are."""

    instance_uuid: str
    primary_node: str
    disks: list[Disk]
    stand_ins: dict[str, str] = {}
    """What held the numbers of disks on other nodes, by the UUIDs of the disks."""
    is_lost: bool = False
    """It was to run on nodes that are offline: with empty disks it must not start by itself."""

    def apply(self, draft: Draft) -> None:
        instance = draft.instance(self.instance_uuid)
        for disk in self.disks:
            exchange_numbers(draft, disk, self.stand_ins.get(disk.uuid))
        new = replace(instance, primary_node=self.primary_node, disks_active=False)
        draft.put("instances", replace(new, admin_state="down") if self.is_lost else new)


@dataclass(frozen=True)
class Facts:
    """*found* are disks that are there, by UUID; *nodes* are those an allocator chose."""

    running: FoundInstance | None
    found: Sequence[str]
    nodes: Sequence[str] | None


@dataclass(frozen=True)
class Checked:
    old: Instance
    new: Instance
    spec: InstanceSpec
    """The instance as it will be, with all disks."""
    after: list[Disk]
    made: list[Disk]
    warnings: list[str]
    is_lost: bool


@operation(
    "OP_INSTANCE_RECREATE_DISKS",
    summary_field="instance_name",
    hooks="instance-recreate-disks",
    cli=Command(
        "gnt-instance recreate-disks",
        "make lost disks of an instance anew, empty",
        arguments=("instance_name",),
        options=(
            Option(
                ("--disk",),
                "disks",
                "ident-keyvalues",
                "which disk, by its index, and its new size, mode or spindles; all disks without it",
                repeatable=True,
                metavar="N[:KEY=VALUE,…]",
            ),
        ),
        handler="instance.disks:recreate",
    ),
    rapi="POST /2/instances/[instance_name]/recreate-disks",
    examples=(
        Example(
            "recreate-disks",
            {"instance_name": "one.example.com", "nodes": ["node3.example.com"], "disks": [[0, {"size": 64}]]},
            before=("create-on-file-stopped",),
        ),
    ),
)
class RecreateDisks(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make disks anew. What they held is lost; a disk that is there is never touched."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    disks: Annotated[
        list[int | list[int | Values]],
        Parameter("indexes of disks, or pairs of an index and new values (size, mode, spindles); empty for all"),
    ] = []
    nodes: Annotated[
        list[Text],
        Parameter(
            "nodes that it lives on from then on, the primary first",
            "-n",
            "--node",
            subject="node",
            kind="nodes",
            metavar="NODE[:SECONDARY]",
        ),
    ] = []
    node_uuids: NodeUuids = None
    iallocator: Allocator | None = None

    def locks(self, view: ConfigView) -> LockPlan:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        if self.iallocator:
            return allocation_plan(view, instance)
        nodes = dict.fromkeys([*view.instance_nodes(instance), *self._nodes(view)])
        return plan(
            shared=[node_lock(uuid) for uuid in nodes],
            exclusive=[instance_lock(instance.name), *(node_res_lock(uuid) for uuid in nodes)],
        )

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Facts:
        """Ask whether the guest runs, and for each disk whether it is there."""
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        made = _made(view, instance, self.disks, ctx)
        nodes = await self._placed(ctx, view, instance, made) if self.iallocator else self._nodes(view)
        spec = instance_spec(view, ctx.catalogue, instance)
        running = None
        if not view.node(instance.primary_node).offline:
            running = await ask(ctx.nodes, instance.primary_node, InstanceInfo(instance=spec))
        found = []
        looked_at = list(nodes or view.instance_nodes(instance))
        if self.iallocator:  # nobody said that what is on its own nodes may be left behind
            looked_at = list(dict.fromkeys([*looked_at, *view.instance_nodes(instance)]))
        for uuid in looked_at:
            if view.node(uuid).offline:
                continue
            for disk in spec.disks:
                if disk.uuid in made and await ask(ctx.nodes, uuid, BlockdevFind(disk=disk)) is not None:
                    found.append(disk.uuid)
        return Facts(running, found, nodes)

    def check(self, view: ConfigView, facts: Facts, ctx: OperationContext) -> Checked:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "given new disks")
        is_lost = instance.admin_state == "up" and _is_lost(view, instance, facts.nodes)
        if not is_lost:
            require_stopped(instance, facts.running, "given new disks")
        made = _made(view, instance, self.disks, ctx)
        disks = view.instance_disks(instance)
        template = ctx.catalogue.template(disks[0].dev_type)
        nodes = list(facts.nodes or view.instance_nodes(instance))
        for index, disk in enumerate(disks):
            if made.get(disk.uuid, disk).spindles not in (None, disk.spindles):
                require_exclusive_storage(view, index, nodes[0])
            if disk.uuid in facts.found:
                raise PrerequisiteError(
                    f"Disk {index} of {instance.name} is there: only lost disks are made anew; name those with "
                    "--disk N, or remove what is left of it",
                    WRONG_STATE,
                )
        if facts.nodes:
            _check_nodes(instance, nodes, template, all_disks=len(made) == len(disks))
            require_one_group(view, nodes)
            if fault := network_fault(view, instance, view.group(view.node(nodes[0]).group)):
                raise PrerequisiteError(fault, WRONG_STATE)
        for uuid in nodes:
            node = view.node(uuid)
            if not node.usable_for_instances:
                word = "offline" if node.offline else "drained" if node.drained else "not vm_capable"
                raise PrerequisiteError(
                    f"Node {node.name} is {word}: choose where the disks are made with -n NODE", WRONG_STATE
                )
        if self.iallocator and (self.nodes or self.node_uuids):
            raise PrerequisiteError("Nodes are named, and an allocator: give one of them", WRONG_INPUT)
        new = replace(instance, primary_node=nodes[0])
        after = [on_nodes(made.get(disk.uuid, disk), nodes) for disk in disks]
        warnings = check_policy(view, instance, new, after, template, ignore=True)
        if is_lost:
            warnings.append(f"{instance.name} was to run on a node that is offline: it is marked as down")
        spec = instance_spec(view, ctx.catalogue, new, disks=after)
        return Checked(instance, new, spec, after, [disk for disk in after if disk.uuid in made], warnings, is_lost)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        nodes = [view.cluster.master_node, *view.instance_nodes(checked.old), checked.new.primary_node]
        nodes = list(dict.fromkeys(nodes))
        return instance_hooks(view, self.hooks_path, checked.spec, checked.new, nodes, nodes, {})

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        for warning in checked.warnings:
            ctx.log.warning(warning)
        template = ctx.catalogue.template(checked.made[0].dev_type)
        if not template.checks_free_space:
            return checked
        made = {disk.uuid for disk in checked.made}
        spec = replace(checked.spec, disks=[disk for disk in checked.spec.disks if disk.uuid in made])
        copies = dict.fromkeys(uuid for disk in checked.made for uuid in disk.nodes if uuid != checked.new.primary_node)
        await allocation.check_capacity(
            ctx, checked.new.primary_node, spec, template, ignore_memory=True, copies_on=list(copies)
        )
        return checked

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        moved = await hold_numbers(ctx, checked.old.name, checked.after)
        spec = instance_spec(ctx.config.view(), ctx.catalogue, checked.new, disks=list(moved.disks))
        made = {disk.uuid for disk in checked.made}
        wanted = [disk for disk in spec.disks if disk.uuid in made]
        # A shared disk that a node does not reach looks lost, and its name is that of the new one: nothing must remove
        # it where it cannot be made.
        shared = any(ctx.catalogue.template(disk.template).shared for disk in wanted)
        await create_disks(ctx, spec, wanted, wait=False, may_be_there=shared)
        change = ReplaceDisks(
            instance_uuid=checked.old.uuid,
            primary_node=checked.new.primary_node,
            disks=[disk for disk in moved.disks if disk.uuid in made],
            stand_ins=dict(moved.stand_ins),
            is_lost=checked.is_lost,
        )
        await ctx.config.commit(change, settles=True)

    def _nodes(self, view: ConfigView) -> list[str]:
        return [view.find_node(name).uuid for name in self.node_uuids or self.nodes]

    async def _placed(
        self, ctx: OperationContext, view: ConfigView, instance: Instance, made: Mapping[str, Disk]
    ) -> list[str]:
        """UUIDs of the nodes the allocator chose, in the group where the instance is."""
        disks = [made.get(disk.uuid, disk) for disk in view.instance_disks(instance)]
        template = ctx.catalogue.template(disks[0].dev_type)
        group = view.group(view.node(instance.primary_node).group)
        request = allocate_request(view, instance, disks, template, [group])
        allocator = allocation.allocator_named(view, self.iallocator)
        names = await allocation.place(ctx, allocator, request, reserve=False)
        return [ctx.config.view().find_node(name).uuid for name in names]


def _is_lost(view: ConfigView, instance: Instance, nodes: Sequence[str] | None) -> bool:
    """Whether every node an instance has is offline, and it is to live on others: nothing of it can run."""
    own = view.instance_nodes(instance)
    return bool(nodes) and all(view.node(uuid).offline for uuid in own) and not set(own).intersection(nodes or ())


def _made(
    view: ConfigView, instance: Instance, asked: Sequence[int | list[int | Values]], ctx: OperationContext
) -> dict[str, Disk]:
    """The disks to be made, by UUID, with their new values; raises `PrerequisiteError` for what has not their form."""
    disks = view.instance_disks(instance)
    if not disks:
        raise PrerequisiteError(f"Instance {instance.name} has no disks", WRONG_INPUT)
    template = ctx.catalogue.template(disks[0].dev_type)
    found: dict[str, Disk] = {}
    for entry in asked or range(len(disks)):
        match entry:
            case int(where) | [int(where)]:
                values: Values = {}
            case [int(where), dict(values)]:
                pass
            case _:
                raise PrerequisiteError(
                    f"'{shown(str(entry))}' names no disk: give an index, or an index and a dictionary", WRONG_INPUT
                )
        disk = disks[position("disk", disks, where)]
        if disk.uuid in found:
            raise PrerequisiteError(f"Disk {where} is named twice", WRONG_INPUT)
        found[disk.uuid] = _with_values(where, disk, values, template, ctx)
    return found


def _with_values(
    index: int, disk: Disk, values: Mapping[str, Any], template: TemplateTraits, ctx: OperationContext
) -> Disk:
    for key in values:
        if key not in _CHANGEABLE:
            raise PrerequisiteError(
                f"Disk {index}: '{key}' cannot be changed: there are {', '.join(_CHANGEABLE)}", WRONG_INPUT
            )
    asked = read_disk(index, {"size": disk.size, "mode": disk.mode} | dict(values), template, ctx.entropy)
    spindles = asked.spindles if "spindles" in values else disk.spindles
    return replace(resized(disk, asked.size), mode=asked.mode, spindles=spindles)


def _check_nodes(instance: Instance, nodes: Sequence[str], template: TemplateTraits, *, all_disks: bool) -> None:
    if len(nodes) != template.node_count or len(set(nodes)) != len(nodes):
        raise PrerequisiteError(
            f"Disks of template {template.name} are on {template.node_count} node(s): {len(nodes)} named", WRONG_INPUT
        )
    if not all_disks and nodes[0] != instance.primary_node:
        raise PrerequisiteError(
            f"Only some disks of {instance.name} are to be made anew, so it stays on its nodes: leave the nodes out, "
            "or make all disks anew",
            WRONG_INPUT,
        )
