# SPDX-License-Identifier: BSD-2-Clause
"""gnt-group evacuate, which moves all instances of a node group, and modify."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.commands import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def evacuate(call: Invocation) -> int:
    """Submit the job that finds the ways out, and wait for the jobs that go them."""
    return jobs.move(call, {"OP_ID": call.command.op_id, **call.parameters()}, "evacuation", "evacuated")


def modify(call: Invocation) -> int:
    """Without an option it ends well, as in 3.1, which sends an empty dictionary."""
    return plain.submit(call, {"diskparams": {}})
