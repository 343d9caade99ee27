# SPDX-License-Identifier: BSD-2-Clause
"""A MonD's report of the self-diagnose collector, as MaintD reads it: what is not signed by the cluster's
key, not of now or not of this node is refused (S4.14), and so is an object that breaks the contract of S4.5-S4.8.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from ganeti.base.clocks import CLOCK_SKEW_S
from ganeti.base.errors import UNREADABLE_JSON
from ganeti.model.data_collectors import is_command
from ganeti.wire.confd import is_signed

PATH = "/1/report/node/diagnose"
UNREADABLE, UNSIGNED, OUTDATED, MISPLACED, BROKEN = REFUSALS = ("unreadable", "signature", "time", "node", "object")
OK, LIVE_REPAIR, EVACUATE, EVACUATE_FAILOVER = "Ok", "live-repair", "evacuate", "evacuate-failover"
STATUSES = (OK, LIVE_REPAIR, EVACUATE, EVACUATE_FAILOVER)
LARGEST_NUMBER = 2**63 - 1


@dataclass(frozen=True)
class DiagnoseReport:
    """The object, and when (seconds since the epoch) it was made."""

    original: dict[str, Any]
    time_s: float


class RefusedReport(Exception):
    """*kind* is one of `REFUSALS`; the message completes "the report of node1 is refused: it …"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read_report(body: bytes, node: str, key: bytes, now_s: float, *, oldest_s: float = CLOCK_SKEW_S) -> DiagnoseReport:
    """Read the report of *node* (name). Raises `RefusedReport`.

    The object is checked here once more: it may come from a node with another release.
    """
    match read_signed(body, key):
        case {"node": str(name), "time": float() | int() as time_s, "diagnose": dict(original)}:
            if name != node:
                raise RefusedReport(MISPLACED, f"is that of {name}")
            if not -CLOCK_SKEW_S <= now_s - time_s <= oldest_s:
                raise RefusedReport(OUTDATED, f"is of {now_s - time_s:.0f} seconds ago: are the clocks right?")
            if fault := fault_of_object(original):
                raise RefusedReport(BROKEN, f"says what nobody knows: {fault}")
            return DiagnoseReport(original, float(time_s))
    raise RefusedReport(UNREADABLE, "does not say what a report says")


def read_signed(body: bytes, key: bytes) -> Any:
    """What a message with a signature of the cluster's key says. Raises `RefusedReport`."""
    try:
        match json.loads(body):
            case {"signed": {"msg": str(message), "salt": str(salt), "hmac": str(found)}}:
                if not is_signed(found, message, salt, key):
                    raise RefusedReport(UNSIGNED, "is not signed with the key of the cluster")
                return json.loads(message)
            case _:
                raise RefusedReport(UNSIGNED, "has no signature")
    except (ValueError, RecursionError):
        raise RefusedReport(UNREADABLE, "is no JSON") from None


def read_object(printed: bytes) -> dict[str, Any]:
    """The one JSON object that a diagnose command has printed; raises `RefusedReport`, whose message is the reason."""
    try:
        found = json.loads(printed.decode(), object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except _RepeatedKeyError as err:
        raise RefusedReport(BROKEN, f"the key {err} stands twice in what the command prints") from None
    except UNREADABLE_JSON:
        raise RefusedReport(BROKEN, "what the command prints is no JSON, or more than one object") from None
    if not isinstance(found, dict):
        raise RefusedReport(BROKEN, "what the command prints is no JSON object")
    if fault := fault_of_object(found):
        raise RefusedReport(BROKEN, fault)
    return found


def fault_of_object(found: dict[str, Any]) -> str:
    """What is wrong with the object of a diagnose command; nothing where it may be acted on."""
    status, command = found.get("status"), found.get("command")
    if not isinstance(status, str) or status not in STATUSES:
        return f"the command's status is none of {', '.join(STATUSES)}"
    if "command" in found and not isinstance(command, str):
        return "the name of the repair command is no string"
    if status == LIVE_REPAIR and not is_command(command or ""):
        return "live-repair needs the plain name of a repair command"
    return _unkept(found)


def _unkept(value: Any) -> str:
    """What of it the configuration cannot keep as it is: then the same defect would look like another one each time."""
    if isinstance(value, float) and not math.isfinite(value):
        return "a number is infinite, or none"
    if isinstance(value, int) and not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        return "a number has more than 64 bits"
    if isinstance(value, str):
        return "a text is no Unicode" if any("\ud800" <= char <= "\udfff" for char in value) else ""
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((fault for part in parts if (fault := _unkept(part))), "")


class _RepeatedKeyError(Exception):
    """Readers differ in which of two values counts."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _RepeatedKeyError(repr(key))
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
