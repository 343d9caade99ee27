# SPDX-License-Identifier: BSD-2-Clause
"""gnt-node info."""

from __future__ import annotations

from ganeti.cli.commands.listing import NODE, filter_of, group_name
from ganeti.cli.infotext import Ordered, defaulted, print_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

FIELDS = [
    "name",
    "pip",
    "sip",
    "master_candidate",
    "drained",
    "offline",
    "powered",
    "master_capable",
    "vm_capable",
    "pinst_list",
    "sinst_list",
    "ndparams",
    "custom_ndparams",
]
_NORMAL = 0


def info(call: Invocation) -> int:
    condition = filter_of(NODE, call.get("names", []), False)
    if call.get("group"):
        in_group = ["==", "group", group_name(call, call.get("group"))]
        condition = ["&", condition, in_group] if condition else in_group
    rows = call.client.call("Query", "node", FIELDS, condition)["data"]
    print_info([describe(dict(zip(FIELDS, row, strict=True))) for row in rows])
    return 0


def describe(cells: dict[str, Any]) -> Ordered:
    """Arrange one row of the query as 3.1 shows it."""
    value = {field: cell[1] for field, cell in cells.items()}
    shown = Ordered(
        [
            ("Node name", value["name"]),
            ("primary ip", value["pip"]),
            ("secondary ip", value["sip"]),
            ("master candidate", value["master_candidate"]),
            ("drained", value["drained"]),
            ("offline", value["offline"]),
        ]
    )
    if cells["powered"][0] == _NORMAL and value["powered"] is not None:
        shown.append(("powered", value["powered"]))
    shown.append(("master_capable", value["master_capable"]))
    shown.append(("vm_capable", value["vm_capable"]))
    if value["vm_capable"]:
        shown.append(("primary for instances", value["pinst_list"]))
        shown.append(("secondary for instances", value["sinst_list"]))
    shown.append(("node parameters", defaulted(value["custom_ndparams"] or {}, value["ndparams"])))
    return shown
