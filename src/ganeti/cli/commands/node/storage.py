# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node list-storage and volumes: one job, one table; and modify-storage."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.commands.listing import nodes_meant, size
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import err, out
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_STORAGE = {
    "node": "Node",
    "type": "Type",
    "name": "Name",
    "size": "Size",
    "used": "Used",
    "free": "Free",
    "allocatable": "Allocatable",
}
_VOLUMES = {
    "node": "Node",
    "phys": "PhysDev",
    "vg": "VG",
    "name": "Name",
    "size": "Size",
    "instance": "Instance",
}
_SIZES = ("size", "used", "free")


def show(call: Invocation) -> int:
    """Ask the nodes, print a line for each place."""
    return _table(call, _STORAGE, {"storage_type": call.get("storage_type")})


def volumes(call: Invocation) -> int:
    """Ask the nodes, print a line for each device that part of a volume lies on."""
    return _table(call, _VOLUMES, {})


def modify(call: Invocation) -> int:
    """Without a change nothing is asked of the cluster, as in 3.1; scripts put options together."""
    parameters = call.parameters()
    if "changes" not in parameters:
        out("No changes to perform, exiting.")
        return 0
    return jobs.run(call, {"OP_ID": call.command.op_id, **parameters})


def _table(call: Invocation, known: dict[str, str], parameters: dict[str, Any]) -> int:
    fields = _fields(call.get("output"), known)
    opcode = {"OP_ID": call.command.op_id, "output_fields": fields, **parameters, "nodes": nodes_meant(call, "nodes")}
    log: list[Any] = []
    rows = jobs.ask(call, opcode, log)
    for _, _, _, content in log:
        err(str(content))
    separator = call.get("separator")
    units = call.get("units") or ("h" if separator is None else "m")
    table = [[_shown(field, value, units) for field, value in zip(fields, row, strict=True)] for row in rows]
    right = [field in _SIZES for field in fields]
    titles = [known[field] for field in fields]
    print_table(titles, right, table, headers=not call.get("no_headers"), separator=separator)
    return 0


def _fields(output: str | None, known: dict[str, str]) -> list[str]:
    if output is None:
        return list(known)
    fields = [word.strip() for word in output.removeprefix("+").split(",") if word.strip()]
    for field in fields:
        if field not in known:
            raise Failure(f"Unknown field '{field}': there are {', '.join(known)}")
    if not fields:
        raise Failure(f"-o needs at least one field: there are {', '.join(known)}")
    return [*known, *fields] if output.startswith("+") else fields


def _shown(field: str, value: Any, units: str) -> str:
    if value is None:
        return "?"
    if field in _SIZES:
        return size(int(value), units)
    return ("Y" if value else "N") if field == "allocatable" else str(value)
