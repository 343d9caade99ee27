# SPDX-License-Identifier: BSD-2-Clause
"""Answers of allocators that speak of several instances, held against what was asked (protocols, 7). Pure.

An allocator may be anybody's program: what it leaves out must not pass as done, nor what it adds be done.
"""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from ganeti.base.errors import ParameterError, PrerequisiteError
from ganeti.master.operation import decode
from ganeti.model.view import ConfigView

Plain = dict[str, Any]
_MOVING = ("OP_INSTANCE_FAILOVER", "OP_INSTANCE_MIGRATE", "OP_INSTANCE_REPLACE_DISKS")


def places_of(result: Any, asked: Collection[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Read the answer to ``multi-allocate``: the nodes of those placed, and the reasons given for others, by name.

    Raises `ParameterError`.
    """
    try:
        placed, failed = msgspec.convert(result, tuple[list[tuple[str, list[str]]], list[Any]])
    except msgspec.ValidationError as err:
        raise ParameterError(str(err)) from err
    reasons = {str(each[0]): str(each[1]) for each in failed if isinstance(each, list) and len(each) > 1}
    unplaced = {*reasons, *(each for each in failed if isinstance(each, str))}
    nodes: dict[str, list[str]] = {}
    for name, chosen in placed:
        if name not in asked:
            raise ParameterError(f"it places {name}, which was not asked for")
        if name in nodes:
            raise ParameterError(f"it places {name} twice")
        if name in unplaced:
            raise ParameterError(f"it places {name}, and says that it cannot be placed")
        nodes[name] = chosen
    return nodes, reasons


def check_moves(
    view: ConfigView, asked: Sequence[str], failed: Collection[str], jobs: Sequence[Sequence[Plain]]
) -> None:
    """Raise `ParameterError` unless each instance that was *asked* about moves or has *failed*, and nothing else moves.

    What is not in *jobs* would stay where it is, and the user would be told that it had left.
    """
    moving = {_moved(view, asked, opcode) for job in jobs for opcode in job}
    if not all(jobs):
        raise ParameterError("one of its jobs is empty")
    if forgotten := [name for name in asked if name not in moving and name not in failed]:
        raise ParameterError(f"it neither moves {', '.join(forgotten)} nor says why not")


def _moved(view: ConfigView, asked: Collection[str], opcode: Plain) -> str:
    """The name of the instance that *opcode* moves."""
    if opcode.get("OP_ID") not in _MOVING:
        raise ParameterError(f"a job of it has the opcode {opcode.get('OP_ID')}: it may have {', '.join(_MOVING)}")
    try:
        decode(opcode)
        name = view.find_instance(opcode.get("instance_uuid") or opcode["instance_name"]).name
    except PrerequisiteError as err:
        raise ParameterError(str(err)) from err
    if name not in asked:
        raise ParameterError(f"it moves {name}, which was not asked for")
    return name
