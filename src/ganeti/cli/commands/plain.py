# SPDX-License-Identifier: BSD-2-Clause
"""What a command does that only submits its operation: ask, submit, wait."""

from __future__ import annotations

from ganeti.cli import confirm, jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def submit(call: Invocation) -> int:
    """Send the values as parameters of the command's opcode."""
    if call.command.confirm and not (call.get("assume_yes") or call.get("force")):
        confirm.require(call.command.confirm.format(**call.values), "give --force to go on without the question.")
    return jobs.run(call, {"OP_ID": call.command.op_id, **call.parameters("assume_yes")})
