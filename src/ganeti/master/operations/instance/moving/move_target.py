# SPDX-License-Identifier: BSD-2-Clause
"""Where an instance goes when it leaves its primary node: shared by migration and failover."""

from dataclasses import dataclass
from typing import Any, Protocol

from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master import allocation
from ganeti.master.instance_spec import instance_size
from ganeti.master.operations.instance.existing import require_complete
from ganeti.master.operations.lock_plans import allocation_plan, plan
from ganeti.model import inheritance
from ganeti.model.ipolicy import violations
from ganeti.model.locks import LockPlan, instance_lock, node_lock, node_res_lock
from ganeti.model.node_calls.disks import BlockdevFindEach, FoundDisk
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import Instance, Node, NodeGroup
from ganeti.model.parameters import NIC_PARAMETERS, defaults
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


@dataclass(frozen=True)
class MoveRequest:
    """What the user said about the target."""

    instance: str
    target_node: str | None
    iallocator: str | None
    ignore_ipolicy: bool
    why: bool
    """Say for each node why it was not chosen."""
    only_asks: bool


class Movable(Protocol):
    """An operation that moves an instance: what it carries of the user's wishes."""

    @property
    def instance_name(self) -> str: ...
    @property
    def instance_uuid(self) -> str | None: ...
    @property
    def target_node(self) -> str | None: ...
    @property
    def target_node_uuid(self) -> str | None: ...
    @property
    def iallocator(self) -> str | None: ...
    @property
    def ignore_ipolicy(self) -> bool: ...
    @property
    def why(self) -> bool: ...
    @property
    def dry_run(self) -> bool | None: ...


def move_request(operation: Movable) -> MoveRequest:
    """A uuid, where one is given, is surer than a name."""
    return MoveRequest(
        operation.instance_uuid or operation.instance_name,
        operation.target_node_uuid or operation.target_node,
        operation.iallocator,
        operation.ignore_ipolicy,
        operation.why,
        bool(operation.dry_run),
    )


def move_locks(view: ConfigView, request: MoveRequest) -> LockPlan:
    """Exact nodes where they are known, all of the group where an allocator will choose."""
    instance = view.find_instance(request.instance)
    secondaries = view.secondary_nodes(instance)
    if request.target_node is None and not secondaries:
        return allocation_plan(view, instance)
    nodes = view.instance_nodes(instance)
    if request.target_node is not None:
        nodes = list(dict.fromkeys([*nodes, view.find_node(request.target_node).uuid]))
    return plan(
        shared=[node_lock(uuid) for uuid in nodes],
        exclusive=[instance_lock(instance.name), *(node_res_lock(uuid) for uuid in nodes)],
    )


def require_movable(
    view: ConfigView, catalogue: Catalogue, instance: Instance, deed: str, *, reverting: bool = False
) -> None:
    """Only what more than one node can reach may move (section "what must never be lost" of the design)."""
    require_complete(instance, deed, reverting=reverting)
    template = catalogue.template(view.disk_template(instance))
    if template.has_disks and not template.mirrored:
        hint = f". gnt-instance move --live {instance.name} takes its disks along" if template.copyable else ""
        able = ", ".join(sorted(name for name, traits in catalogue.templates.items() if traits.mirrored))
        raise PrerequisiteError(
            f"Instance {instance.name} cannot be {deed}: its disks ({template.name}) are on one node only. "
            f"Templates that can: {able}{hint}",
            WRONG_STATE,
        )


def secondary_variables(spec: InstanceSpec, target_name: str) -> dict[str, str]:
    """What hooks are told of the secondary node: where there is one, it and the primary change places."""
    old, new = (target_name, spec.primary_node) if spec.secondary_nodes else ("", "")
    return {"OLD_SECONDARY": old, "NEW_SECONDARY": new}


async def choose_target(ctx: OperationContext, request: MoveRequest) -> str:
    """The uuid of the target node: named, the secondary, or the allocator's choice."""
    view = ctx.config.view()
    instance = view.find_instance(request.instance)
    secondaries = view.secondary_nodes(instance)
    if request.target_node is not None and request.iallocator:
        raise PrerequisiteError("Give either a target node or an allocator, not both", WRONG_INPUT)
    if request.why and (secondaries or request.target_node is not None):
        raise PrerequisiteError(
            f"--why is about an allocator's choice: where {instance.name} goes is settled without one", WRONG_INPUT
        )
    if secondaries:
        if request.target_node is not None and view.find_node(request.target_node).uuid not in secondaries:
            raise PrerequisiteError(
                f"Instance {instance.name} can only move to its secondary node {view.node(secondaries[0]).name}",
                WRONG_INPUT,
            )
        return secondaries[0]
    if request.target_node is not None:
        return view.find_node(request.target_node).uuid
    return await allocation.relocation_target(
        ctx, instance.uuid, request.iallocator, reserve=not request.only_asks, why=request.why
    )


def check_target(view: ConfigView, instance: Instance, target_uuid: str, *, ignore_ipolicy: bool) -> None:
    """Refuse a target that may not take the instance; raises `PrerequisiteError`."""
    target = view.node(target_uuid)
    source = view.node(instance.primary_node)
    if target.uuid == source.uuid:
        raise PrerequisiteError(
            f"Instance {instance.name} is already on node {target.name}: name another one", WRONG_STATE
        )
    for bad, word in (
        (target.offline, "offline"),
        (target.drained, "drained"),
        (not target.vm_capable, "not vm_capable"),
    ):
        if bad:
            raise PrerequisiteError(f"Target node {target.name} is {word}: choose another node", WRONG_STATE)
    if target.group == source.group:
        return  # what its policy is violated by was so before: a stricter one keeps nobody on a node that is lost
    if fault := network_fault(view, instance, view.group(target.group)):
        raise PrerequisiteError(fault, WRONG_STATE)
    if not ignore_ipolicy:
        policy = inheritance.group_ipolicy(view.cluster, view.group(target.group))
        disks, template = view.instance_disks(instance), view.disk_template(instance)
        size = instance_size(view, instance, disks, template, node_uuid=target.uuid)
        found = violations(policy, size)
        if found:
            raise PrerequisiteError(
                f"Instance {instance.name} violates the policy of node {target.name}'s group: {'; '.join(found)}. "
                "Add --ignore-ipolicy to move it anyway",
                WRONG_INPUT,
            )


async def require_no_copies(ctx: OperationContext, spec: InstanceSpec, target: Node) -> None:
    """Refuse disks that are on the target already: the undo of the copy would remove them."""
    looks: list[FoundDisk] = await ask(ctx.nodes, target.uuid, BlockdevFindEach(disks=spec.disks))
    for disk, found in zip(spec.disks, looks, strict=True):
        if found.fault or found.status is not None:
            what = found.fault or f"{found.status.dev_path if found.status else ''} is there"
            raise PrerequisiteError(
                f"Disk {disk.index} of {spec.name} cannot be copied to {target.name}: {what}. See whether it holds "
                "what you need, and move it away first",
                WRONG_STATE,
            )


def network_fault(view: ConfigView, instance: Instance, new: NodeGroup) -> str | None:
    """Another node group must have the networks of the NICs as theirs has them: NICs are not changed by a move."""
    old = view.group(view.node(instance.primary_node).group)
    for index, nic in enumerate(instance.nics):
        if nic.network is not None and _attachment(new, nic.network) != _attachment(old, nic.network):
            return (
                f"NIC {index} of {instance.name}: network {view.network(nic.network).name} is not connected to node "
                f"group {new.name} as it is to {old.name}: connect it in the same way, or choose another group"
            )
    return None


def _attachment(group: NodeGroup, network: str) -> dict[str, Any] | None:
    """How NICs of a group are in a network, None for not at all; an earlier version left out what is not set."""
    given = group.networks.get(network)
    if given is None:
        return None
    return defaults(NIC_PARAMETERS) | {name: value for name, value in given.items() if value is not None}
