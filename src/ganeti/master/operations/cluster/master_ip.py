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
    cluster = ctx.config.view().cluster
    try:
        await ctx.nodes.call(
            cluster.master_node,
            "node_activate_master_ip",
            master=master_address(cluster),
            use_external_mip_script=cluster.use_external_mip_script,
        )
    except GanetiError as err:
        ctx.log.warning(f"Could not activate the master IP {cluster.master_ip}: {err}")


async def give_up_master_address(ctx: OperationContext) -> None:
    cluster = ctx.config.view().cluster
    try:
        await ctx.nodes.call(
            cluster.master_node,
            "node_deactivate_master_ip",
            master=master_address(cluster),
            use_external_mip_script=cluster.use_external_mip_script,
        )
    except GanetiError as err:
        ctx.log.warning(f"Could not deactivate the master IP {cluster.master_ip}: {err}")
