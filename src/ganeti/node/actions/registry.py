# SPDX-License-Identifier: BSD-2-Clause
"""Who answers node calls (D1, D8): each call is a struct of `ganeti.model.node_calls`, and has one handler.

    @answers(StorageList, timeout_s=URGENT_S, changes=False)
    async def storage_list(node: NodeState, asked: StorageList) -> list[StorageUnitState]:

The daemon decodes a request strictly against the struct.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from ganeti.base.errors import REFUSED_AT_THE_DOOR, ParameterError
from ganeti.base.names import file_name_fault, shown
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_requests import InstanceSpec

URGENT_S = 60.0
FAST_S = 300.0
NORMAL_S = 900.0
SLOW_S = 3600.0
DAY_S = 86400.0

Handler = Callable[..., Awaitable[Any]]
HandlerT = TypeVar("HandlerT", bound=Handler)


@dataclass(frozen=True)
class NodeCall:
    """One declared call."""

    name: str
    handler: Handler
    """As declared; `run` calls it."""
    timeout_s: float
    changes: bool
    """Whether it changes the node: then it is refused from a superseded epoch or attempt, and answered by number."""
    request: type[NodeRequest[Any]]
    takes_slot: bool = True
    """Whether it waits while the node carries out as many calls as it may (those that end others do not)."""

    async def run(self, node: Any, arguments: dict[str, Any]) -> Any:
        """Carry it out with what `decode` has read."""
        return await self.handler(node, self.request(**arguments))

    def decode(self, data: Any) -> dict[str, Any]:
        """Check the arguments of a request; raises `ParameterError` saying what is wrong.

        The name of an instance is that of files in several directories: here it is made sure that it is no path.
        """
        try:
            struct = msgspec.convert(data, self.request)
        except msgspec.ValidationError as err:
            raise ParameterError(f"Node call {self.name}: {err}") from err
        values = msgspec.structs.asdict(struct)
        for value in values.values():
            if isinstance(value, InstanceSpec) and (fault := file_name_fault(value.name)) is not None:
                raise ParameterError(
                    f"'{shown(value.name)}' cannot be the name of an instance, it must be a host name: {fault}",
                    REFUSED_AT_THE_DOOR,
                )
        return values


REGISTRY: dict[str, NodeCall] = {}


def answers(
    request: type[NodeRequest[Any]], *, timeout_s: float = NORMAL_S, changes: bool = True, takes_slot: bool = True
) -> Callable[[HandlerT], HandlerT]:
    """Register the handler of a call."""

    def register(handler: HandlerT) -> HandlerT:
        REGISTRY[request.call] = NodeCall(request.call, handler, timeout_s, changes, request, takes_slot)
        return handler

    return register
