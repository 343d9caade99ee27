# SPDX-License-Identifier: BSD-2-Clause
"""When two objects of a diagnose command tell of the same defect: when they are equal as JSON (S4.9, S4.15)."""

import json
from typing import Any

from ganeti.wire.diagnose_report import EVACUATE, EVACUATE_FAILOVER, OK, STATUSES

NOTHING = OK
ACTIONS = STATUSES
"""What a diagnose command may ask for, the mildest first: a later one overtakes (S4.41)."""
EVACUATIONS = (EVACUATE, EVACUATE_FAILOVER)


def identity(original: Any) -> str:
    """A text that is equal for equal JSON values: keys in any order, and 1 is 1.0, but not true."""
    return json.dumps(_plain(original), sort_keys=True, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value


def action_of(original: dict[str, Any]) -> str:
    """What the object asks for; nothing, where it asks for what nobody knows."""
    status = original.get("status")
    return status if isinstance(status, str) and status in ACTIONS else NOTHING


def severity(action: str) -> int:
    """How invasive an action is."""
    return ACTIONS.index(action) if action in ACTIONS else 0
