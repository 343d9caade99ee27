# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster modify."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.capacity_values import read_parameters
from ganeti.cli.failures import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_POLICY = {
    "ipolicy_bounds": "minmax",
    "ipolicy_std": "std",
    "ipolicy_disk_templates": "disk-templates",
    "ipolicy_vcpu_ratio": "vcpu-ratio",
    "ipolicy_spindle_ratio": "spindle-ratio",
}


def modify(call: Invocation) -> int:
    parameters = call.parameters()
    if not set(parameters) - {"force"}:
        raise Failure("Please give at least one of the parameters.")
    if "capacity_params" in parameters:
        parameters["capacity_params"] = read_parameters("--capacity-parameters", parameters["capacity_params"])
    return jobs.run(call, {"OP_ID": call.command.op_id, **_with_policy(parameters)})


def _with_policy(parameters: dict[str, Any]) -> dict[str, Any]:
    """Put the options about the instance policy together: they are one parameter of the opcode."""
    policy = {key: parameters.pop(field) for field, key in _POLICY.items() if field in parameters}
    return parameters | ({"ipolicy": policy} if policy else {})
