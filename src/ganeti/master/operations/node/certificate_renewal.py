# SPDX-License-Identifier: BSD-2-Clause
"""Renewing the certificates of nodes, and the authority that issues them, while everything goes on.

Every step can be repeated, and an interruption after any of them leaves a cluster that works: a certificate is used
only after all nodes know it, and the former one is taken back only after all nodes use the new one. A node that is away
keeps its own, and both are good until it has been renewed, too.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.master.operations.node.candidate_keys import AUTHORITY_KEY_MODE
from ganeti.model.configuration import Draft
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.candidate_keys import CandidateKeys
from ganeti.model.node_calls.certificates import (
    RENEWED,
    CertificateState,
    ForgetFormer,
    IssueCertificate,
    MakeAuthority,
    RequestCertificate,
    ShownCertificate,
    StageCertificate,
    UseCertificate,
)
from ganeti.model.node_calls.files import UploadFile
from ganeti.model.objects import Node
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask, ask_many

NODE_EXPIRES_SOON_S = 60 * 86400.0
AUTHORITY_EXPIRES_SOON_S = 120 * 86400.0
_TRUST_MODE = 0o444
_KNOWN_WITHIN_S = 20.0
_LOOK_EVERY_S = 0.2


class AdmitRenewed(Change, frozen=True, kw_only=True):
    """Node daemons take calls with these certificates of candidates, too (node uuid to digest)."""

    digests: dict[str, str]

    def apply(self, draft: Draft) -> None:
        certificates = dict(draft.cluster.candidate_certs)
        for uuid, digest in self.digests.items():
            if uuid in certificates and certificates[uuid] != digest:
                certificates[uuid + RENEWED] = digest
        _put(draft, certificates)


class SettleRenewed(Change, frozen=True, kw_only=True):
    """The candidates named show these certificates now: no other ones of theirs are taken any more."""

    digests: dict[str, str]

    def apply(self, draft: Draft) -> None:
        certificates = dict(draft.cluster.candidate_certs)
        for uuid, digest in self.digests.items():
            if uuid in certificates:
                certificates[uuid] = digest
                certificates.pop(uuid + RENEWED, None)
        _put(draft, certificates)


def _put(draft: Draft, certificates: dict[str, str]) -> None:
    if certificates != draft.cluster.candidate_certs:
        draft.put("cluster", replace(draft.cluster, candidate_certs=certificates))


@dataclass(frozen=True)
class Due:
    """What has to be renewed before it expires."""

    authority: bool
    nodes: tuple[str, ...]
    """Uuids."""


async def find_due(ctx: OperationContext) -> Due:
    """Ask all nodes for their certificates; raises `GanetiError` where the master's own cannot be read."""
    view, now_s = ctx.config.view(), ctx.clock.now_s()
    master = await ask(ctx.nodes, view.cluster.master_node, ShownCertificate())
    states = await _states(ctx, [node for node in view.nodes() if not node.offline])
    due = [
        uuid
        for uuid, state in states.items()
        if state.expires_s <= now_s + NODE_EXPIRES_SOON_S
        or (state.issued_by, state.authority) != (master.issued_by, master.authority)
        or (view.node(uuid).master_candidate and not state.authority_key_fits)
    ]
    # That of a candidate which does not answer cannot be settled: it is no reason to renew the others.
    half_done = any(uuid + RENEWED in view.cluster.candidate_certs for uuid in states)
    authority_ends_s = master.authority_expires_s
    return Due(
        authority=authority_ends_s <= now_s + AUTHORITY_EXPIRES_SOON_S or not master.authority_key_fits,
        nodes=tuple(states) if half_done else tuple(due),
    )


async def renew_authority(ctx: OperationContext, awake: Collection[Node]) -> None:
    """Make a new authority that nodes trust beside the former one; the next certificates come from it."""
    cluster = ctx.config.view().cluster
    made = await ask(ctx.nodes, cluster.master_node, MakeAuthority(cluster=cluster.cluster_name))
    known = await ask(ctx.nodes, cluster.master_node, ShownCertificate())
    await _upload(ctx, list(awake), Paths().authority_cert, made.certificate + known.authority, _TRUST_MODE)
    candidates = [node for node in awake if node.master_candidate]
    await _upload(ctx, candidates, Paths().authority_key, made.key, AUTHORITY_KEY_MODE)


async def find_awake(ctx: OperationContext) -> list[Node]:
    """The nodes that answer: the others are not asked again and again."""
    online = [node for node in ctx.config.view().nodes() if not node.offline]
    states = await _states(ctx, online)
    return [node for node in online if node.uuid in states]


async def _upload(ctx: OperationContext, nodes: Sequence[Node], path: str, content: str, mode: int) -> None:
    """The master first: raises `GanetiError` where it does not take it, with nothing begun; others are told."""
    master = ctx.config.view().cluster.master_node
    upload = UploadFile(path=path, content=content, mode=mode)
    if any(node.uuid == master for node in nodes):
        await ask(ctx.nodes, master, upload)
    others = [node for node in nodes if node.uuid != master]
    answers = await ask_many(ctx.nodes, [node.uuid for node in others], upload)
    for node, answer in zip(others, answers, strict=True):
        if answer.error is not None:
            ctx.log.warning(f"Node {node.name} has not taken {path} ({answer.error}): renew again when it answers")


async def renew_certificates(ctx: OperationContext, wanted: Collection[str], awake: Collection[Node]) -> None:
    """Give those of the nodes *wanted* (uuids) that are *awake* new keys and certificates; the others are told."""
    nodes = [node for node in awake if node.uuid in wanted]
    await _share_authority(ctx, awake)
    await _settle(ctx, nodes)
    staged = await _stage(ctx, nodes)
    candidates = {node.uuid for node in nodes if node.master_candidate}
    coming = {uuid: digest for uuid, digest in staged.items() if uuid in candidates}
    await ctx.config.commit(AdmitRenewed(digests=coming))
    ignorant = await _who_does_not_know(ctx, awake)
    switched = await _asked(
        ctx,
        [node for node in nodes if node.uuid in staged],
        {uuid: UseCertificate(digest=digest, former_too=bool(ignorant)) for uuid, digest in staged.items()},
        "still shows its former certificate",
    )
    await ctx.config.commit(
        SettleRenewed(digests={uuid: digest for uuid, digest in coming.items() if uuid in switched})
    )
    ignorant |= await _who_does_not_know(ctx, awake)
    await _end_trust(ctx, awake, ignorant)


async def _share_authority(ctx: OperationContext, awake: Collection[Node]) -> None:
    """Nodes that were away when the authority was renewed learn of the new one; candidates get its key, too."""
    states = await _states(ctx, list(awake))
    master = ctx.config.view().cluster.master_node
    shown = await ask(ctx.nodes, master, ShownCertificate())
    nodes = [node for node in awake if node.uuid in states]
    behind = [node for node in nodes if states[node.uuid].authority != shown.authority]
    await _upload(ctx, behind, Paths().authority_cert, shown.authority, _TRUST_MODE)
    keyless = [
        node for node in nodes if node.master_candidate and (node in behind or not states[node.uuid].authority_key_fits)
    ]
    if keyless and shown.authority_key_fits:
        key = (await ask(ctx.nodes, master, CandidateKeys())).authority_key
        if key is not None:
            await _upload(ctx, keyless, Paths().authority_key, key, AUTHORITY_KEY_MODE)


async def _settle(ctx: OperationContext, nodes: Sequence[Node]) -> None:
    """Finish what an interrupted renewal has begun: what a candidate shows is its certificate."""
    states = await _states(ctx, [node for node in nodes if node.master_candidate])
    await ctx.config.commit(SettleRenewed(digests={uuid: state.digest for uuid, state in states.items()}))


async def _stage(ctx: OperationContext, nodes: Sequence[Node]) -> dict[str, str]:
    """Have each node make a key and keep the certificate for it; gives the digests by node."""
    cluster = ctx.config.view().cluster
    requests = await _asked(ctx, nodes, {node.uuid: RequestCertificate() for node in nodes}, "has made no new key")
    stages: dict[str, NodeRequest[str]] = {}
    for node in nodes:
        if node.uuid in requests:
            addresses = [node.primary_ip, node.secondary_ip]
            if node.master_candidate:
                addresses.append(cluster.master_ip)
            certificate = await ask(
                ctx.nodes,
                cluster.master_node,
                IssueCertificate(
                    request=requests[node.uuid], node=node.name, cluster=cluster.cluster_name, addresses=addresses
                ),
            )
            stages[node.uuid] = StageCertificate(certificate=certificate)
    return await _asked(ctx, [node for node in nodes if node.uuid in stages], stages, "has not taken its certificate")


async def _who_does_not_know(ctx: OperationContext, awake: Collection[Node]) -> set[str]:
    """Wait until all nodes know the certificates of candidates; gives the uuids of those that do not in time."""
    await ctx.config.flush()
    wanted = set(ctx.config.view().cluster.candidate_certs.values())
    waiting = {node.uuid: node for node in awake}
    asleep = {node.uuid for node in ctx.config.view().nodes()} - waiting.keys()
    give_up_s = ctx.clock.now_s() + _KNOWN_WITHIN_S
    while waiting:
        states = await _states(ctx, list(waiting.values()))
        for uuid, node in list(waiting.items()):
            if uuid not in states:
                asleep.add(node.uuid)
                del waiting[uuid]
            elif wanted <= set(states[uuid].admits):
                del waiting[uuid]
        if ctx.clock.now_s() > give_up_s:
            break
        if waiting:
            await ctx.clock.sleep(_LOOK_EVERY_S)
    return asleep | waiting.keys()


async def _end_trust(ctx: OperationContext, awake: Collection[Node], ignorant: set[str]) -> None:
    """Trust the new authority alone once no node has a certificate of a former one."""
    states = await _states(ctx, list(awake))
    missing = [node.name for node in ctx.config.view().nodes() if node.uuid not in states or node.uuid in ignorant]
    if missing:
        ctx.log.warning(
            f"Former certificates stay good for {', '.join(missing)}, which did not answer: the watcher renews them"
        )
        return
    issuers = {state.issued_by for state in states.values()}
    if len(issuers) == 1 and issuers != {""}:
        issuer = issuers.pop()
        behind = [node for node in awake if states[node.uuid].authority != issuer]
        await _upload(ctx, behind, Paths().authority_cert, issuer, _TRUST_MODE)
        await ask_many(ctx.nodes, list(states), ForgetFormer())


async def _states(ctx: OperationContext, nodes: Sequence[Node]) -> dict[str, CertificateState]:
    """What the nodes that answer show."""
    answers = await ask_many(ctx.nodes, [node.uuid for node in nodes], ShownCertificate())
    return {answer.node_uuid: answer.value for answer in answers if answer.error is None}


async def _asked(
    ctx: OperationContext, nodes: Sequence[Node], requests: dict[str, Any], failure: str
) -> dict[str, Any]:
    """Ask each node its own request, all at once; gives the answers, and tells of those that failed."""
    asked = (ask(ctx.nodes, node.uuid, requests[node.uuid]) for node in nodes)
    found = {}
    for node, answer in zip(nodes, await asyncio.gather(*asked, return_exceptions=True), strict=True):
        if isinstance(answer, GanetiError):
            ctx.log.warning(f"Node {node.name} {failure} ({answer}): it is renewed by itself when it answers")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[node.uuid] = answer
    return found
