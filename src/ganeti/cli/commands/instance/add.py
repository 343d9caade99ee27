# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance add and gnt-backup import: from options to the parameters of OP_INSTANCE_CREATE."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.failures import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

DEFAULT_ALLOCATOR = "."
"""Stands for the cluster's default allocator."""
_TRANSLATED = ("node", "hypervisor", "disks", "os_size", "nics", "no_nics")


def add(call: Invocation) -> int:
    return jobs.run(call, opcode(call))


def opcode(call: Invocation) -> dict[str, Any]:
    """Give the opcode; what was not given and has a default on the master is left out."""
    parameters = call.parameters(*_TRANSLATED)
    if call.get("why"):
        parameters["dry_run"] = True
    imports = call.command.program == "gnt-backup"
    return {
        "OP_ID": "OP_INSTANCE_CREATE",
        **({"mode": "import", "start": False} if imports else {"mode": "create"}),
        **parameters,
        **_placement(call),
        **_hypervisor(call),
        "disks": _disks(call),
        "nics": _nics(call, imports=imports),
    }


def _placement(call: Invocation) -> dict[str, Any]:
    """A node, an allocator, or neither: then the cluster's default allocator."""
    node, allocator = call.get("node"), call.get("iallocator")
    if node is None:
        return {"iallocator": allocator or DEFAULT_ALLOCATOR}
    primary, colon, secondary = node.partition(":")
    if not primary or (colon and not secondary):
        raise UsageError(f"-n: '{node}' lacks a node: write NODE or NODE:SECONDARY")
    return {"pnode": primary, "snode": secondary} if colon else {"pnode": primary}


def _hypervisor(call: Invocation) -> dict[str, Any]:
    given = call.get("hypervisor") or {}
    if len(given) > 1:
        raise UsageError(f"-H: an instance has one hypervisor, not {len(given)}: {', '.join(given)}")
    return {key: value for name, values in given.items() for key, value in (("hypervisor", name), ("hvparams", values))}


def _disks(call: Invocation) -> list[dict[str, Any]]:
    if call.get("os_size") is None:
        disks: list[dict[str, Any]] = call.get("disks") or []
        return disks
    return [{"size": call.get("os_size")}]


def _nics(call: Invocation, *, imports: bool) -> list[dict[str, Any]]:
    """No NIC, those given, or one with all defaults; an import has those of its export, unless some are given."""
    if call.get("no_nics") and imports:
        raise UsageError("--no-nics: an import has the NICs of its export: remove them later with gnt-instance modify")
    if call.get("no_nics"):
        return []
    nics: list[dict[str, Any]] = call.get("nics") or ([] if imports else [{}])
    return nics
