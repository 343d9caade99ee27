# SPDX-License-Identifier: BSD-2-Clause
"""Nodes in `/etc/hosts` of the other nodes, where the cluster's setting `modify_etc_hosts` is on."""

from collections.abc import Collection, Iterable, Mapping

from ganeti.model.node_calls.files import EtcHostsModify
from ganeti.model.objects import Node
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask_many


async def enter_host(ctx: OperationContext, node: Node) -> None:
    """Let all nodes know *node* by name, and *node* all others."""
    view = ctx.config.view()
    if not view.cluster.modify_etc_hosts:
        return
    others = [other for other in view.nodes() if other.uuid != node.uuid]
    everybody = {each.name: each.primary_ip for each in (*others, node)}
    await _modify(ctx, others, {node.name: node.primary_ip})
    await _modify(ctx, [node], everybody)


async def enter_all_hosts(ctx: OperationContext, *, without: Collection[str] = ()) -> None:
    """Let all nodes know all, but for those of *without* (uuids), which are not asked."""
    view = ctx.config.view()
    if view.cluster.modify_etc_hosts:
        asked = [node for node in view.nodes() if node.uuid not in without]
        await _modify(ctx, asked, {node.name: node.primary_ip for node in view.nodes()})


async def remove_host(ctx: OperationContext, node: Node) -> None:
    """Take a node that has left out of the files of those that stay."""
    view = ctx.config.view()
    if view.cluster.modify_etc_hosts:
        await _modify(ctx, [other for other in view.nodes() if other.uuid != node.uuid], {node.name: None})


async def _modify(ctx: OperationContext, nodes: Iterable[Node], entries: Mapping[str, str | None]) -> None:
    names = {node.uuid: node.name for node in nodes if not node.offline}
    changes = ", ".join(f"{name} {address or 'removed'}" for name, address in entries.items())
    for answer in await ask_many(ctx.nodes, list(names), EtcHostsModify(entries=dict(entries))):
        if answer.error is not None:
            ctx.log.warning(
                f"/etc/hosts of node {names[answer.node_uuid]} stays as it is ({answer.error}): enter there what "
                f"changed: {changes}"
            )
