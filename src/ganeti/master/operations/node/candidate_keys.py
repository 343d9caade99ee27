# SPDX-License-Identifier: BSD-2-Clause
"""Giving a node what a master candidate needs to become the master, and taking it away again.

That is `ca.key`, which signs the certificates of nodes that join, and, where the cluster looks after ssh, that root of
the candidate may log in on every node, and knows which keys may (`ganeti_pub_keys`). A candidate gets it before it is
one, so that every node that may take over has it. A node that is to be none loses it afterwards; if the job dies in
between, its undo completes that: to give the key back, the undo record would have to hold it.
"""

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.model.node_calls.candidate_keys import (
    CandidateKeys,
    NodeDemoteFromMc,
    NodeSshKeyAdd,
    NodeSshKeyRemove,
    RootPublicKey,
)
from ganeti.model.node_calls.files import UploadFile
from ganeti.model.objects import Node
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall
from ganeti.ports.nodes import NodeAnswer, ask, ask_many

AUTHORITY_KEY_MODE = 0o400


async def give_candidate_keys(ctx: OperationContext, node: Node) -> None:
    """Before *node* becomes a candidate. Raises `GanetiError` if it cannot be given the authority's key."""
    cluster = ctx.config.view().cluster
    found = await ask(ctx.nodes, cluster.master_node, CandidateKeys())
    key = found.authority_key
    await ctx.undo.push(_removal(ctx, node, forward=False))
    if key is None:
        ctx.log.warning(
            f"The master has no {Paths().authority_key}: {node.name} could not add nodes if it became the master"
        )
    else:
        path = Paths().authority_key
        await ask(ctx.nodes, node.uuid, UploadFile(path=path, content=key, mode=AUTHORITY_KEY_MODE))
    if cluster.modify_ssh_setup:
        await _let_in(ctx, node, found.public_keys)


async def _let_in(ctx: OperationContext, node: Node, known: dict[str, list[str]]) -> None:
    """Have every node let root of *node* in, and tell *node* whom to let in."""
    view = ctx.config.view()
    key = await ask(ctx.nodes, node.uuid, RootPublicKey(kind=view.cluster.ssh_key_type))
    if key is None:
        ctx.log.warning(
            f"root of node {node.name} has no ssh key of the type {view.cluster.ssh_key_type}: the node could not "
            f"reach others over ssh if it became the master; gnt-node add --readd {node.name} makes one"
        )
    mine = {} if key is None else {node.uuid: [key]}
    candidates = {other.uuid for other in view.nodes() if other.master_candidate}
    all_keys = {uuid: keys for uuid, keys in known.items() if uuid in candidates} | mine
    others = [other for other in view.nodes() if not other.offline and other.uuid != node.uuid]
    await ctx.undo.push(*_removals(node, [node, *others], forward=False))
    await ask(ctx.nodes, node.uuid, NodeSshKeyAdd(keys=all_keys, remember=True, only=bool(known)))
    if mine:
        uuids = [other.uuid for other in others]
        _report(ctx, others, await ask_many(ctx.nodes, uuids, NodeSshKeyAdd(keys=mine)))


async def end_candidacy(ctx: OperationContext, node: Node, change: Change) -> None:
    """Commit *change*, by which *node* ceases to be a candidate, and take its keys; undo completes what was begun.

    What cannot be taken is told, and named by verify.
    """
    others = [other for other in _lets_in(ctx) if other.uuid != node.uuid or not node.offline]
    taken = [] if node.offline else [_removal(ctx, node)]
    completion = UndoChange(f"complete that node {node.name} is no master candidate", change, forward=True)
    # At once: some of them alone would take the key of a candidate from some of the nodes.
    await ctx.undo.push(*_removals(node, others), *taken, completion)
    await ctx.config.commit(change)
    if not node.offline:
        await _remove_files(ctx, node)
    else:
        ctx.log.warning(f"Node {node.name} is offline and keeps its {Paths().authority_key} until it is online again")
    await _take_from(ctx, node, others)


async def end_membership(ctx: OperationContext, node: Node, change: Change) -> None:
    """Commit *change*, by which a node that has left is in the cluster no more, and have nobody let it in."""
    others = [other for other in _lets_in(ctx) if other.uuid != node.uuid]
    completion = UndoChange(f"complete the removal of node {node.name}", change, forward=True)
    await ctx.undo.push(*_removals(node, others), completion)
    await ctx.config.commit(change)
    await _take_from(ctx, node, others)


async def take_candidate_keys(ctx: OperationContext, node: Node, *, everywhere: bool = True) -> None:
    """Take what *node*, which is no candidate, may have all the same; with *everywhere* nobody lets it in any more."""
    await ctx.undo.push(_removal(ctx, node))
    await _remove_files(ctx, node)
    if everywhere:
        await ctx.undo.push(*_removals(node, _lets_in(ctx)))
        await _take_from(ctx, node, _lets_in(ctx))


async def _remove_files(ctx: OperationContext, node: Node) -> None:
    try:
        await ask(ctx.nodes, node.uuid, NodeDemoteFromMc(master=_master_name(ctx)))
    except GanetiError as err:
        ctx.log.warning(f"Could not {_removal(ctx, node).sentence}: {err}")


def _lets_in(ctx: OperationContext) -> list[Node]:
    """The nodes that can be told whom to let in; none where the cluster leaves ssh alone."""
    view = ctx.config.view()
    return [node for node in view.nodes() if not node.offline] if view.cluster.modify_ssh_setup else []


async def _take_from(ctx: OperationContext, node: Node, others: list[Node]) -> None:
    uuids = [other.uuid for other in others]
    _report(ctx, others, await ask_many(ctx.nodes, uuids, NodeSshKeyRemove(nodes=[node.uuid])))


def _removal(ctx: OperationContext, node: Node, *, forward: bool = True) -> UndoNodeCall:
    sentence = f"take the keys of a master candidate from node {node.name}"
    return UndoNodeCall.of(sentence, node.uuid, NodeDemoteFromMc(master=_master_name(ctx)), forward=forward)


def _master_name(ctx: OperationContext) -> str:
    view = ctx.config.view()
    return view.node(view.cluster.master_node).name


async def refresh_authorized(ctx: OperationContext, node: Node) -> None:
    """Tell a node that was not there whom to let in: the candidates of today, no others."""
    view = ctx.config.view()
    if not view.cluster.modify_ssh_setup:
        return
    found = await ask(ctx.nodes, view.cluster.master_node, CandidateKeys())
    candidates = {other.uuid for other in view.nodes() if other.master_candidate}
    keys = {uuid: keys for uuid, keys in found.public_keys.items() if uuid in candidates}
    if keys:  # a master that has lost its list must not have others locked out
        _report(ctx, [node], await ask_many(ctx.nodes, [node.uuid], NodeSshKeyAdd(keys=keys, only=True)))


def _removals(node: Node, where: list[Node], *, forward: bool = True) -> list[UndoNodeCall]:
    sentence = "take the ssh key of node {} out of those that {} lets in"
    request = NodeSshKeyRemove(nodes=[node.uuid])
    return [
        UndoNodeCall.of(sentence.format(node.name, other.name), other.uuid, request, forward=forward) for other in where
    ]


def _report(ctx: OperationContext, nodes: list[Node], answers: list[NodeAnswer]) -> None:
    """Say which nodes could not be told; --readd tells a node anew whom to let in."""
    for node, answer in zip(nodes, answers, strict=True):
        if answer.error is not None:
            ctx.log.warning(
                f"The ssh keys that node {node.name} lets in stay as they were ({answer.error}): run gnt-node add "
                f"--readd {node.name} when that is mended"
            )
