# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance activate-disks and recreate-disks."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.failures import UsageError
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation


def activate(call: Invocation) -> int:
    """Print ``node:disk/N:path`` for each disk, as scripts for 3.1 read it."""
    opcode = {"OP_ID": call.command.op_id, **call.parameters()}
    opened = jobs.submit_or_wait(call, opcode)
    for node, disk, path in opened if isinstance(opened, list) else ():
        out(f"{node}:{disk}:{path}")
    return 0


def recreate(call: Invocation) -> int:
    """Send the disks that are named, with their values, in the form of the opcode."""
    parameters = call.parameters("disks")
    disks: list[Any] = []
    for ident, values in (call.get("disks") or {}).items():
        if not ident.isdecimal():
            raise UsageError(f"--disk: '{ident}' is not the index of a disk: write --disk N or --disk N:size=SIZE")
        disks.append([int(ident), values] if values else int(ident))
    return jobs.run(call, {"OP_ID": call.command.op_id, **parameters, "disks": disks})


def replace(call: Invocation) -> int:
    """One option says which copies are replaced; a new secondary node, or an allocator for it, is one of them."""
    parameters = call.parameters("disks")
    elsewhere = [name for name in ("remote_node", "iallocator") if parameters.get(name) is not None]
    if len(elsewhere) + (parameters.get("mode") is not None) != 1:
        raise UsageError("Give one of -p, -s, -a, -n NODE and -I ALLOCATOR")
    if elsewhere:
        parameters["mode"] = "replace_new_secondary"
    disks = call.get("disks") or []
    if not all(str(each).isdecimal() for each in disks):
        raise UsageError(f"--disks: {','.join(map(str, disks))}: give indexes of disks, as 0,1")
    return jobs.run(call, {"OP_ID": call.command.op_id, **parameters, "disks": [int(each) for each in disks]})
