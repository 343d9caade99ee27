# SPDX-License-Identifier: BSD-2-Clause
"""gnt-os list."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

FIELDS = ["name", "variants", "valid", "hidden", "blacklisted"]


def list_valid(call: Invocation) -> int:
    """Print the names that ``-o`` of gnt-instance takes: variants written out."""
    print_table(["Name"], [False], [[name] for name in valid_names(call)], headers=not call.get("no_headers"))
    return 0


def valid_names(call: Invocation) -> list[str]:
    """Give the names that ``-o`` takes."""
    rows = jobs.ask(call, {"OP_ID": "OP_OS_DIAGNOSE", "output_fields": FIELDS, "names": []})
    return [
        f"{name}+{variant}" if variant else name
        for name, variants, valid, hidden, blacklisted in rows
        if valid and not hidden and not blacklisted
        for variant in (variants or [""])
    ]
