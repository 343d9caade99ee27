# SPDX-License-Identifier: BSD-2-Clause
"""gnt-os list."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

FIELDS = ["name", "variants", "valid", "hidden", "blacklisted"]


def opcode(fields: list[str], group: str | None) -> dict[str, Any]:
    """What asks all nodes, or those of *group*, about all OSes."""
    asked = {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": fields, "names": []}
    return asked if group is None else asked | {"group_name": group}


def list_valid(call: Invocation) -> int:
    """Print the names that ``-o`` of gnt-instance takes: variants written out."""
    names = valid_names(call, call.get("group_name"))
    print_table(["Name"], [False], [[name] for name in names], headers=not call.get("no_headers"))
    return 0


def valid_names(call: Invocation, group: str | None = None) -> list[str]:
    """Give the names that ``-o`` takes: what all nodes can install, or those of *group*."""
    rows = jobs.ask(call, opcode(FIELDS, group))
    return [
        f"{name}+{variant}" if variant else name
        for name, variants, valid, hidden, blacklisted in rows
        if valid and not hidden and not blacklisted
        for variant in (variants or [""])
    ]
