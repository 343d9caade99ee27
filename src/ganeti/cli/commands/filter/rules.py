# SPDX-License-Identifier: BSD-2-Clause
"""gnt-filter add, replace, delete and info. They submit no job: the master daemon itself changes the rules."""

from __future__ import annotations

from ganeti.base.names import shown
from ganeti.cli.invocation import err, out
from ganeti.cli.jobs import reason_trail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_FIELDS = ["uuid", "watermark", "priority", "predicates", "action", "reason_trail"]
_TITLES = ["Watermark", "Priority", "Predicates", "Action", "Reason trail"]
_LONGEST_NUMBER = 18


def add(call: Invocation) -> int:
    return _replace(call, None)


def replace(call: Invocation) -> int:
    return _replace(call, call.values["uuid"])


def _replace(call: Invocation, uuid: str | None) -> int:
    given = {"priority": 0, "predicates": [], "action": "CONTINUE"}
    given.update((field, call.values[field]) for field in given if call.get(field) is not None)
    out(
        call.client.call(
            "ReplaceFilter",
            uuid,
            given["priority"],
            given["predicates"],
            _action(str(given["action"])),
            reason_trail(call),
        )
    )
    return 0


def _action(text: str) -> Any:
    """Give `RATE_LIMIT N` the form it is stored in; what is wrong with others, the master daemon says."""
    words = text.split()
    if len(words) == 2 and words[0] == "RATE_LIMIT":
        number = words[1]
        is_number = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
        return [words[0], int(number) if is_number else number]
    return text.strip()


def delete(call: Invocation) -> int:
    call.client.call("DeleteFilter", call.values["uuid"])
    return 0


def info(call: Invocation) -> int:
    """Show the rules named, or all."""
    found = call.client.call("QueryFilters", names := call.get("names", []), _FIELDS)
    for uuid, *values in found:
        out(f"UUID: {uuid}")
        for title, value in zip(_TITLES, values, strict=True):
            out(f"  {title}: {value}")
    missing = [name for name in names if name not in {uuid for uuid, *_ in found}]
    for name in missing:
        err(f"There is no filter rule '{shown(name)}': see 'gnt-filter list' for those there are")
    return 1 if missing else 0
