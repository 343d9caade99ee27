# SPDX-License-Identifier: BSD-2-Clause
"""Declaring node calls: the declaration is the handler's signature (D1, D8).

    @node_call(timeout_s=URGENT_S)
    async def node_info(node: NodeState, *, storage: list[StorageUnit], hypervisors: list[HypervisorQuery]) -> NodeInfo:

The arguments after *node* are keyword-only and typed; the daemon decodes a request strictly against them. A call that
has a struct of its own (`ganeti.model.node_calls`) takes that:

    @answers(StorageList, timeout_s=URGENT_S, changes=False)
    async def storage_list(node: NodeState, asked: StorageList) -> list[StorageUnitState]:
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

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
    arguments: type[msgspec.Struct]
    takes_slot: bool = True
    """Whether it waits while the node carries out as many calls as it may (those that end others do not)."""

    async def run(self, node: Any, arguments: dict[str, Any]) -> Any:
        """Carry it out with what `decode` has read."""
        if issubclass(self.arguments, NodeRequest):
            return await self.handler(node, self.arguments(**arguments))
        return await self.handler(node, **arguments)

    def decode(self, data: Any) -> dict[str, Any]:
        """Check the arguments of a request; raises `ParameterError` saying what is wrong.

        The name of an instance is that of files in several directories: here it is made sure that it is no path.
        """
        try:
            struct = msgspec.convert(data, self.arguments)
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
    """Register the handler of a call that has a struct of its own."""

    def register(handler: HandlerT) -> HandlerT:
        REGISTRY[request.call] = NodeCall(request.call, handler, timeout_s, changes, request, takes_slot)
        return handler

    return register


def node_call(
    *, timeout_s: float = NORMAL_S, changes: bool = True, takes_slot: bool = True
) -> Callable[[HandlerT], HandlerT]:
    """Register *handler* under its own name."""

    def register(handler: HandlerT) -> HandlerT:
        name = handler.__name__
        hints = get_type_hints(handler)
        fields: list[Any] = []
        for parameter in list(inspect.signature(handler).parameters.values())[1:]:
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                raise TypeError(f"node call {name}: argument {parameter.name} must be keyword-only")
            if parameter.default is inspect.Parameter.empty:
                fields.append((parameter.name, hints[parameter.name]))
            else:
                fields.append((parameter.name, hints[parameter.name], parameter.default))
        arguments = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
        REGISTRY[name] = NodeCall(name, handler, timeout_s, changes, arguments, takes_slot)
        return handler

    return register
