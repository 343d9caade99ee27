# SPDX-License-Identifier: BSD-2-Clause
"""gnt-group evacuate: what moves all instances of a node group."""

from __future__ import annotations

from ganeti.cli import jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def evacuate(call: Invocation) -> int:
    """Submit the job that finds the ways out, and wait for the jobs that go them."""
    return jobs.move(call, {"OP_ID": call.command.op_id, **call.parameters()}, "evacuation", "evacuated")
