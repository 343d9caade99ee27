# SPDX-License-Identifier: BSD-2-Clause
"""Whether the node's hardware is well, by a command of its administrator (S4.3-S4.14).

What is not as it must be, the command or what it prints, counts as a node that is well: the reason stands in the
details, and no node is taken out of service by a mistake.
"""

import json
import time
from typing import Any, NamedTuple

from ganeti.wire.confd import sign
from ganeti.wire.diagnose_report import OK, RefusedReport, read_object

NAME, CATEGORY = "diagnose", "node"
LARGEST_OUTPUT_BYTES = 64 * 1024
TIMEOUT_S = 60.0


class Diagnosed(NamedTuple):
    """The object, and why it is not what the command has said; nothing where it is."""

    original: dict[str, Any]
    fault: str = ""


def well(details: Any = None) -> dict[str, Any]:
    """The object of a node that is well; *details* says why nothing else is known."""
    return {"status": OK} if details is None else {"status": OK, "details": details}


def read(output: bytes) -> Diagnosed:
    """What a command has printed; the object of a node that is well, with the reason, for what breaks the contract."""
    try:
        return Diagnosed(read_object(output))
    except RefusedReport as refusal:
        return refused(str(refusal))


def refused(fault: str) -> Diagnosed:
    """A command that may not run, or that says what nobody understands."""
    return Diagnosed(well(fault), fault)


def signed(found: dict[str, Any], node: str, key: bytes, now_s: float | None = None) -> dict[str, str]:
    """The object with the node's name and the time, signed by the cluster's key: who acts believes this (S4.14)."""
    now = time.time() if now_s is None else now_s
    message = json.dumps({"node": node, "time": now, "diagnose": found}, sort_keys=True)
    return sign(message, str(int(now)), key)
