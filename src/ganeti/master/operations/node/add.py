# SPDX-License-Identifier: BSD-2-Clause
"""OP_NODE_ADD: take a machine into the cluster whose node daemon has been set up, or take a node back.

The node enters the configuration first, since nodes are called by it; it is taken out again unless it answers with the
right version, and at its secondary address. Only then does it become a master candidate, if one more is wanted.
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec.structs import replace

from ganeti.base.command import PRIORITY, Command, Option
from ganeti.base.errors import (
    ALREADY_EXISTS,
    UNKNOWN_ENTITY,
    WRONG_INPUT,
    WRONG_STATE,
    ExecutionError,
    GanetiError,
    NodeUnreachableError,
    ParameterError,
    PrerequisiteError,
)
from ganeti.base.names import address_fault
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.cluster.redist_conf import send_shared_files
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.master.operations.node import addresses
from ganeti.master.operations.node.candidate_keys import (
    give_candidate_keys,
    refresh_authorized,
    take_candidate_keys,
)
from ganeti.master.operations.node.candidates import certificate_digest, hosted_instances, wants_another
from ganeti.master.operations.node.changes import AddNode, RemoveNode, ReplaceNode
from ganeti.master.operations.node.hosts import enter_host
from ganeti.master.operations.node.parameters import node_parameters, recorded_states
from ganeti.master.operations.parameters import (
    DiskState,
    HypervisorState,
    MasterCapable,
    NodeName,
    NodeParameters,
    SecondaryIp,
    Text,
    VmCapable,
)
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.files import SharedFiles
from ganeti.model.node_calls.node import Version
from ganeti.model.objects import CONFIG_VERSION, Node, NodeGroup
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoChange
from ganeti.ports.nodes import ask


@dataclass(frozen=True)
class Resolved:
    name: str
    primary_ip: str


_NO_NODE_SETUP = Option(("--no-node-setup",), "no_node_setup", "flag", "leave the node's ssh keys alone")


@dataclass(frozen=True)
class Checked:
    node: Node
    old: Node | None
    becomes_candidate: bool


@operation(
    "OP_NODE_ADD",
    summary_field="node_name",
    hooks="node-add",
    cli=(
        Command(
            "gnt-node add",
            "add a node, or add it again",
            arguments=("node_name",),
            options=(
                Option(("--no-ssh-key-check",), "no_ssh_key_check", "flag", "accept an unknown ssh host key"),
                Option(("--force-join",), "force_join", "flag", "go on where the joining checks complain"),
                _NO_NODE_SETUP,
                Option(("-v", "--verbose"), "verbose", "flag", "say more"),
                PRIORITY,
            ),
            handler="node.setup:add",
            is_job=False,
            needs_root=True,
        ),
        Command(
            "gnt-node token",
            "add a node without ssh: print a one-time token and wait for the machine to join with it",
            arguments=("node_name",),
            options=(
                _NO_NODE_SETUP,
                Option(("--port",), "port", "int", "port to wait at, in place of 1817", metavar="PORT"),
                Option(("--timeout",), "timeout", "duration", "how long the token can be used, in place of 10 minutes"),
                PRIORITY,
            ),
            handler="node.setup:token",
            is_job=False,
            needs_root=True,
        ),
    ),
    examples=(
        Example("node-readd", {"node_name": "node3.example.com", "readd": True}, before=("node-offline",)),
        Example("node-add", {"node_name": "node3.example.com"}, before=("node-remove",)),
    ),
)
class AddNodeToCluster(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add a node, or with *readd* add it again."""

    node_name: NodeName
    primary_ip: Annotated[Text | None, Parameter("address of the node, in place of the one that its name has")] = None
    secondary_ip: SecondaryIp = None
    readd: Annotated[bool, Parameter("the node is in the cluster already and comes back", "--readd")] = False
    group: Annotated[
        Text | None, Parameter("group of the node", "-g", "--node-group", subject="group", metavar="GROUP")
    ] = None
    master_capable: MasterCapable = None
    vm_capable: VmCapable = None
    ndparams: NodeParameters | None = None
    hv_state: HypervisorState | None = None
    disk_state: DiskState | None = None
    node_setup: Annotated[bool, Parameter("the node's ssh keys are the cluster's from now on")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Resolved:
        if (fault := address_fault(self.node_name)) is not None:
            raise PrerequisiteError(f"'{self.node_name}' cannot be the name of a node: {fault}", WRONG_INPUT)
        family = view.cluster.primary_ip_family
        name, address = await ctx.names.resolve(self.node_name, family)
        return Resolved(name, addresses.primary_address(view, self.primary_ip) if self.primary_ip else address)

    def check(self, view: ConfigView, facts: Resolved, ctx: OperationContext) -> Checked:
        old = self._old(view, facts.name)
        secondary_ip = addresses.secondary_address(
            view,
            self.secondary_ip or (old.secondary_ip if old and self._keeps_secondary(old) else None),
            facts.primary_ip,
        )
        if old is not None:
            self._check_readd(view, old, secondary_ip)
        addresses.check_unused(view, old.uuid if old else None, facts.primary_ip, secondary_ip)
        addresses.check_homes(view, facts.primary_ip, secondary_ip)
        node = self._node(view, facts, old, secondary_ip, ctx)
        becomes_candidate = node.master_capable and wants_another(view, old.uuid if old else None)
        return Checked(node, old, becomes_candidate)

    def hooks(self, view: ConfigView, checked: Checked) -> Hooks:
        node = checked.node
        others = [other.uuid for other in view.nodes() if other.uuid != node.uuid]

        def after(view: ConfigView, catalogue: Catalogue) -> dict[str, str]:
            return _hook_variables(view.node(node.uuid))

        return Hooks(self.hooks_path, "NODE", node.name, _hook_variables(node), others, [*others, node.uuid], after)

    async def execute(self, checked: Checked, ctx: OperationContext) -> None:
        node = checked.node
        await self._enter(checked, ctx)
        await self._check_version(node, ctx)
        await self._check_secondary(node, ctx)
        digest = await certificate_digest(ctx, node.uuid) if checked.becomes_candidate else None
        if digest is not None:
            ctx.log.info(" - INFO: Node will be a master candidate")
            await give_candidate_keys(ctx, node)
        final = replace(node, master_candidate=digest is not None)
        await ctx.config.commit(ReplaceNode(node=final, certificate_digest=digest), settles=True)
        if digest is None:
            await self._without_candidate_keys(final, checked.old, ctx)
        await enter_host(ctx, final)
        await self._give_shared_files(final, ctx)

    async def _give_shared_files(self, node: Node, ctx: OperationContext) -> None:
        """What every node has: users and certificate of the remote API, say, which a later master needs."""
        try:
            files = await ask(ctx.nodes, ctx.config.view().cluster.master_node, SharedFiles())
        except GanetiError as err:
            ctx.log.warning(f"Node {node.name} lacks files that every node has ({err}): run gnt-cluster redist-conf")
            return
        await send_shared_files(ctx, files, only=[node.uuid])

    async def _without_candidate_keys(self, node: Node, old: Node | None, ctx: OperationContext) -> None:
        """A node that comes back may have been a candidate when it was last seen."""
        if old is not None:
            await take_candidate_keys(ctx, node, everywhere=old.master_candidate)
        if old is not None or self.node_setup:
            await refresh_authorized(ctx, node)

    def _old(self, view: ConfigView, name: str) -> Node | None:
        uuid = view.uuid_by_name("nodes", name)
        if uuid is None:
            if self.readd:
                raise PrerequisiteError(
                    f"Node {name} is not in the configuration: add it without --readd", UNKNOWN_ENTITY
                )
            return None
        if not self.readd:
            raise PrerequisiteError(
                f"Node {name} is already in the configuration: add --readd to take it back", ALREADY_EXISTS
            )
        return view.node(uuid)

    def _keeps_secondary(self, old: Node) -> bool:
        """A node with one address keeps having one when that changes."""
        return old.primary_ip != old.secondary_ip

    def _check_readd(self, view: ConfigView, old: Node, secondary_ip: str) -> None:
        if old.uuid == view.cluster.master_node:
            raise PrerequisiteError(f"Node {old.name} is the master: it cannot be added again", WRONG_STATE)
        if self.group is not None:
            raise PrerequisiteError("Cannot pass a node group when a node is being readded", WRONG_INPUT)
        if self.ndparams:
            raise PrerequisiteError(
                "Node parameters stay as they are when a node is being readded: use gnt-node modify", WRONG_INPUT
            )
        if self._keeps_secondary(old) and secondary_ip != old.secondary_ip:
            raise PrerequisiteError(
                f"Readded node doesn't have the same IP address configuration as before: its secondary address is "
                f"{old.secondary_ip}",
                WRONG_INPUT,
            )
        hosted = hosted_instances(view, old.uuid)
        if self.vm_capable is False and hosted:
            raise PrerequisiteError(
                f"Node {old.name} is to become unable to run instances, but has {hosted[0].name}", WRONG_STATE
            )

    def _node(
        self, view: ConfigView, facts: Resolved, old: Node | None, secondary_ip: str, ctx: OperationContext
    ) -> Node:
        try:
            states = recorded_states(old, self.hv_state, self.disk_state, ctx.catalogue)
            ndparams = node_parameters({}, self.ndparams or {})
        except ParameterError as err:
            raise PrerequisiteError(err.message, WRONG_INPUT) from err
        if old is not None:
            return replace(
                old,
                primary_ip=facts.primary_ip,
                secondary_ip=secondary_ip,
                offline=False,
                drained=False,
                powered=True,
                master_candidate=False,
                master_capable=old.master_capable if self.master_capable is None else self.master_capable,
                vm_capable=old.vm_capable if self.vm_capable is None else self.vm_capable,
                **states,
            )
        return Node(
            uuid=ctx.entropy.uuid(),
            name=facts.name,
            primary_ip=facts.primary_ip,
            secondary_ip=secondary_ip,
            group=self._group(view).uuid,
            master_capable=self.master_capable is not False,
            vm_capable=self.vm_capable is not False,
            ndparams=ndparams,
            **states,
        )

    def _group(self, view: ConfigView) -> NodeGroup:
        if self.group is not None:
            return view.find_group(self.group)
        groups = view.groups()
        if len(groups) > 1:
            names = ", ".join(sorted(group.name for group in groups))
            raise PrerequisiteError(f"More than one node group exists ({names}): name the node's with -g", WRONG_INPUT)
        return groups[0]

    async def _enter(self, checked: Checked, ctx: OperationContext) -> None:
        node, old = checked.node, checked.old
        if old is None:
            await ctx.undo.push(
                UndoChange(f"take node {node.name} out of the configuration", RemoveNode(node_uuid=node.uuid))
            )
            await ctx.config.commit(AddNode(node=node))
        else:
            digest = ctx.config.view().cluster.candidate_certs.get(old.uuid)
            back = ReplaceNode(node=old, certificate_digest=digest)
            await ctx.undo.push(UndoChange(f"put node {node.name} back as it was", back))
            await ctx.config.commit(ReplaceNode(node=node))

    async def _check_version(self, node: Node, ctx: OperationContext) -> None:
        try:
            version = await ask(ctx.nodes, node.uuid, Version())
        except NodeUnreachableError as err:
            raise ExecutionError(
                f"The node daemon of {node.name} does not answer at {node.primary_ip} ({err}): set it up with gnt-node "
                "add, and see its log"
            ) from err
        if version != CONFIG_VERSION:
            raise ExecutionError(
                f"Version mismatch: the master speaks version {CONFIG_VERSION}, node {node.name} {version}: install "
                "the same release there"
            )

    async def _check_secondary(self, node: Node, ctx: OperationContext) -> None:
        """Here and not in `check`: a dry run comes before the node daemon is set up."""
        if node.secondary_ip == node.primary_ip:
            return
        fault = await addresses.silence(ctx, ctx.config.view(), node.name, node.secondary_ip)
        if fault is not None:
            raise ExecutionError(fault)


def _hook_variables(node: Node) -> dict[str, str]:
    return {
        "NODE_NAME": node.name,
        "NODE_PIP": node.primary_ip,
        "NODE_SIP": node.secondary_ip,
        "MASTER_CAPABLE": str(node.master_capable),
        "VM_CAPABLE": str(node.vm_capable),
    }
