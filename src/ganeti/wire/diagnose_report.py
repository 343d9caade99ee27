# SPDX-License-Identifier: BSD-2-Clause
"""A MonD's report of the self-diagnose collector, as whoever acts by it reads it: what is not signed by the cluster's
key, not of now or not of this node is refused (S4.14)."""

import json
from dataclasses import dataclass
from typing import Any

from ganeti.base.clocks import CLOCK_SKEW_S
from ganeti.wire.confd import is_signed

PATH = "/1/report/node/diagnose"
UNREADABLE, UNSIGNED, OUTDATED, MISPLACED = REFUSALS = ("unreadable", "signature", "time", "node")


@dataclass(frozen=True)
class Told:
    """The object, and when (seconds since the epoch) it was made."""

    original: dict[str, Any]
    time_s: float


class RefusedReport(Exception):
    """*kind* is one of `REFUSALS`; the message completes "the report of node1 is refused: it …"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read_report(body: bytes, node: str, key: bytes, now_s: float, *, oldest_s: float = CLOCK_SKEW_S) -> Told:
    """Read the report of *node* (name). Raises `RefusedReport`."""
    match read_signed(body, key):
        case {"node": str(name), "time": float() | int() as time_s, "diagnose": dict(original)}:
            if name != node:
                raise RefusedReport(MISPLACED, f"is that of {name}")
            if not -CLOCK_SKEW_S <= now_s - time_s <= oldest_s:
                raise RefusedReport(OUTDATED, f"is of {now_s - time_s:.0f} seconds ago: are the clocks right?")
            return Told(original, float(time_s))
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
