# SPDX-License-Identifier: BSD-2-Clause
"""gnt-job why: the master daemon explains, this indents (S2.56, S2.59, S2.61)."""

from __future__ import annotations

from ganeti.cli.commands.listing import job_id
from ganeti.cli.failures import ServerError
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

_INDENT = "  "


def why(call: Invocation) -> int:
    """Print the sentences about each job, those that explain another one below it."""
    numbers = [job_id(word) for word in call.values["jobs"]]
    status = 0
    for position, number in enumerate(numbers):
        try:
            sentences = call.client.call("ExplainJob", number)
        except ServerError as error:
            if error.name != "JobLost":
                raise
            err(f"Job ID {number} not found")
            status = 1
            continue
        if position:
            out()
        for depth, sentence in sentences:
            out(_INDENT * depth + sentence)
    return status
