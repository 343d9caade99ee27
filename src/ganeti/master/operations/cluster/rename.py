# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_RENAME: give the cluster another name, and the address that the name has."""

from dataclasses import dataclass
from typing import Annotated

from msgspec.structs import replace

from ganeti.base.command import Command
from ganeti.base.errors import (
    ENVIRONMENT_ERROR,
    NOT_UNIQUE,
    WRONG_INPUT,
    GanetiError,
    PrerequisiteError,
)
from ganeti.base.names import address_fault, shown
from ganeti.base.paths import Paths
from ganeti.master.operation import Example, Hooks, Operation, operation
from ganeti.master.operations.cluster.master_ip import move_master_address
from ganeti.master.operations.cluster.redist_conf import send_shared_files
from ganeti.master.operations.lock_plans import whole_cluster
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.configuration import Draft
from ganeti.model.locks import LockPlan
from ganeti.model.node_calls.files import AdoptClusterName, SharedFiles
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.objects import Cluster
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall
from ganeti.ports.nodes import ask, ask_many


class RenameCluster(Change, frozen=True, kw_only=True):
    """The cluster has another name and address."""

    name: str
    address: str

    def apply(self, draft: Draft) -> None:
        draft.put("cluster", replace(draft.cluster, cluster_name=self.name, master_ip=self.address))


@dataclass(frozen=True)
class Resolved:
    name: str
    address: str
    is_used: bool


@operation(
    "OP_CLUSTER_RENAME",
    summary_field="name",
    hooks="cluster-rename",
    cli=Command(
        "gnt-cluster rename",
        "give the cluster another name, and the address that the name has",
        arguments=("name",),
        needs_root=True,
        confirm="The cluster gets another name: clients that use the old name or address must be changed. Continue?",
    ),
    examples=(Example("cluster-rename", {"name": "other.example.com"}),),
)
class RenameTheCluster(Operation[str], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rename the cluster; gives the full new name. Certificates keep the old name until they are renewed."""

    name: Annotated[Text, Parameter("the new name", subject="new name", metavar="new-name")]

    def locks(self, view: ConfigView) -> LockPlan:
        return whole_cluster()

    async def gather(self, ctx: OperationContext, view: ConfigView) -> Resolved:
        if (fault := address_fault(self.name)) is not None:
            raise PrerequisiteError(f"'{shown(self.name)}' cannot be the name of a cluster: {fault}", WRONG_INPUT)
        cluster = view.cluster
        try:
            name, address = await ctx.names.resolve(self.name, cluster.primary_ip_family)
        except GanetiError as err:
            raise PrerequisiteError(err.message, ENVIRONMENT_ERROR) from err
        if address == cluster.master_ip:
            return Resolved(name, address, is_used=False)
        answer = await ask(ctx.nodes, cluster.master_node, NodeVerify(checks=NodeChecks(used_addresses=[address])))
        return Resolved(name, address, is_used=bool(answer.used_addresses))

    def check(self, view: ConfigView, facts: Resolved, ctx: OperationContext) -> Cluster:
        cluster = view.cluster
        if (facts.name, facts.address) == (cluster.cluster_name, cluster.master_ip):
            raise PrerequisiteError(
                f"The cluster is called {facts.name} and has the address {facts.address} already: give another name, "
                "or change the name's address first",
                WRONG_INPUT,
            )
        for node in view.nodes():
            if facts.name == node.name or facts.address in (node.primary_ip, node.secondary_ip):
                raise PrerequisiteError(
                    f"{facts.name} ({facts.address}) is node {node.name}: a cluster needs a name and address of its "
                    "own",
                    NOT_UNIQUE,
                )
        if facts.is_used:
            raise PrerequisiteError(
                f"The address {facts.address} of {facts.name} is in use already: give the name an address of its own",
                NOT_UNIQUE,
            )
        return replace(cluster, cluster_name=facts.name, master_ip=facts.address)

    def hooks(self, view: ConfigView, checked: Cluster) -> Hooks:
        everybody = [node.uuid for node in view.nodes() if not node.offline]
        env = {"NEW_NAME": self.name}
        return Hooks(self.hooks_path, "CLUSTER", view.cluster.cluster_name, env, [view.cluster.master_node], everybody)

    async def execute(self, checked: Cluster, ctx: OperationContext) -> str:
        old = ctx.config.view().cluster
        change = RenameCluster(name=checked.cluster_name, address=checked.master_ip)
        back = RenameCluster(name=old.cluster_name, address=old.master_ip)
        if old.master_ip == checked.master_ip:
            await ctx.undo.push(UndoChange(f"call the cluster {old.cluster_name} again", back))
            await ctx.config.commit(change)
        else:
            await move_master_address(ctx, checked, change, back)
        await _tell_nodes(ctx, old.cluster_name, checked.cluster_name)
        await _rename_in_known_hosts(ctx, old.cluster_name, checked.cluster_name)
        await ctx.config.flush()
        return checked.cluster_name


async def _tell_nodes(ctx: OperationContext, old: str, new: str) -> None:
    """A node takes values of its own cluster only, which it tells by the name."""
    nodes = {node.uuid: node.name for node in ctx.config.view().nodes() if not node.offline}
    asked = AdoptClusterName(old=old, new=new)
    back = AdoptClusterName(old=new, new=old)
    await ctx.undo.push(
        *(UndoNodeCall.of(f"call the cluster {old} on {name} again", uuid, back) for uuid, name in nodes.items())
    )
    for answer in await ask_many(ctx.nodes, list(nodes), asked):
        if answer.error is not None:
            name = nodes[answer.node_uuid]
            ctx.log.warning(
                f"Node {name} does not know the new name of the cluster ({answer.error}): add it again with gnt-node "
                f"add --readd {name}"
            )


async def _rename_in_known_hosts(ctx: OperationContext, old: str, new: str) -> None:
    """All nodes have the cluster's ssh host keys under its name."""
    view, path = ctx.config.view(), Paths().known_hosts
    nodes = {node.uuid: node.name for node in view.nodes() if not node.offline}
    master = view.cluster.master_node
    for file in await ask(ctx.nodes, master, SharedFiles()):
        if file.path == path:
            lines = [_renamed(line, old, new) for line in file.content.splitlines(keepends=True)]
            renamed = replace(file, content="".join(lines))
            await ctx.undo.push(
                *(UndoNodeCall.of(f"put {path} on {name} back", uuid, file.upload()) for uuid, name in nodes.items())
            )
            await ask(ctx.nodes, master, renamed.upload())
            await send_shared_files(ctx, [renamed])


def _renamed(line: str, old: str, new: str) -> str:
    name, blank, rest = line.partition(" ")
    return f"{new if name == old else name}{blank}{rest}"
