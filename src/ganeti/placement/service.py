# SPDX-License-Identifier: BSD-2-Clause
"""The iallocator protocol answered in process: dictionary in, dictionary out (spec: protocols, 7; htools, 10)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ganeti.placement.dispatch import place
from ganeti.placement.request.capacity import Capacities
from ganeti.placement.request.reading import STATIC_NODE_MEMORY_MIB, read_cluster, read_request
from ganeti.placement.request.terms import (
    AllocateSecondary,
    Answer,
    Moves,
    MultiEvacuate,
    MultiPlacement,
    NodeRooms,
    NoFit,
    Options,
    Placement,
    Question,
)
from ganeti.placement.why.text import why_lines


def answer(
    message: Mapping[str, Any],
    *,
    options: Options | None = None,
    static_node_memory_mib: int = STATIC_NODE_MEMORY_MIB,
) -> dict[str, Any]:
    """Answer a version 2 *message*: ``success``, ``info``, ``result``. Raises `RequestError` for an unreadable one."""
    response, _ = answer_with_reasons(message, options=options, static_node_memory_mib=static_node_memory_mib)
    return response


def answer_with_reasons(
    message: Mapping[str, Any],
    *,
    options: Options | None = None,
    static_node_memory_mib: int = STATIC_NODE_MEMORY_MIB,
) -> tuple[dict[str, Any], list[str]]:
    """The same with a line for each node that was not chosen, where one instance was placed."""
    cluster = read_cluster(message, static_node_memory_mib=static_node_memory_mib)
    request = read_request(message.get("request"))
    return response_to(request, place(cluster, request, options=options))


def response_to(request: Question, found: Answer) -> tuple[dict[str, Any], list[str]]:
    """The response dictionary for what was found for *request*, and lines that say why the other nodes were not.

    Of capacity, a line for each node group that has no room.
    """
    reasons = why_lines(found) if isinstance(found, Placement | NoFit) else []
    if isinstance(found, Capacities):
        reasons = found.reasons
    response = response_of(found)
    if isinstance(request, AllocateSecondary) and isinstance(found, Placement):
        response["result"] = found.nodes[0]
    if isinstance(request, MultiEvacuate) and isinstance(found, Moves):
        response["result"] = [[name, nodes[1]] for name, _, nodes in found.moved]
    return response, reasons


def response_of(found: Answer) -> dict[str, Any]:
    """The response dictionary for an answer; the order of the keys is that of 3.1."""
    if isinstance(found, NoFit):
        return {"success": False, "info": f"Request failed: {found.info}", "result": []}
    info = "Request successful" if isinstance(found, NodeRooms) else f"Request successful: {found.info}"
    return {"success": True, "info": info, "result": _result(found)}


def _result(found: Placement | MultiPlacement | Moves | Capacities | NodeRooms) -> list[Any] | dict[str, Any]:
    if isinstance(found, Capacities):
        return found.plain()
    if isinstance(found, NodeRooms):
        return [msgspec.to_builtins(room) for room in found.rooms]
    if isinstance(found, Placement):
        return list(found.nodes)
    if isinstance(found, MultiPlacement):
        return [[[name, list(nodes)] for name, nodes in found.placed], [list(pair) for pair in found.failed]]
    moved = [[name, group, list(nodes)] for name, group, nodes in found.moved]
    return [moved, [list(pair) for pair in found.failed], [list(job) for job in found.jobs]]
