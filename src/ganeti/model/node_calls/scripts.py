# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about scripts of an OS that run."""

import msgspec

from ganeti.model.node_calls import FAST_S, NodeRequest


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a script, and where the next ones begin in its log."""

    lines: list[str]
    offset: int
    log: str = ""
    """Path of the log, where there is one yet."""


class ScriptEnd(NodeRequest[None], frozen=True, kw_only=True):
    """End the run that was begun with *token*, and wait for that; one that has not begun never will."""

    answer_within_s = FAST_S
    takes_slot = False
    token: str


class ScriptOutput(NodeRequest[Said], frozen=True, kw_only=True):
    """What the run that was begun with *token* has said after *offset*; with *is_over*, a last line without end too."""

    answer_within_s = FAST_S
    changes_node = False
    token: str
    offset: int
    is_over: bool = False
