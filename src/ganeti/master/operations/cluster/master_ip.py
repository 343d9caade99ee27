# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's own address, as the node calls that take it or give it up want it."""

from ganeti.base.errors import GanetiError
from ganeti.master.verify.asking import MASTER_IP_SCRIPT
from ganeti.model.node_calls.mastership import MasterAddress, NodeActivateMasterIp, NodeDeactivateMasterIp
from ganeti.model.node_calls.verify import NodeChecks, NodeVerify
from ganeti.model.objects import Cluster
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext, UndoChange, UndoNodeCall
from ganeti.ports.nodes import ask, ask_many


def taking(cluster: Cluster) -> NodeActivateMasterIp:
    return NodeActivateMasterIp(master=_address(cluster), use_external_mip_script=cluster.use_external_mip_script)


def _giving_up(cluster: Cluster) -> NodeDeactivateMasterIp:
    script = cluster.use_external_mip_script
    return NodeDeactivateMasterIp(master=_address(cluster), use_external_mip_script=script, on_purpose=True)


def _address(cluster: Cluster) -> MasterAddress:
    return MasterAddress(
        ip=cluster.master_ip,
        netdev=cluster.master_netdev,
        netmask=cluster.master_netmask,
        ip_family=cluster.primary_ip_family,
    )


async def faults_of_places(ctx: OperationContext, view: ConfigView, moved: Cluster) -> list[str]:
    """Say why master candidates could not carry the cluster's address as *moved* has it.

    One that does not answer counts for nothing; where a script takes the address, it alone knows where that goes.
    """
    if moved.use_external_mip_script:
        return []
    address = _address(moved)
    nodes = [node.uuid for node in view.nodes() if node.master_candidate and not node.offline]
    answers = await ask_many(ctx.nodes, nodes, NodeVerify(checks=NodeChecks(master_address=address)))
    return [
        f"Node {view.node(each.node_uuid).name} cannot carry the cluster's address {address.ip}/{address.netmask} on "
        f"{address.netdev}: {each.value.master_address}"
        for each in answers
        if each.error is None and each.value.master_address
    ]


async def without_script(ctx: OperationContext, view: ConfigView) -> list[str]:
    """Say which master candidates lack the script that moves the address; one that does not answer counts for nothing.

    An address that a script has to take is lost while the script is missing.
    """
    nodes = [node.uuid for node in view.nodes() if node.master_candidate and not node.offline]
    answers = await ask_many(ctx.nodes, nodes, NodeVerify(checks=NodeChecks(user_scripts=[MASTER_IP_SCRIPT])))
    found = [view.node(each.node_uuid).name for each in answers if each.error is None and each.value.user_scripts]
    if not found:
        return []
    where = f"There is no program {MASTER_IP_SCRIPT} on {', '.join(sorted(found))}"
    return [f"{where}: put it there, or the cluster's address cannot be taken"]


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
        await ask(ctx.nodes, cluster.master_node, taking(cluster))
    else:
        await ask(ctx.nodes, cluster.master_node, _giving_up(cluster))


async def move_master_address(ctx: OperationContext, moved: Cluster, change: Change, back: Change) -> None:
    """Commit *change*, which makes the cluster's address that of *moved*, and take the new address.

    Where the master cannot take it, *back* is committed and the old address taken again.
    """
    old = ctx.config.view().cluster
    node, name = old.master_node, ctx.config.view().node(old.master_node).name
    again = UndoNodeCall.of(f"take {old.master_ip} on {name} again", node, taking(old))
    await ctx.undo.push(again)
    await change_master_address(ctx, up=False)
    await ctx.undo.push(
        UndoChange("give the cluster its old address again", back),
        UndoNodeCall.of(f"give up {moved.master_ip} on {name}", node, _giving_up(moved)),
    )
    await ctx.config.commit(change)
    await change_master_address(ctx, up=True)
