# SPDX-License-Identifier: BSD-2-Clause
"""gnt-os modify: what the cluster sets for one operating system."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.failures import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation


def modify(call: Invocation) -> int:
    name = call.values["os_name"]
    parameters = call.parameters("os_name")
    if not parameters:
        raise Failure(f"Please give at least one of the parameters to change: see '{call.command.line} --help'")
    for field in ("hidden_os", "blacklisted_os"):
        if field in parameters:
            parameters[field] = [["add" if parameters[field] else "remove", name]]
    for field in ("os_hvp", "osparams", "osparams_private_cluster"):
        if field in parameters:
            parameters[field] = {name: parameters[field]}
    return jobs.run(call, {"OP_ID": call.command.op_id, **parameters})
