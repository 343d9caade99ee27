# SPDX-License-Identifier: BSD-2-Clause
"""Waiting until a node that nobody reaches has ended a guest whose disks were taken from it."""

from ganeti.base.errors import ExecutionError
from ganeti.model.node_calls.disks import InstanceDisksInUse
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask

_STEP_S = 1.0
_MARGIN_S = 45.0
"""The guest takes a moment to end, and a server of NFS keeps the locks of a node that lost its power for 90 seconds."""


async def wait_for_its_end(ctx: OperationContext, spec: InstanceSpec, lost_node: str) -> None:
    """Return once no guest has the disks of *spec* open any more, or where none would ever be ended.

    *spec* is on its new primary node, which has taken the disks. Raises `ExecutionError` when the time is over: the
    disks stay taken, so that the other node still ends its guest when it can.
    """
    begun_s = ctx.clock.now_s()
    told = False
    while uses := await ask(ctx.nodes, spec.primary_node_uuid, InstanceDisksInUse(instance=spec)):
        limit_s = max(use.ends_within_s for use in uses)
        if not limit_s:
            return
        waited_s = ctx.clock.now_s() - begun_s
        if waited_s > limit_s + _MARGIN_S:
            raise ExecutionError(
                f"{spec.name} still runs on {lost_node}, which has {uses[0].path} open after {waited_s:.0f} s: power "
                f"that node off (gnt-node power off {lost_node}), then start the instance"
            )
        if not told:
            ctx.log.info(f"* {spec.name} still runs on {lost_node}: that node ends it within {limit_s} s")
            told = True
        ctx.log.progress(f"waiting for {lost_node} to end {spec.name}", waited_s, limit_s)
        await ctx.clock.sleep(_STEP_S)
