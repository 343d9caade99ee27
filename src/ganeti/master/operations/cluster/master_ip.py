# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's own address, as the node calls that take it or give it up want it."""

from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.model.objects import Cluster
from ganeti.ports.context import OperationContext


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
    arguments: dict[str, Any] = {
        "master": master_address(cluster),
        "use_external_mip_script": cluster.use_external_mip_script,
    }
    if up:
        await ctx.nodes.call(cluster.master_node, "node_activate_master_ip", **arguments)
    else:
        await ctx.nodes.call(cluster.master_node, "node_deactivate_master_ip", **arguments, on_purpose=True)
