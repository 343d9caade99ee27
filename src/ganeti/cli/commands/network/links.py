# SPDX-License-Identifier: BSD-2-Clause
"""gnt-network connect and disconnect: a job for each node group, all groups if none is named."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli.failures import Failure, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_NIC = ("mode", "link", "vlan")


def connect(call: Invocation) -> int:
    given = call.get("nicparams") or {}
    for name in given:
        if name not in _NIC:
            raise UsageError(f"-N: there is no '{name}': there are {', '.join(_NIC)}")
    defaults = call.client.call("QueryClusterInfo")["nicparams"]["default"]
    filled = {name: given.get(name, defaults.get(name, "")) for name in _NIC}
    return _each(
        call,
        {f"network_{name}": value for name, value in filled.items()} | call.parameters("groups", "nicparams"),
        ": mode and link are given with -N",
    )


def disconnect(call: Invocation) -> int:
    return _each(call, call.parameters("groups"))


def _each(call: Invocation, parameters: dict[str, Any], hint: str = "") -> int:
    """Submit a job for each group; none where one of them, or the network, does not exist."""
    network = call.values["network_name"]
    networks = call.client.call("QueryNetworks", [], ["name", "uuid"], False)
    if not any(network in each for each in networks):
        there = ", ".join(name for name, _ in networks) or "none"
        raise Failure(f"Network '{network}' not known: there are {there}")
    known = call.client.call("QueryGroups", [], ["name", "uuid"], False)
    names = [name for name, _ in known]
    groups = call.get("groups") or names
    for group in groups:
        if not any(group in each for each in known):
            raise Failure(f"Group '{group}' not known: there are {', '.join(names)}{hint}")
    batch = jobs.Batch(call)
    for group in groups:
        batch.add(group, [{"OP_ID": call.command.op_id, **parameters, "group_name": group}])
    return batch.finish(quiet_submission=len(groups) == 1)
