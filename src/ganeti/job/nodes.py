# SPDX-License-Identifier: BSD-2-Clause
"""Node calls of a job: before the first that changes something, its file says everywhere that it has begun."""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.calls.node_client import PLACE, NodeClient
from ganeti.model.node_calls import NodeRequest
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodeAnswer
from ganeti.wire.traceparent import Place

NOTES_MAX: Final = 1000


class NodeCallNote(NamedTuple):
    """One call to a node; times are nanoseconds since the epoch."""

    call: str
    node: str
    begun_ns: int
    ended_ns: int
    fault: str | None
    place: Place


class JobNodes(NodeClient):
    """*begin* is waited for before each call that is not declared to be a reading one."""

    def __init__(
        self,
        begin: Callable[[], Awaitable[None]],
        paths: Paths,
        view: Callable[[], ConfigView],
        job: int,
        attempt: int,
        next_step: Callable[[], int],
    ) -> None:
        super().__init__(paths, view, job, attempt, next_step)
        self._begin = begin
        self.notes: list[NodeCallNote] = []
        """Of the first calls, where they are traced."""
        self._trace: Place | None = None

    def trace(self, job: Place) -> None:
        """Note the calls from now on, below the job's place in its trace; the nodes are told each one's place."""
        self._trace = job

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        """See `NodesPort.call`."""
        if _changes(call):
            await self._begin()
        if self._trace is None or len(self.notes) >= NOTES_MAX:
            return await super().call(node_uuid, call, deadline_s=deadline_s, **arguments)
        begun_ns, fault = time.time_ns(), None
        place = self._trace.below("call", call, node_uuid, begun_ns)
        token = PLACE.set(place)
        try:
            return await super().call(node_uuid, call, deadline_s=deadline_s, **arguments)
        except GanetiError as err:
            fault = type(err).__name__
            raise
        finally:
            PLACE.reset(token)
            name = self._view().node(node_uuid).name
            self.notes.append(NodeCallNote(call, name, begun_ns, time.time_ns(), fault, place))

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        """See `NodesPort.call_many`; its failure to begin is no node's failure."""
        if _changes(call):
            await self._begin()
        return await super().call_many(node_uuids, call, deadline_s=deadline_s, **arguments)


def _changes(call: str) -> bool:
    declared = NodeRequest.registry.get(call)
    return declared is None or declared.changes_node
