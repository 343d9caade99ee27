# SPDX-License-Identifier: BSD-2-Clause
"""Calls to node daemons, by name: declared in `model/node_calls/`.

A test checks every call made from `master/` against the handlers' signatures.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from ganeti.base.errors import GanetiError, NodeCallError
from ganeti.model.node_calls import Answer, NodeRequest


@dataclass(frozen=True)
class NodeAnswer:
    """One node's answer among many: either a value or an error."""

    node_uuid: str
    value: Any = None
    error: GanetiError | None = None


async def ask(
    nodes: "NodesPort", node_uuid: str, request: NodeRequest[Answer], *, deadline_s: float | None = None
) -> Answer:
    """Ask one node by a typed call; raises as `NodesPort.call`, `NodeCallError` for an answer of another form."""
    return read_answer(request, await nodes.call(node_uuid, request.call, deadline_s=deadline_s, **request.arguments()))


async def ask_many(
    nodes: "NodesPort", node_uuids: Iterable[str], request: NodeRequest[Answer], *, deadline_s: float | None = None
) -> list[NodeAnswer]:
    """Ask several at once; answers in the order asked, their values typed, errors as values."""
    given = await nodes.call_many(node_uuids, request.call, deadline_s=deadline_s, **request.arguments())
    return [_typed(request, answer) for answer in given]


def _typed(request: NodeRequest[Any], answer: NodeAnswer) -> NodeAnswer:
    if answer.error is not None:
        return answer
    try:
        return replace(answer, value=read_answer(request, answer.value))
    except NodeCallError as err:
        return NodeAnswer(answer.node_uuid, error=err)


def read_answer(request: NodeRequest[Answer], value: Any) -> Answer:
    """Type what a node has answered; raises `NodeCallError` where it is of another form."""
    try:
        answer = request.read(value)
        request.compare(answer)
        return answer
    except msgspec.ValidationError as err:
        raise NodeCallError(f"The answer to {request.call} has not its form: {err}") from err


class NodesPort(Protocol):
    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        """Call one node and give the plain answer, within *deadline_s* (default: the call's declared time).

        Raises `NodeUnreachableError`, `NodeTimeoutError` (both: it may have happened), or the error the node
        gave, whose message names the node. Offline nodes are never called: `NodeUnreachableError` at once.
        Structs (`InstanceSpec`, …) may be passed as they are.
        """
        ...

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        """Call several nodes at once; answers in the order asked, errors as values."""
        ...
