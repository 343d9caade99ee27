# SPDX-License-Identifier: BSD-2-Clause
"""gnt-group evacuate: what moves all instances of a node group."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def evacuate(call: Invocation) -> int:
    """Submit the job that finds the ways out, and wait for the jobs that go them."""
    result = jobs.submit_or_wait(call, {"OP_ID": call.command.op_id, **call.parameters()})
    if result is jobs.SUBMITTED:
        return 0
    status = jobs.follow_result(call, result)
    if status:
        err("There were errors during the evacuation.")
    else:
        out("All instances evacuated successfully.")
    return status
