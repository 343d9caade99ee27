# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_SET_PARAMS: change the flags, the secondary address and the parameters of a node."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import (
    ENVIRONMENT_ERROR,
    WRONG_INPUT,
    WRONG_STATE,
    ExecutionError,
    NodeCallError,
    ParameterError,
    PrerequisiteError,
)
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.group.assign_nodes import split_instances
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node import addresses
from ganeti.master.operations.node.candidate_keys import (
    end_candidacy,
    give_candidate_keys,
    refresh_authorized,
    take_candidate_keys,
)
from ganeti.master.operations.node.candidates import certificate_digest, fill_pool
from ganeti.master.operations.node.changes import ReplaceNode
from ganeti.master.operations.node.parameters import node_parameters, recorded_states
from ganeti.master.operations.node.roles import Decision, Flags, decide
from ganeti.master.operations.parameters import (
    DiskState,
    HypervisorState,
    MasterCapable,
    NodeName,
    NodeParameters,
    NodeUuid,
    SecondaryIp,
    Text,
    VmCapable,
)
from ganeti.master.parameter import Parameter
from ganeti.model import inheritance
from ganeti.model.locks import ALL_NODES, LockPlan, group_lock, instance_lock, node_lock, node_res_lock
from ganeti.model.node_calls.candidate_keys import NodeSshKeyRemove
from ganeti.model.node_calls.node import NodeHasIpAddress, Version
from ganeti.model.objects import CONFIG_VERSION, Node, NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoChange
from ganeti.ports.nodes import ask

SHOWN = ("master_candidate", "drained", "offline", "master_capable", "vm_capable", "powered", "secondary_ip")
Changes = list[tuple[str, str]]


@dataclass(frozen=True)
class Checked:
    old: Node
    decision: Decision
    changes: Changes


def _example(name: str, before: tuple[str, ...] = (), **changes: bool) -> Example:
    return Example(name, {"node_name": "node3.example.com", "force": True, **changes}, before=before)


@operation(
    "OP_NODE_SET_PARAMS",
    summary_field="node_name",
    hooks="node-modify",
    cli=Command("gnt-node modify", "change flags and parameters of a node", arguments=("node_name",), modifies="node"),
    rapi=("POST /2/nodes/[node_name]/modify", "PUT /2/nodes/[node_name]/role"),
    examples=(
        _example("node-offline", offline=True),
        _example("node-online", ("node-offline",), offline=False),
        _example("node-drained", drained=True),
        _example("node-undrained", ("node-drained",), drained=False),
        Example(
            "node-to-group",
            {"node_name": "node3.example.com", "group": "green", "force": True},
            before=("group-add",),
        ),
        _example("node-demoted", master_candidate=False),
        _example("node-promoted", ("node-demoted",), master_candidate=True),
    ),
)
class ModifyNode(Operation[Changes], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change a node; gives what changed."""

    node_name: NodeName
    node_uuid: NodeUuid = None
    force: Annotated[bool, Parameter("do not ask, and go on where that is possible", "-f", "--force")] = False
    master_candidate: Annotated[bool | None, Parameter("is a master candidate", "-C", "--master-candidate")] = None
    drained: Annotated[bool | None, Parameter("takes no new instances", "-D", "--drained")] = None
    offline: Annotated[bool | None, Parameter("is not asked for anything", "-O", "--offline")] = None
    master_capable: MasterCapable = None
    vm_capable: VmCapable = None
    secondary_ip: SecondaryIp = None
    auto_promote: Annotated[bool, Parameter("promote other nodes if candidates become too few", "--auto-promote")] = (
        False
    )
    ndparams: NodeParameters | None = None
    powered: Annotated[bool | None, Parameter("recorded power state", "--node-powered")] = None
    hv_state: HypervisorState | None = None
    disk_state: DiskState | None = None
    group: Annotated[
        Text | None, Parameter("node group to put it into", "-g", "--node-group", subject="group", metavar="GROUP")
    ] = None

    def locks(self, view: ConfigView) -> LockPlan:
        node = self._node(view)
        instances = []
        if self.secondary_ip is not None:
            instances = [instance_lock(instance.name) for instance in _mirrored_with(view, node)]
        promotes = self.auto_promote and self._may_demote(node)
        nodes = [ALL_NODES] if promotes else [node_lock(node.uuid)]
        groups = set() if self.group is None else {node.group, view.find_group(self.group).uuid}
        return plan(shared=instances, exclusive=[*map(group_lock, sorted(groups)), *nodes, node_res_lock(node.uuid)])

    async def gather(self, ctx: OperationContext, view: ConfigView) -> str | None:
        """Say what is wrong with a new secondary address on the node, if anything; nobody asks an offline node."""
        node = self._node(view)
        if self.secondary_ip is None or node.offline:
            return None
        secondary = addresses.secondary_address(view, self.secondary_ip, node.primary_ip)
        if not await ask(ctx.nodes, node.uuid, NodeHasIpAddress(address=secondary)):
            return f"Address {secondary} is not on node {node.name}: set it up there first"
        if secondary in (node.primary_ip, node.secondary_ip):
            return None
        return await addresses.silence(ctx, view, node.name, secondary)

    def check(self, view: ConfigView, facts: str | None, ctx: OperationContext) -> Checked:
        node = self._node(view)
        self._check_anything_given()
        flags = Flags(self.master_candidate, self.drained, self.offline, self.master_capable, self.vm_capable)
        self._check_power(view, node)
        decision = decide(view, node, flags, auto_promote=self.auto_promote)
        changed = self._with_values(decision.node, ctx.catalogue)
        if self.secondary_ip is not None:
            secondary = addresses.secondary_address(view, self.secondary_ip, node.primary_ip)
            if secondary != node.secondary_ip:
                self._check_secondary(view, node, secondary, fault=facts)
                changed = replace(changed, secondary_ip=secondary)
        if self.group is not None:
            changed = replace(changed, group=self._check_group(view, node, self.group).uuid)
        decision = Decision(changed, decision.notes, decision.demoted, decision.comes_online)
        return Checked(node, decision, _differences(view, node, changed))

    async def check_on_nodes(self, checked: Checked, ctx: OperationContext) -> Checked:
        """A node that comes back must answer."""
        if not checked.decision.comes_online:
            return checked
        node = checked.old
        try:
            version = await ask(ctx.nodes, node.uuid, Version())
        except NodeCallError as err:
            raise PrerequisiteError(
                f"Node {node.name} is being de-offlined but fails the version check ({err}): start its node daemon, or "
                "add it again with gnt-node add --readd",
                ENVIRONMENT_ERROR,
            ) from err
        if version != CONFIG_VERSION:
            raise PrerequisiteError(
                f"Node {node.name} is being de-offlined but speaks version {version}, not {CONFIG_VERSION}: install "
                "the same release there",
                ENVIRONMENT_ERROR,
            )
        return checked

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        env = {
            "OP_TARGET": checked.old.name,
            "MASTER_CANDIDATE": str(self._candidacy_told(checked)),
            "OFFLINE": str(self.offline),
            "DRAINED": str(self.drained),
            "MASTER_CAPABLE": str(self.master_capable),
            "VM_CAPABLE": str(self.vm_capable),
        }
        nodes = [view.cluster.master_node]
        if not self.offline:  # a node being marked offline is gone: asking it would only cost the time it takes to fail
            nodes = list(dict.fromkeys([*nodes, checked.old.uuid]))

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            node = view.node(checked.old.uuid)
            flags = ("master_candidate", "offline", "drained", "master_capable", "vm_capable")
            return env | {flag.upper(): str(getattr(node, flag)) for flag in flags}

        return Hooks(self.hooks_path, "NODE", checked.old.name, env, nodes, nodes, after)

    def _candidacy_told(self, checked: Checked) -> bool | None:
        """What was asked for, or what follows from it, as in Ganeti: of a node that is drained or offline, nothing."""
        was, becomes = checked.old.master_candidate, checked.decision.node.master_candidate
        if self.master_candidate is not None or was == becomes or self.drained or self.offline:
            return self.master_candidate
        return becomes

    async def execute(self, checked: Checked, ctx: OperationContext) -> Changes:
        decision = checked.decision
        for note in decision.notes:
            ctx.log.info(note)
        if decision.comes_online:
            await self._come_online(checked, ctx)
        digest = None
        if decision.node.master_candidate and not checked.old.master_candidate:
            digest = await certificate_digest(ctx, checked.old.uuid)
            await give_candidate_keys(ctx, checked.old)
        if decision.demoted:
            await fill_pool(ctx, [checked.old.uuid])
        change = ReplaceNode(node=decision.node, certificate_digest=digest)
        if decision.demoted:
            await end_candidacy(ctx, decision.node, change)
            return checked.changes
        await ctx.config.commit(change, settles=True)
        if decision.comes_online and not decision.node.master_candidate:
            await take_candidate_keys(ctx, decision.node, everywhere=False)
            await refresh_authorized(ctx, decision.node)
        return checked.changes

    def _node(self, view: ConfigView) -> Node:
        return view.find_node(self.node_uuid or self.node_name)

    def _may_demote(self, node: Node) -> bool:
        """Whether others may have to take its place as a candidate: of a node that is none, nobody need be locked."""
        ends = self.offline or self.drained or self.master_candidate is False or self.master_capable is False
        return node.master_candidate and bool(ends)

    def _check_anything_given(self) -> None:
        given = (
            self.master_candidate,
            self.offline,
            self.drained,
            self.master_capable,
            self.vm_capable,
            self.secondary_ip,
            self.powered,
            self.group,
        )
        if all(value is None for value in given) and not (self.ndparams or self.hv_state or self.disk_state):
            raise PrerequisiteError("Please pass at least one modification", WRONG_INPUT)

    def _check_power(self, view: ConfigView, node: Node) -> None:
        has_program = bool(inheritance.node_nd(view, node)["oob_program"])
        if self.powered is not None and not has_program:
            raise PrerequisiteError(
                f"Node {node.name} does not support out-of-band handling, so its power state can't be changed: set the "
                "node parameter oob_program first",
                WRONG_STATE,
            )
        powered = node.powered if self.powered is None else self.powered
        if has_program and self.offline is False and node.offline and not powered:
            raise PrerequisiteError(
                f"Node {node.name} needs to be turned on before its offline status can be reset", WRONG_STATE
            )

    def _with_values(self, node: Node, catalogue: Catalogue) -> Node:
        try:
            ndparams = node_parameters(node.ndparams, self.ndparams or {})
            states = recorded_states(node, self.hv_state, self.disk_state, catalogue)
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        return replace(
            node,
            ndparams=ndparams,
            powered=node.powered if self.powered is None else self.powered,
            **states,
        )

    def _check_secondary(self, view: ConfigView, node: Node, secondary: str, *, fault: str | None) -> None:
        addresses.check_unused(view, node.uuid, secondary)
        if not (self.force and node.uuid == view.cluster.master_node):
            addresses.check_homes(view, node.primary_ip, secondary)
        for instance in _mirrored_with(view, node):
            if instance.admin_state == "up":
                raise PrerequisiteError(
                    f"Instance {instance.name} mirrors its disks over the secondary address of {node.name}: "
                    "shut it down first",
                    WRONG_STATE,
                )
        if fault is not None:
            raise PrerequisiteError(fault, ENVIRONMENT_ERROR)

    def _check_group(self, view: ConfigView, node: Node, name: str) -> NodeGroup:
        """No instance may be split, and a node with instances is moved by *force* only (S1.34)."""
        group = view.find_group(name)
        split, _ = split_instances(view, {node.uuid: group.uuid})
        if split:
            raise PrerequisiteError(
                f"Nodes of these instances would be in two groups: {', '.join(split)}; move all their nodes at once "
                f"(gnt-group assign-nodes {group.name} NODE...)",
                WRONG_STATE,
            )
        held = sorted(each.name for each in view.instances_on(node.uuid))
        if held and group.uuid != node.group and not self.force:
            raise PrerequisiteError(
                f"Node {node.name} has instances ({', '.join(held)}), which would change to node group {group.name} "
                "with it: add --force, or empty the node first (gnt-node evacuate)",
                WRONG_STATE,
            )
        return group

    async def _come_online(self, checked: Checked, ctx: OperationContext) -> None:
        """An offline node takes no orders: it is marked online first, and offline again unless it takes one."""
        node = checked.old
        await ctx.undo.push(UndoChange(f"mark node {node.name} offline again", ReplaceNode(node=node)))
        await ctx.config.commit(ReplaceNode(node=replace(node, offline=False)))
        try:  # it changes nothing, and is refused by a node that obeys a later master
            await ask(ctx.nodes, node.uuid, NodeSshKeyRemove(nodes=[]))
        except NodeCallError as err:
            raise ExecutionError(
                f"Node {node.name} is being de-offlined but takes no orders ({err}): if this is the right master, run "
                f"node-cleanup there, then gnt-node add --readd {node.name} here"
            ) from err
        ctx.log.warning(
            f"Transitioning node {node.name} from offline to online state without using re-add. Please make sure the "
            "node is healthy!"
        )


def _mirrored_with(view: ConfigView, node: Node) -> list[Any]:
    """Instances that keep copies of their disks on this and another node."""
    return [instance for instance in view.instances_on(node.uuid) if view.secondary_nodes(instance)]


def _differences(view: ConfigView, old: Node, new: Node) -> Changes:
    changes = [(name, str(getattr(new, name))) for name in SHOWN if getattr(new, name) != getattr(old, name)]
    if new.group != old.group:
        changes.append(("group", view.group(new.group).name))
    if new.ndparams != old.ndparams:
        changes.append(("ndparams", str(new.ndparams)))
    for name, label in (("hv_state_static", "hv_state"), ("disk_state_static", "disk_state")):
        if getattr(new, name) != getattr(old, name):
            changes.append((label, str(getattr(new, name))))
    return changes
