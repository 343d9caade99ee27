# SPDX-License-Identifier: BSD-2-Clause
"""Asking an allocator from a job: the built-in one in LuxiD, others as programs on the master (S5.37)."""

from typing import Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, ParameterError, PrerequisiteError
from ganeti.model.node_calls.programs import IallocatorRunner
from ganeti.model.placement_requests import NodeEvacuate, PlacementRequest, to_protocol
from ganeti.ports.context import OperationContext
from ganeti.ports.luxid import AnswerPlacement, DescribeForAllocator, Placement
from ganeti.ports.nodes import ask
from ganeti.wire.iallocator import decode_response, encode_message

BUILT_IN = "hail"
"""The allocator that is part of LuxiD, wherever a program of that name may be."""
_SHOWN_CHARACTERS = 200
_Plain = dict[str, Any]
_NONE: _Plain = {}


async def ask_allocator(
    ctx: OperationContext, name: str, request: PlacementRequest, *, reserve: bool = True, why: bool = False
) -> tuple[Placement, int | None]:
    """Ask the allocator *name* for a place; gives its answer, whether it is a success or not.

    The built-in one has reserved what it chose if *reserve* is true. With the answer of a program comes the serial
    number of the reservations it was told of: what it chose is still to be reserved. Raises `PrerequisiteError`.
    """
    if name == BUILT_IN:
        return await ctx.luxid.ask(AnswerPlacement(request, ctx.client if reserve else None, why)), None
    serial, message = await describe(ctx, request)
    forced = isinstance(request, NodeEvacuate) and request.ignore_soft_errors
    answer = await run_allocator(ctx, name, message, {"ignore-soft-errors": None} if forced else {})
    try:
        response = decode_response(answer.encode())
    except ParameterError as err:
        raise PrerequisiteError(
            f"The iallocator '{name}' gave an answer that breaks the protocol: {err}{_beginning(answer)}"
        ) from err
    return Placement(response.success, response.info, response.result), serial


async def describe(ctx: OperationContext, request: PlacementRequest) -> tuple[int, _Plain]:
    """Give the serial number of the reservations, and the whole input of an allocator with *request*."""
    found = await ctx.luxid.ask(DescribeForAllocator(request))
    return found.serial, found.input | {"request": to_protocol(request)}


async def run_allocator(ctx: OperationContext, name: str, message: _Plain, more: _Plain = _NONE) -> str:
    """Run an allocator that is a program, with *more* options; gives what it printed. Raises `PrerequisiteError`."""
    cluster = ctx.config.view().cluster
    try:
        answer: str = await ask(
            ctx.nodes,
            cluster.master_node,
            IallocatorRunner(
                name=name,
                idata=encode_message(message).decode(),
                default_iallocator_params={**cluster.default_iallocator_params, **more},
            ),
        )
    except GanetiError as err:
        raise PrerequisiteError(f"The iallocator '{name}' could not be run: {err}", WRONG_INPUT) from err
    return answer


def _beginning(answer: str) -> str:
    if not answer.strip():
        return "; it printed nothing"
    return f"; it printed: {answer.strip()[:_SHOWN_CHARACTERS]}{'…' if len(answer.strip()) > _SHOWN_CHARACTERS else ''}"
