# SPDX-License-Identifier: BSD-2-Clause
"""Whether the node's hardware is well, by a command of its administrator (S4.3-S4.14).

What is not as it must be, the command or what it prints, counts as a node that is well: the reason stands in the
details, and no node is taken out of service by a mistake.
"""

import json
import time
from typing import Any

from ganeti.model.data_collectors import is_command
from ganeti.wire.confd import sign

NAME, CATEGORY = "diagnose", "node"
OK, LIVE_REPAIR, EVACUATE, EVACUATE_FAILOVER = "Ok", "live-repair", "evacuate", "evacuate-failover"
STATUSES = (OK, LIVE_REPAIR, EVACUATE, EVACUATE_FAILOVER)
LARGEST_OUTPUT_BYTES = 64 * 1024
TIMEOUT_S = 60.0


def well(details: Any = None) -> dict[str, Any]:
    """The object of a node that is well; *details* says why nothing else is known."""
    return {"status": OK} if details is None else {"status": OK, "details": details}


def read(output: bytes) -> dict[str, Any]:
    """The object a command has printed; `well` with the reason for what is none (S4.5-S4.8)."""
    try:
        found = json.loads(output)
    except (ValueError, RecursionError):
        return well("what the command prints is no JSON")
    if not isinstance(found, dict):
        return well("what the command prints is no JSON object")
    status, command = found.get("status"), found.get("command")
    if status not in STATUSES:
        return well(f"the command's status is none of {', '.join(STATUSES)}")
    if status == LIVE_REPAIR and not (isinstance(command, str) and is_command(command)):
        return well("live-repair needs the plain name of a repair command")
    return found


def signed(found: dict[str, Any], node: str, key: bytes, now_s: float | None = None) -> dict[str, str]:
    """The object with the node's name and the time, signed by the cluster's key: who acts believes this (S4.14)."""
    now = time.time() if now_s is None else now_s
    message = json.dumps({"node": node, "time": now, "diagnose": found}, sort_keys=True)
    return sign(message, str(int(now)), key)
