# SPDX-License-Identifier: BSD-2-Clause
"""gnt-group capacity: how many more instances fit."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.capacity_values import read_spec
from ganeti.cli.commands.listing import size
from ganeti.cli.infotext import timestamp
from ganeti.cli.invocation import out
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

EVERYWHERE = "(all)"
_TITLES = ["Group", "Memory", "Disk", "VCPUs", "Count", "Total"]


def show(call: Invocation) -> int:
    """A line for each size, the largest first; the total is how many of that size fit, larger ones among them.

    Below stands why groups have no room, which the job says in its log; not for programs, to whom it is no row.
    """
    log: list[Any] = []
    answer = jobs.ask(call, opcode(call), log)
    separator = call.get("separator")
    names = {uuid: name for uuid, name in call.client.call("QueryGroups", [], ["uuid", "name"], False)}
    units = call.get("units") or ("h" if separator is None else "m")
    rows: list[list[str]] = []
    for uuid, group in answer["node_groups"].items():
        rows += _rows(names.get(uuid, uuid), group["tspecs"], units)
    plain = separator is not None or call.get("no_headers")
    if len(answer["node_groups"]) > 1 and not plain:
        rows += _rows(EVERYWHERE, answer["cluster"], units)
    print_table(_TITLES, [False] + [True] * 5, rows, headers=not call.get("no_headers"), separator=separator)
    if not plain:
        for _, _, kind, content in log:
            if kind == "message":
                out(str(content))
        out(f"Counted at {timestamp(answer['ctime'])}")
    return 0


def opcode(call: Invocation) -> dict[str, Any]:
    return {
        "OP_ID": "OP_COMPUTE_CAPACITY",
        "node_groups": call.get("groups", []),
        "cached": call.get("cache") != "off",
        "max_inst_spec": None if call.get("max_spec") is None else read_spec("--max-spec", call.get("max_spec")),
        **{name: call.get(name) for name in ("if_added", "if_lost") if call.get(name)},
        **{name: call.get(name) for name in ("iallocator", "default_template", "max_cpu_ratio", "max_disk_usage")},
    }


def _rows(name: str, tiered: list[list[int]], units: str) -> list[list[str]]:
    rows, total = [], 0
    for memory_mib, disk_mib, vcpus, count in tiered:
        total += count
        rows.append([name, size(memory_mib, units), size(disk_mib, units), str(vcpus), str(count), str(total)])
    return rows or [[name, "-", "-", "-", "0", "0"]]
