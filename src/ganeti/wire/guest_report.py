# SPDX-License-Identifier: BSD-2-Clause
"""What a MonD tells the maintenance daemon by itself: guests that have ended or run again, and that it begins to look.

One POST to `PATH`, signed with the cluster's key in the manner of ConfD's protocol. It is a hint that makes somebody
look: what it says is never acted on alone.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ganeti.base.clocks import CLOCK_SKEW_S
from ganeti.wire.confd import sign
from ganeti.wire.diagnose_report import OUTDATED, UNREADABLE, RefusedReport, read_signed

PATH = "/1/guests"
LARGEST_BYTES = 1024 * 1024


@dataclass(frozen=True)
class GuestReport:
    """*ended* are names of guests that ran a moment ago, or should run; None where MonD begins. *running* are all that
    run; *time_s* (seconds since 1970, by the node's clock) says when that was so.
    """

    node: str
    ended: Sequence[str] | None
    running: Sequence[str] = ()
    time_s: float = 0.0


def write_guest_report(report: GuestReport, key: bytes) -> bytes:
    said = {"node": report.node, "time": report.time_s, "ended": report.ended, "running": list(report.running)}
    return json.dumps({"signed": sign(json.dumps(said, sort_keys=True), str(int(report.time_s)), key)}).encode()


def read_guest_report(body: bytes, now_s: float, key: bytes) -> GuestReport:
    """Raises `RefusedReport`."""
    match read_signed(body, key):
        case {
            "node": str(node),
            "time": float() | int() as time_s,
            "ended": None | list() as ended,
            "running": list(running),
        } if all(isinstance(name, str) for name in (*(ended or ()), *running)):
            if abs(now_s - time_s) > CLOCK_SKEW_S:
                raise RefusedReport(OUTDATED, f"is of {now_s - time_s:.0f} seconds ago: are the clocks right?")
            return GuestReport(node, ended, tuple(running), float(time_s))
    raise RefusedReport(UNREADABLE, "does not say which guests have ended")
