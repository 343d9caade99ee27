# SPDX-License-Identifier: BSD-2-Clause
"""Asks the allocator what a round needs to know, and plans it: for the daemon, and for `gnt-cluster maintenance`."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from ganeti.base.errors import ExecutionError
from ganeti.master.maintenance.rounds import Answers, balance_question, plan_round, room_question
from ganeti.master.maintenance.task import Round
from ganeti.model.placement_requests import NodeRoom, PlacementRequest
from ganeti.model.view import ConfigView
from ganeti.ports.luxid import Placement

Place = Callable[[PlacementRequest], Awaitable[Placement]]


async def next_round(
    view: Callable[[], ConfigView], place: Place, load: Mapping[str, float] | None, now_s: float
) -> Round:
    """What would be submitted now. Raises `GanetiError` where the allocator does not answer."""
    rooms: list[NodeRoom] = []
    balance: list[NodeRoom] = []
    if (room := room_question(view())) is not None:
        rooms = await _ask(place, room)
    if (question := balance_question(view(), load, now_s)) is not None:
        balance = await _ask(place, question)
    return plan_round(view(), Answers({each.node: each for each in rooms}, balance), now_s)


async def _ask(place: Place, request: PlacementRequest) -> list[NodeRoom]:
    answer = await place(request)
    if not answer.success:
        raise ExecutionError(f"The allocator cannot say where instances may go: {answer.info}")
    return msgspec.convert(answer.result, list[NodeRoom])
