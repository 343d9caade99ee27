# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's own address, as the node calls that take it or give it up want it."""

from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.model.objects import Cluster
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall


def master_address(cluster: Cluster) -> dict[str, Any]:
    return {
        "ip": cluster.master_ip,
        "netdev": cluster.master_netdev,
        "netmask": cluster.master_netmask,
        "ip_family": cluster.primary_ip_family,
    }


async def take_master_address(ctx: OperationContext) -> None:
    """Have the master take the cluster's address; a failure is told and stops nothing: the cluster works without."""
    try:
        await change_master_address(ctx, up=True)
    except GanetiError as err:
        ctx.log.warning(f"Could not activate the master IP {ctx.config.view().cluster.master_ip}: {err}")


async def give_up_master_address(ctx: OperationContext) -> None:
    try:
        await change_master_address(ctx, up=False)
    except GanetiError as err:
        ctx.log.warning(f"Could not deactivate the master IP {ctx.config.view().cluster.master_ip}: {err}")


async def change_master_address(ctx: OperationContext, *, up: bool) -> None:
    """Take the cluster's address on the master, or give it up; raises what the node answers."""
    cluster = ctx.config.view().cluster
    if up:
        await ctx.nodes.call(cluster.master_node, "node_activate_master_ip", **_arguments(cluster))
    else:
        await ctx.nodes.call(cluster.master_node, "node_deactivate_master_ip", **_arguments(cluster), on_purpose=True)


async def move_master_address(ctx: OperationContext, moved: Cluster, change: Change, back: Change) -> None:
    """Commit *change*, which makes the cluster's address that of *moved*, and take the new address.

    Where the master cannot take it, *back* is committed and the old address taken again.
    """
    old = ctx.config.view().cluster
    node, name = old.master_node, ctx.config.view().node(old.master_node).name
    again = UndoNodeCall(f"take {old.master_ip} on {name} again", node, "node_activate_master_ip", _arguments(old))
    await ctx.undo.push(again)
    await change_master_address(ctx, up=False)
    await ctx.undo.push(
        UndoChange("give the cluster its old address again", back),
        UndoNodeCall(
            f"give up {moved.master_ip} on {name}", node, "node_deactivate_master_ip", _arguments(moved) | _ON_PURPOSE
        ),
    )
    await ctx.config.commit(change)
    await change_master_address(ctx, up=True)


def _arguments(cluster: Cluster) -> dict[str, Any]:
    return {"master": master_address(cluster), "use_external_mip_script": cluster.use_external_mip_script}


_ON_PURPOSE = {"on_purpose": True}
