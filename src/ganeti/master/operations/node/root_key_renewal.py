# SPDX-License-Identifier: BSD-2-Clause
"""Renewing root's ssh keys on all nodes: the new ones are let in everywhere before the old ones are let in no more."""

import asyncio

from msgspec.structs import replace

from ganeti.base.errors import GanetiError
from ganeti.model.configuration import Draft
from ganeti.model.node_calls.candidate_keys import CandidateKeys, NodeSshKeyAdd
from ganeti.model.node_calls.certificates import MakeRootKey, UseRootKey
from ganeti.model.objects import Node
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import NodeAnswer, ask, ask_many


class SetSshKeyType(Change, frozen=True, kw_only=True):
    """Nodes have ssh keys of this type and length from now on."""

    kind: str
    bits: int

    def apply(self, draft: Draft) -> None:
        wanted = replace(draft.cluster, ssh_key_type=self.kind, ssh_key_bits=self.bits)
        if wanted != draft.cluster:
            draft.put("cluster", wanted)


async def renew_root_keys(ctx: OperationContext, nodes: list[Node], kind: str, bits: int) -> None:
    """Give root of each of the *nodes*, those that answer, a new key of this type; what is left for later is told.

    Interrupted, it leaves old and new keys let in; the next renewal takes all but its own away.
    """
    view = ctx.config.view()
    asked = {node.uuid for node in nodes}
    asleep = [node.name for node in view.nodes() if node.uuid not in asked]
    if asleep:
        ctx.log.warning(f"The ssh keys of {', '.join(asleep)} stay as they are: add it again when it answers (--readd)")
    known = (await ask(ctx.nodes, view.cluster.master_node, CandidateKeys())).public_keys
    made = await _make(ctx, nodes, kind, bits)
    candidates = [node for node in nodes if node.master_candidate and node.uuid in made]
    both = {node.uuid: [*known.get(node.uuid, []), made[node.uuid]] for node in candidates}
    deaf = await _let_in(ctx, nodes, both)
    if deaf:
        ctx.log.warning(f"The former ssh keys stay good, too, for {', '.join(deaf)}: renew them again when it answers")
    wanted = [node for node in nodes if node.uuid in made]
    are_used = await asyncio.gather(*(_use(ctx, node, kind, made[node.uuid]) for node in wanted))
    used = [node for node, is_used in zip(wanted, are_used, strict=True) if is_used]
    await ctx.config.commit(SetSshKeyType(kind=kind, bits=bits))
    if not deaf:
        await _let_in(ctx, nodes, {node.uuid: [made[node.uuid]] for node in used if node.master_candidate})


async def _make(ctx: OperationContext, nodes: list[Node], kind: str, bits: int) -> dict[str, str]:
    answers = await ask_many(ctx.nodes, [node.uuid for node in nodes], MakeRootKey(kind=kind, bits=bits))
    _report(ctx, nodes, answers, "has made no new ssh key")
    return {answer.node_uuid: answer.value for answer in answers if answer.error is None}


async def _use(ctx: OperationContext, node: Node, kind: str, public: str) -> bool:
    try:
        await ask(ctx.nodes, node.uuid, UseRootKey(kind=kind, public=public))
    except GanetiError as err:
        ctx.log.warning(f"Node {node.name} still uses its former ssh key ({err}): renew it again when it answers")
        return False
    return True


async def _let_in(ctx: OperationContext, nodes: list[Node], keys: dict[str, list[str]]) -> list[str]:
    """Gives the names of nodes that could not be told."""
    answers = await ask_many(ctx.nodes, [node.uuid for node in nodes], NodeSshKeyAdd(keys=keys))
    _report(ctx, nodes, answers, "does not know the new ssh keys")
    return [node.name for node, answer in zip(nodes, answers, strict=True) if answer.error is not None]


def _report(ctx: OperationContext, nodes: list[Node], answers: list[NodeAnswer], what: str) -> None:
    for node, answer in zip(nodes, answers, strict=True):
        if answer.error is not None:
            ctx.log.warning(f"Node {node.name} {what} ({answer.error}): renew it again when it answers")
