# SPDX-License-Identifier: BSD-2-Clause
"""``--plan``: what a command's operations would do, said instead of done."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SIGNS = {"add": "+", "change": "~", "remove": "-"}
_WIDTH = 100
_QUIET = ("uuid", "serial_no")


def lines(plan: dict[str, Any]) -> list[str]:
    """Give the plan as text: a line for each object, each change of a field, each call and job."""
    found = [f"Plan of {plan['summary']}:"]
    for change in plan["changes"]:
        found.append(f"  {_SIGNS[change['action']]} {change['kind']} {change['name']}".rstrip())
        if change["action"] == "change":
            found += [f"      {name}: {_short(old)} -> {_short(new)}" for name, (old, new) in change["fields"].items()]
        elif change["action"] == "add":
            said = {name: new for name, (_, new) in change["fields"].items() if new not in (None, {}, [], "")}
            found += [f"      {name}: {_short(value)}" for name, value in said.items() if name not in _QUIET]
    if not plan["changes"]:
        found.append("  no object of the configuration changes")
    found += [f"  node {node}: {call}" for node, call in plan["node_calls"]]
    found += [f"  job: {', '.join(job)}" for job in plan["jobs"]]
    found += [f"  {note}" for note in plan["notes"]]
    return [*found, f"  fingerprint: {plan['fingerprint']}"]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
