# SPDX-License-Identifier: BSD-2-Clause
"""What exports and imports have in common: their compression, the way back, ending what takes long."""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from ganeti.base.errors import ENVIRONMENT_ERROR, WRONG_INPUT, PrerequisiteError
from ganeti.base.names import shown
from ganeti.model.node_calls.disk_copy import CompressionFault
from ganeti.model.node_calls.exports import ExportDiscard
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext, UndoNodeCall
from ganeti.ports.nodes import ask_many

NO_COMPRESSION = "none"
_ASK_EVERY_S = 1.0
T = TypeVar("T")


def check_compression(view: ConfigView, tool: str) -> None:
    """Raises `PrerequisiteError` for what the cluster's list of tools has not."""
    if tool not in (known := (NO_COMPRESSION, *view.cluster.compression_tools)):
        raise PrerequisiteError(
            f"Compression '{shown(tool)}' is not enabled in the cluster: use one of {', '.join(known)}, or add it with "
            "gnt-cluster modify --compression-tools",
            WRONG_INPUT,
        )


async def require_compression(ctx: OperationContext, view: ConfigView, tool: str, nodes: Iterable[str]) -> None:
    """Raises `PrerequisiteError` unless the cluster has *tool* and all *nodes* (by uuid) can run it."""
    check_compression(view, tool)
    if tool == NO_COMPRESSION:
        return
    for answer in await ask_many(ctx.nodes, dict.fromkeys(nodes), CompressionFault(tool=tool)):
        if answer.error is not None:
            raise answer.error
        if answer.value:
            raise PrerequisiteError(
                f"Compression {tool} cannot be used on node {view.node(answer.node_uuid).name}: {answer.value}",
                ENVIRONMENT_ERROR,
            )


def discarding(name: str, node_uuid: str, node_name: str) -> UndoNodeCall:
    """What removes an export, or an import, that has not come to its end."""
    sentence = f"remove the unfinished dumps of {name} from {node_name}"
    return UndoNodeCall.of(sentence, node_uuid, ExportDiscard(name=name))


async def until_cancelled(ctx: OperationContext, call: Awaitable[T]) -> T:
    """The answer of a long call of a node, which ends where somebody cancels the job (raises `JobCanceled`)."""
    asked = asyncio.ensure_future(call)
    ended = asyncio.gather(asked, return_exceptions=True)
    try:
        while not ended.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(ended), _ASK_EVERY_S)
                break
            ctx.stop_if_cancelled()
        return await asked
    finally:
        asked.cancel()
