# SPDX-License-Identifier: BSD-2-Clause
"""Node calls of a job: before the first that changes something, its file says everywhere that it has begun."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ganeti.base.paths import Paths
from ganeti.calls.node_client import NodeClient
from ganeti.model.view import ConfigView
from ganeti.node.actions.registry import REGISTRY
from ganeti.ports.nodes import NodeAnswer


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

    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        """See `NodesPort.call`."""
        if _changes(call):
            await self._begin()
        return await super().call(node_uuid, call, deadline_s=deadline_s, **arguments)

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        """See `NodesPort.call_many`; its failure to begin is no node's failure."""
        if _changes(call):
            await self._begin()
        return await super().call_many(node_uuids, call, deadline_s=deadline_s, **arguments)


def _changes(call: str) -> bool:
    declared = REGISTRY.get(call)
    return declared is None or declared.changes
