# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance activate-disks: what its job answers, as lines."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def activate(call: Invocation) -> int:
    """Print ``node:disk/N:path`` for each disk, as scripts for 3.1 read it."""
    opcode = {"OP_ID": call.command.op_id, **call.parameters()}
    opened = jobs.submit_or_wait(call, opcode)
    for node, disk, path in opened if isinstance(opened, list) else ():
        out(f"{node}:{disk}:{path}")
    return 0
