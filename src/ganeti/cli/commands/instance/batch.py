# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance batch-create: many instances from a file in JSON."""

from __future__ import annotations

import json

from ganeti.cli import jobs
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_DEFAULTS: dict[str, Any] = {"mode": "create", "disks": [], "nics": [{}]}
"""As gnt-instance add has them."""


def create(call: Invocation) -> int:
    instances = [_DEFAULTS | values for values in _read(call.values["file_name"])]
    opcode = {"OP_ID": call.command.op_id, **call.parameters("file_name"), "instances": instances}
    result = jobs.submit_or_wait(call, opcode)
    if result is jobs.SUBMITTED or result is None:
        return 0
    status = jobs.follow_result(call, result)
    for name in result["failed"]:
        err(f"Instance {name} was not created: it fits nowhere")
    if status or result["failed"]:
        err("There were errors during the creation.")
        return 1
    out("All instances created successfully.")
    return 0


def _read(file_name: str) -> list[dict[str, Any]]:
    """Give the descriptions; raises `Failure` naming the file and what is wrong in it."""
    try:
        with open(file_name, encoding="utf-8") as file:
            found = json.load(file)
    except OSError as error:
        raise Failure(f"{file_name} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Failure(f"{file_name} is no JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Failure(f"{file_name} must hold a list of objects, one for each instance")
    return found
