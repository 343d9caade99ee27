# SPDX-License-Identifier: BSD-2-Clause
"""What a node tells the maintenance daemon when the other copy of a mirrored disk is lost: the generation of its own.

One POST to `PATH`, signed with the cluster's key in the manner of ConfD's protocol. It is answered with 202 when the
configuration knows.
"""

import json
from dataclasses import dataclass

from ganeti.base.clocks import CLOCK_SKEW_S
from ganeti.wire.confd import sign
from ganeti.wire.diagnose_report import OUTDATED, UNREADABLE, RefusedReport, read_signed

PATH = "/1/losses"


@dataclass(frozen=True)
class LossReport:
    """*node* has the newest copy of the *disk* (UUID), which has this *generation* now."""

    node: str
    disk: str
    generation: int


def write_loss_report(report: LossReport, now_s: float, key: bytes) -> bytes:
    said = {"node": report.node, "time": now_s, "disk": report.disk, "generation": report.generation}
    return json.dumps({"signed": sign(json.dumps(said, sort_keys=True), str(int(now_s)), key)}).encode()


def read_loss_report(body: bytes, now_s: float, key: bytes) -> LossReport:
    """Raises `RefusedReport`."""
    match read_signed(body, key):
        case {
            "node": str(node),
            "time": float() | int() as time_s,
            "disk": str(disk),
            "generation": int(generation),
        } if not isinstance(generation, bool):
            if abs(now_s - time_s) > CLOCK_SKEW_S:
                raise RefusedReport(OUTDATED, f"is of {now_s - time_s:.0f} seconds ago: are the clocks right?")
            return LossReport(node, disk, generation)
    raise RefusedReport(UNREADABLE, "does not say which disk has lost a copy")
