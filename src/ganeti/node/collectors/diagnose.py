# SPDX-License-Identifier: BSD-2-Clause
"""Whether the node's hardware is well, by a command of its administrator (S4.3-S4.14).

What is not as it must be, the command or what it prints, counts as a node that is well: the reason stands in the
details, and no node is taken out of service by a mistake.
"""

import json
import os
import stat
import time
from typing import Any

from ganeti.model.data_collectors import is_command
from ganeti.wire.confd import sign

NAME, CATEGORY = "diagnose", "node"
OK, LIVE_REPAIR, EVACUATE, EVACUATE_FAILOVER = "Ok", "live-repair", "evacuate", "evacuate-failover"
STATUSES = (OK, LIVE_REPAIR, EVACUATE, EVACUATE_FAILOVER)
LARGEST_OUTPUT_BYTES = 64 * 1024
TIMEOUT_S = 60.0
_WIDEST = 0o755
ROOT = (0, 0)


def well(details: Any = None) -> dict[str, Any]:
    """The object of a node that is well; *details* says why nothing else is known."""
    return {"status": OK} if details is None else {"status": OK, "details": details}


def fault_of(directory: str, name: str, owner: tuple[int, int] = ROOT) -> str | None:
    """Why the command *name* of the white list *directory* may not run; None if it may (S4.10)."""
    if not is_command(name):
        return f"'{name}' is no plain name: letters, digits, '-' and '_' are allowed"
    path = f"{directory}/{name}"
    for place, is_kind, kind in ((directory, stat.S_ISDIR, "directory"), (path, stat.S_ISREG, "regular file")):
        try:
            found = os.lstat(place)
        except OSError as err:
            return f"{place}: {err.strerror}"
        if not is_kind(found.st_mode):
            return f"{place} is no {kind}"
        if (found.st_uid, found.st_gid) != owner:
            return f"{place} does not belong to root:root"
        if stat.S_IMODE(found.st_mode) & ~_WIDEST:
            return f"{place} has mode {stat.S_IMODE(found.st_mode):04o}: the widest is {_WIDEST:04o}"
        if not found.st_mode & stat.S_IXUSR:
            return f"{place} is not executable"
    return None


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
