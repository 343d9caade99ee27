# SPDX-License-Identifier: BSD-2-Clause
"""Who answers node calls (D1, D8): each call is a struct of `ganeti.model.node_calls`, and has one handler.

    @answers(StorageList)
    async def storage_list(node: NodeState, asked: StorageList) -> list[StorageUnitState]:

The daemon decodes a request strictly against the struct, which also says how long it may take and whether it changes
the node: clients need that, too, and none of them imports the handlers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from ganeti.base.errors import REFUSED_AT_THE_DOOR, ParameterError
from ganeti.base.names import file_name_fault, shown
from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_requests import InstanceSpec

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
    request: type[NodeRequest[Any]]
    takes_slot: bool

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


def answers(request: type[NodeRequest[Any]]) -> Callable[[HandlerT], HandlerT]:
    """Register the handler of a call."""

    def register(handler: HandlerT) -> HandlerT:
        call = NodeCall(
            request.call,
            handler,
            request.answer_within_s,
            request.changes_node,
            request,
            request.takes_slot,
        )
        REGISTRY[request.call] = call
        return handler

    return register
