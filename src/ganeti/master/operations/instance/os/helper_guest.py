# SPDX-License-Identifier: BSD-2-Clause
"""A helper guest does something to the disks of a stopped instance, in its place, and powers itself off (3.1).

What it does is the business of its image. That it has ended by itself in time is all that is known of its success.
"""

from ganeti.base.errors import ExecutionError
from ganeti.model.node_calls.images import HelperEnd, HelperStart
from ganeti.model.node_calls.instances import InstanceInfo
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

START_WITHIN_S = 10 * 60.0
"""How long it may take until the guest runs: the image may have to come from elsewhere."""
_ENDED = (None, "shutdown")
_POLL_S = 1.0


async def run_helper(
    ctx: OperationContext,
    spec: InstanceSpec,
    image: str,
    *,
    communicates: bool = False,
    start_within_s: float | None = None,
    end_within_s: float,
) -> None:
    """Run *image* until it has powered itself off; the disks are open, and stay so. Raises `ExecutionError`.

    With *communicates* it has the instance's NIC for communication, and can read the instance's metadata.
    """
    node = spec.primary_node_uuid
    sentence = f"end the helper guest of {spec.name} on {spec.primary_node}"
    await ctx.undo.push(UndoNodeCall.of(sentence, node, HelperEnd(instance=spec)))
    request = HelperStart(instance=spec, image=image, communicates=communicates)
    await ask(ctx.nodes, node, request, deadline_s=START_WITHIN_S if start_within_s is None else start_within_s)
    began_s = ctx.clock.now_s()
    while await _state(ctx, spec) not in _ENDED:
        passed_s = ctx.clock.now_s() - began_s
        if passed_s >= end_within_s:
            await ask(ctx.nodes, node, HelperEnd(instance=spec))
            raise ExecutionError(
                f"The helper guest of {spec.name} has not ended within {end_within_s:g} seconds and was stopped: give "
                f"it more time, or see what image {image} says on its console"
            )
        ctx.log.progress(f"helper guest of {spec.name}", min(passed_s, end_within_s - 1), end_within_s)
        await ctx.clock.sleep(_POLL_S)
    await ask(ctx.nodes, node, HelperEnd(instance=spec))


async def _state(ctx: OperationContext, spec: InstanceSpec) -> str | None:
    found = await ask(ctx.nodes, spec.primary_node_uuid, InstanceInfo(instance=spec))
    return None if found is None else found.state
