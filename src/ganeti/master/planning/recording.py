# SPDX-License-Identifier: BSD-2-Clause
"""The world of an operation that is planned: it acts on a draft, and what it would ask of nodes is written down. Pure.

Nodes are called only for what they are to tell. Other answers are made up: nothing, true, or what is empty, as the type
of the answer allows. Where an operation needs more than that, it fails, and the plan says that what follows depends on
the answers of nodes.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ganeti.base.errors import GanetiError, NodeCallError
from ganeti.model.configuration import Draft
from ganeti.model.copies import Copies
from ganeti.model.node_calls import NodeRequest
from ganeti.model.reservations import Reservation, Reservations
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import NodeAnswer, NodesPort

_SLEEPS_MAX: Final = 200
_SIMPLE: Final[tuple[Any, ...]] = (None, True, [], {}, "", 0)


class BeyondPlan(GanetiError):
    """What comes next depends on what nodes would answer."""


class RecordedConfig:
    """Implements `ConfigPort`: changes are applied to a draft that later steps see."""

    def __init__(self, ctx: OperationContext) -> None:
        self._ctx = ctx
        self.base: ConfigView = ctx.config.view()
        self.draft = Draft(self.base, ctx.clock.now_s())

    def view(self) -> ConfigView:
        return self.draft

    async def commit(self, change: Change, *, settles: bool = False) -> Any:
        return msgspec.to_builtins(change.apply(self.draft))

    async def flush(self, group: str | None = None) -> None:
        """There is nothing to send."""

    async def copies(self) -> Copies:
        return await self._ctx.config.copies()


class RecordedNodes:
    """Implements `NodesPort`; *calls* are (node uuid, call), in their order."""

    def __init__(self, nodes: NodesPort) -> None:
        self._nodes = nodes
        self.calls: list[tuple[str, str]] = []
        self._requests = {request.call: request for request in _requests(NodeRequest)}

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        if self._requests[call].asked_by_plans:
            return await self._nodes.call(node_uuid, call, deadline_s=deadline_s, **arguments)
        self.calls.append((node_uuid, call))
        return self._made_up(call)

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        uuids = list(node_uuids)
        if self._requests[call].asked_by_plans:
            return await self._nodes.call_many(uuids, call, deadline_s=deadline_s, **arguments)
        self.calls += [(uuid, call) for uuid in uuids]
        return [NodeAnswer(uuid, self._made_up(call)) for uuid in uuids]

    def _made_up(self, call: str) -> Any:
        for value in _SIMPLE:
            try:
                msgspec.convert(value, self._requests[call].answer)
            except msgspec.ValidationError:
                continue
            return value
        raise NodeCallError(f"What nodes answer to {call} cannot be known beforehand")


class PassingClock:
    """Implements `ClockPort`: waiting takes no time, and time has passed."""

    def __init__(self, now_s: float) -> None:
        self._now_s = now_s
        self._sleeps = 0

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        self._now_s += seconds
        self._sleeps += 1
        if self._sleeps > _SLEEPS_MAX:
            raise BeyondPlan("The operation waits for what only nodes can tell")


class RecordedLog:
    """Implements `JobLogPort`; *lines* are kept for the plan."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)

    def warning(self, text: str) -> None:
        self.lines.append(text)

    def progress(self, text: str, done: float, total: float) -> None:
        """No step takes time."""

    def step_told(self) -> None:
        """As `progress`."""


class _Nothing:
    """Stands for the ports of undo and locks: nothing has to be undone, and locks are given up with the plan."""

    async def push(self, *records: Any) -> None: ...

    async def release(self, locks: list[str]) -> None: ...

    async def downgrade(self, level: str) -> None: ...


class _UnreservedRoom:
    def __init__(self, ctx: OperationContext) -> None:
        self._ctx = ctx

    async def current(self) -> Reservations:
        return await self._ctx.reservations.current()

    async def reserve(self, reservations: Iterable[Reservation], seen: int) -> str | None:
        return None


class RecordingContext:
    """Implements `OperationContext` over that of the planning job; what only reads is asked there."""

    def __init__(self, ctx: OperationContext) -> None:
        self._ctx = ctx
        self.config = RecordedConfig(ctx)
        self.nodes = RecordedNodes(ctx.nodes)
        self.clock = PassingClock(ctx.clock.now_s())
        self.log = RecordedLog()
        self.undo = self.locks = _Nothing()
        self.reservations = _UnreservedRoom(ctx)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def _requests(base: type[NodeRequest[Any]]) -> Iterable[type[NodeRequest[Any]]]:
    for each in base.__subclasses__():
        yield each
        yield from _requests(each)
