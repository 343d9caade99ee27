# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance snapshot: the list is printed as a table."""

from __future__ import annotations

import time

from ganeti.cli import jobs
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def run(call: Invocation) -> int:
    """Of each snapshot its name, its time, and the disks that have it."""
    kept = jobs.submit_or_wait(call, {"OP_ID": call.command.op_id, **call.parameters()})
    if isinstance(kept, list) and call.get("action") == "list":
        width = max([len("Snapshot"), *(len(name) for name, _, _ in kept)])
        out(f"{'Snapshot':<{width}} Taken               Disks")
        for name, created_s, disks in kept:
            taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(created_s))
            out(f"{name:<{width}} {taken} {','.join(map(str, disks)) or 'on the secondary node'}")
    return 0
