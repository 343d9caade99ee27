# SPDX-License-Identifier: BSD-2-Clause
"""What a script of an OS says, line by line in the job's log while it runs; one that talks on is cut off there."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ganeti.base.errors import GanetiError
from ganeti.model.node_calls.instances import InstanceRunRename
from ganeti.model.node_calls.scripts import Said, ScriptEnd, ScriptOutput
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask

T = TypeVar("T")
POLL_S = 1.0
MOST_LINES = 500
_TOKEN_BYTES = 16


def new_token(ctx: OperationContext) -> str:
    """A name for the run of a script."""
    return ctx.entropy.token(_TOKEN_BYTES).hex()


async def followed(
    ctx: OperationContext,
    node_uuid: str,
    run: Callable[[str], Awaitable[T]],
    *,
    until_cancelled: bool = False,
    meanwhile: Callable[[str], Awaitable[None]] | None = None,
    what: str = "the script of the OS",
) -> T:
    """Do *run* with a token, the call of a script on a node, and tell what the script says meanwhile.

    *meanwhile* is done with the token, too, from time to time.

    With *until_cancelled*, `JobCanceled` is raised where somebody cancels the job. Then, and whatever else it fails by,
    the undo ends the script before what was done earlier is undone; *run* has to be a call that can be ended.
    """
    token = new_token(ctx)
    if until_cancelled:
        sentence = f"end {what} on {ctx.config.view().node(node_uuid).name}"
        await ctx.undo.push(UndoNodeCall.of(sentence, node_uuid, ScriptEnd(token=token)))
    follower = ScriptFollower(ctx, node_uuid, token)
    call = asyncio.ensure_future(run(token))
    ended = asyncio.gather(call, return_exceptions=True)
    try:
        while not ended.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ended), POLL_S)
                break
            if until_cancelled:
                ctx.stop_if_cancelled()
            await follower.tell()
            if meanwhile is not None:
                await meanwhile(token)
    finally:
        call.cancel()
    await follower.tell(is_over=True)
    return await call


async def tell_new_name(ctx: OperationContext, spec: InstanceSpec, old_name: str, debug: int) -> None:
    """Run the rename script of an instance's OS on its open disks; raises `GanetiError`."""
    await followed(
        ctx,
        spec.primary_node_uuid,
        lambda token: ask(
            ctx.nodes,
            spec.primary_node_uuid,
            InstanceRunRename(instance=spec, old_name=old_name, debug=debug, token=token),
        ),
    )


class ScriptFollower:
    """Tells the lines of one run of a script, named by its token."""

    def __init__(self, ctx: OperationContext, node_uuid: str, token: str) -> None:
        self._ctx = ctx
        self._node_uuid = node_uuid
        self._token = token
        self._offset = 0
        self._told = 0

    async def tell(self, *, is_over: bool = False) -> None:
        """Tell what is new. A node that cannot say it now is asked again; what is wrong with it, the call tells."""
        while self._told < MOST_LINES:
            request = ScriptOutput(token=self._token, offset=self._offset, is_over=is_over)
            try:
                said = await ask(self._ctx.nodes, self._node_uuid, request)
            except GanetiError:
                return
            if not said.lines and said.offset == self._offset:
                return
            self._offset = said.offset
            self._tell(said)

    def _tell(self, said: Said) -> None:
        for line in said.lines[: MOST_LINES - self._told]:
            self._ctx.log.info(f"  {line}")
        self._told += len(said.lines)
        if self._told >= MOST_LINES:
            name = self._ctx.config.view().node(self._node_uuid).name
            self._ctx.log.info(f"  … the rest of what the script says is in {said.log} on {name}")
