# SPDX-License-Identifier: BSD-2-Clause
"""gnt-group info."""

from __future__ import annotations

from ganeti.cli.capacity_values import shown as capacity_parameters
from ganeti.cli.commands.cluster.info import SPEC_KEYS
from ganeti.cli.failures import Failure
from ganeti.cli.infotext import Ordered, defaulted, print_info, scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

FIELDS = [
    "name",
    "uuid",
    "custom_ndparams",
    "ndparams",
    "custom_diskparams",
    "diskparams",
    "custom_ipolicy",
    "ipolicy",
    "custom_capacity_params",
    "capacity_params",
]


def info(call: Invocation) -> int:
    print_info([describe(values) for values in chosen(call, FIELDS)])
    return 0


def chosen(call: Invocation, fields: list[str]) -> list[dict[str, Any]]:
    """Give *fields*, name and uuid among them, of the groups that are named; of all without names."""
    names = call.get("names", [])
    condition = ["|", *(["=", field, name] for name in names for field in ("name", "uuid"))] if names else None
    rows = call.client.call("Query", "group", fields, condition)["data"]
    found = [dict(zip(fields, (value for _, value in row), strict=True)) for row in rows]
    known = {values[field] for values in found for field in ("name", "uuid")}
    if missing := [name for name in names if name not in known]:
        raise Failure(f"There is no node group {', '.join(missing)}: gnt-group info shows all of them.")
    return found


def describe(values: dict[str, Any]) -> Ordered:
    """Arrange a group as 3.1 shows it; in what capacity is counted, which 3.1 does not have, only where it is set."""
    custom_disks = values["custom_diskparams"] or {}
    disks = {
        template: defaulted(custom_disks.get(template, {}), filled) if filled else f"default ({filled})"
        for template, filled in values["diskparams"].items()
    }
    shown = Ordered(
        [
            ("Node group", values["name"]),
            ("Node parameters", defaulted(values["custom_ndparams"] or {}, values["ndparams"])),
            ("Disk parameters", disks),
            ("Instance policy", _policy(values["custom_ipolicy"] or {}, values["ipolicy"])),
        ]
    )
    if values["capacity_params"]:
        own, filled = (capacity_parameters(values[name]) for name in ("custom_capacity_params", "capacity_params"))
        shown.append(("Capacity parameters", defaulted(own, filled)))
    return shown


def _policy(own: dict[str, Any], filled: dict[str, Any]) -> Ordered:
    def inherited(key: str, value: Any) -> Any:
        return value if key in own else f"default ({scalar(value)})"

    bounds = [
        Ordered((f"{side}/{index}", _spec(pair[side], "minmax" in own)) for side in ("min", "max"))
        for index, pair in enumerate(filled.get("minmax", ()))
    ]
    shown = Ordered([("bounds specs", bounds)])
    if "disk-templates" in filled:
        shown.append(("allowed disk templates", inherited("disk-templates", ", ".join(filled["disk-templates"]))))
    shown += [(key, inherited(key, filled[key])) for key in ("vcpu-ratio", "spindle-ratio") if key in filled]
    return shown


def _spec(spec: dict[str, Any], is_own: bool) -> Ordered:
    return Ordered((key, spec[key] if is_own else f"default ({spec[key]})") for key in SPEC_KEYS if key in spec)
