# SPDX-License-Identifier: BSD-2-Clause
"""gnt-storage: providers of external storage, as each node finds them."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation


def diagnose(call: Invocation) -> int:
    """Show a line for each node; status 1 where not all nodes can use all."""
    whole = True
    for name, nodes, groups in _ask(call, ["name", "node_status", "nodegroup_status"]):
        whole = whole and all(groups.values())
        out(f"Provider: {name}")
        out("---")
        for node, found in nodes.items():
            first, *others = [_definition(*each) for each in found] or ["not found"]
            out(f"  Node: {node}, status: {first}")
            for other in others:
                out(f"    not used, as it comes later: {other}")
        out("  --")
        for group, usable in groups.items():
            out(f"  For nodegroup: {group} --> {'valid' if usable else 'invalid'}")
        out()
    return 0 if whole else 1


def info(call: Invocation) -> int:
    """Show those named, or all; status 1 where there is no such provider."""
    wanted = call.get("providers") or []
    rows = [row for row in _ask(call, ["name", "nodegroup_status", "parameters"]) if not wanted or row[0] in wanted]
    for name, groups, parameters in rows:
        out(f"{name}:")
        usable = [group for group, valid in groups.items() if valid]
        out("  - Valid for nodegroups:" if usable else "  - Invalid for all nodegroups")
        for group in usable:
            out(f"      {group}")
        if usable:
            out("  - Supported parameters:")
            for parameter, text in parameters:
                out(f"      {parameter}: {text}")
        out()
    missing = [name for name in wanted if name not in {row[0] for row in rows}]
    for name in missing:
        err(f"There is no provider {name}: gnt-storage info shows all of them.")
    return 1 if missing else 0


def _definition(path: str, valid: bool, fault: str, parameters: list[Any]) -> str:
    known = f"parameters: {', '.join(name for name, _ in parameters)}" if parameters else "no parameters"
    return f"{'valid' if valid else f'invalid - {fault}'} (path: {path}) [{known}]"


def _ask(call: Invocation, fields: list[str]) -> list[list[Any]]:
    """Give a row for each provider; which nodes did not answer is said on standard error."""
    log: list[Any] = []
    rows: list[list[Any]] = jobs.ask(call, {"OP_ID": call.command.op_id, "output_fields": fields, "names": []}, log)
    for _, _, _, content in log:
        err(str(content))
    return rows
