# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster and gnt-group show-ispecs-cmd: the command that makes the same bounds of instances again."""

from __future__ import annotations

import shlex

from ganeti.cli.commands.group.info import chosen
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation


def show_cluster(call: Invocation) -> int:
    answer = call.client.call("QueryClusterInfo")
    policy = answer["ipolicy"]
    standard = ["--ipolicy-std-specs", _values(policy["std"])] if "std" in policy else []
    out(" ".join(["gnt-cluster init", *standard, *_bounds(policy), answer["name"]]))
    return 0


def show_groups(call: Invocation) -> int:
    """One line for each group; bounds that it has from the cluster stand there only with ``--include-defaults``."""
    field = "ipolicy" if call.get("include_defaults") else "custom_ipolicy"
    for group in chosen(call, ["name", "uuid", field]):
        out(f"gnt-group add {shlex.join([*_bounds(group[field] or {}), group['name']])}")
    return 0


def _bounds(policy: dict[str, Any]) -> list[str]:
    pairs = [f"min:{_values(pair['min'])}/max:{_values(pair['max'])}" for pair in policy.get("minmax", ())]
    return ["--ipolicy-bounds-specs", "//".join(pairs)] if pairs else []


def _values(spec: dict[str, Any]) -> str:
    return ",".join(f"{name}={spec[name]}" for name in sorted(spec))
