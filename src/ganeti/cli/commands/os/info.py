# SPDX-License-Identifier: BSD-2-Clause
"""gnt-os info and diagnose: what the nodes can install, and what each of them says."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.commands.os.list import opcode
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

INFO_FIELDS = ["name", "valid", "hidden", "blacklisted", "api_versions", "variants", "parameters", "trusted"]
DIAGNOSE_FIELDS = ["name", "valid", "variants", "node_status", "hidden", "blacklisted"]


def info(call: Invocation) -> int:
    """Show those named, or all; status 1 where there is no such OS."""
    wanted = call.get("names") or []
    rows = [row for row in _ask(call, INFO_FIELDS) if not wanted or row[0] in wanted]
    for name, valid, hidden, blacklisted, versions, variants, parameters, trusted in rows:
        out(f"{name}:")
        out(f"  - valid: {valid}")
        out(f"  - hidden: {hidden}")
        out(f"  - blacklisted: {blacklisted}")
        if valid:
            _items("API versions", versions)
            _items("variants", variants)
            _items("parameters", [f"{parameter}: {text}" for parameter, text in parameters])
            out(f"  - trusted: {trusted}")
        out()
    missing = [name for name in wanted if name not in {row[0] for row in rows}]
    for name in missing:
        err(f"There is no OS {name}: gnt-os info shows all of them, without variants.")
    return 1 if missing else 0


def _items(title: str, values: list[Any]) -> None:
    out(f"  - {title}:")
    for value in values:
        out(f"    - {value}")


def diagnose(call: Invocation) -> int:
    """Show a line for each node; status 1 where not all nodes can install all."""
    rows = _ask(call, DIAGNOSE_FIELDS)
    for name, valid, variants, nodes, hidden, blacklisted in rows:
        marks = f"{' [hidden]' * hidden}{' [blacklisted]' * blacklisted}"
        out(f"OS: {name} [global status: {'valid' if valid else 'invalid'}]{marks}")
        if variants:
            out(f"  Variants: [{', '.join(variants)}]")
        for node, found in nodes.items():
            first, *others = [_definition(*each) for each in found] or ["not found"]
            out(f"  Node: {node}, status: {first}")
            for other in others:
                out(f"    not used, as it comes later: {other}")
        out()
    return 0 if all(valid for _, valid, *_ in rows) else 1


def _definition(
    path: str,
    valid: bool,
    message: str,
    variants: list[str],
    parameters: list[list[str]],
    api: list[int],
    trusted: bool,
) -> str:
    if not valid:
        return f"invalid - {message} (path: {path})"
    words = [
        f"API versions: {', '.join(str(version) for version in api)}",
        f"variants: {', '.join(variants)}" if variants else "no variants",
        f"parameters: {', '.join(name for name, _ in parameters)}" if parameters else "no parameters",
        "trusted" if trusted else "untrusted",
    ]
    return f"valid (path: {path}) " + " ".join(f"[{word}]" for word in words)


def _ask(call: Invocation, fields: list[str]) -> list[list[Any]]:
    """Give a row for each name; which nodes did not answer is said on standard error."""
    log: list[Any] = []
    rows: list[list[Any]] = jobs.ask(call, opcode(fields, call.get("group")), log)
    for _, _, _, content in log:
        err(str(content))
    return rows
