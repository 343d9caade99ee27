# SPDX-License-Identifier: BSD-2-Clause
"""How many master candidates there should be, and making nodes candidates (S1.74, S1.75)."""

from collections.abc import Iterable

from ganeti.base.errors import ExecutionError, GanetiError
from ganeti.master.operations.node.candidate_keys import give_candidate_keys, take_candidate_keys
from ganeti.master.operations.node.changes import PromoteNode
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.objects import Instance, Node
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


def is_eligible(node: Node) -> bool:
    return node.master_capable and not node.offline and not node.drained


def hosted_instances(view: ConfigView, node_uuid: str) -> list[Instance]:
    """Instances that a node runs or holds disks of."""
    return view.instances_on(node_uuid)


def counts(
    view: ConfigView, without: Iterable[str] = (), plus: int = 0, pool_size: int | None = None
) -> tuple[int, int]:
    """Give (candidates there are, candidates there should be), nodes of *without* left out.

    *plus* is the number of further nodes that could be one, *pool_size* stands for that of the cluster.
    """
    left_out = set(without)
    nodes = [node for node in view.nodes() if node.uuid not in left_out and is_eligible(node)]
    wanted = min(len(nodes) + plus, pool_size or view.cluster.candidate_pool_size)
    return sum(node.master_candidate for node in nodes), wanted


def wants_another(view: ConfigView, node_uuid: str | None = None) -> bool:
    """Whether a node that becomes eligible should be a candidate at once; *node_uuid* if it is in the cluster."""
    there, wanted = counts(view, [node_uuid] if node_uuid else [], plus=1)
    return there < wanted


def next_candidates(view: ConfigView, without: Iterable[str] = (), pool_size: int | None = None) -> list[Node]:
    """The nodes to promote so that there are enough, nodes of *without* left out; *pool_size* as in `counts`."""
    left_out = set(without)
    there, wanted = counts(view, left_out, pool_size=pool_size)
    free = [
        node for node in view.nodes() if node.uuid not in left_out and is_eligible(node) and not node.master_candidate
    ]
    return free[: max(0, wanted - there)]


async def certificate_digest(ctx: OperationContext, node_uuid: str) -> str:
    """Ask a node for the digest of its client certificate; raises `ExecutionError`."""
    name = ctx.config.view().node(node_uuid).name
    answer = await ask(ctx.nodes, node_uuid, NodeVerify(checks=NodeChecks(client_cert=True)))
    if not answer.client_cert:
        raise ExecutionError(f"Node {name} has no client certificate: add it again with gnt-node add --readd {name}")
    return answer.client_cert


async def fill_pool(ctx: OperationContext, without: Iterable[str] = ()) -> None:
    """Promote nodes until there are as many candidates as there should be."""
    left_out = list(without)
    for node in next_candidates(ctx.config.view(), left_out):
        try:
            digest = await certificate_digest(ctx, node.uuid)
            await give_candidate_keys(ctx, node)
        except GanetiError as err:
            ctx.log.warning(f"Node {node.name} could not be promoted to master candidate: {err}")
            await take_candidate_keys(ctx, node)
            continue
        # Settled at once: its keys must not be taken from a candidate because something after this fails.
        await ctx.config.commit(PromoteNode(node_uuid=node.uuid, certificate_digest=digest), settles=True)
        ctx.log.info(f" - INFO: Promoted node {node.name} to master candidate role")
