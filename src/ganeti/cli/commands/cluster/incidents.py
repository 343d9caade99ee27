# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster incidents and maintenance: what is wrong with nodes, and what is done about it."""

from __future__ import annotations

import json

from ganeti.cli import jobs
from ganeti.cli.failures import Failure
from ganeti.cli.infotext import timestamp
from ganeti.cli.invocation import out
from ganeti.cli.tabular import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

_OPCODES = {"cancel": "OP_INCIDENT_CANCEL", "forget": "OP_INCIDENT_FORGET"}
_DONE = {"cancel": "canceled: nothing more is done about it", "forget": "forgotten"}
_SETTINGS = (
    ("roundDelay", 300, "seconds from one round to the next"),
    ("balance", False, "balance the cluster"),
    ("balanceThreshold", 0.1, "least gain for which it is balanced"),
    ("balanceDynamic", False, "balance by the load that nodes measure"),
    ("balanceDiskMoves", False, "balancing may copy disks"),
    ("loadThreshold", 0.1, "least share of a busiest node above the mean, by measured load"),
    ("coolDown", 600, "seconds that a changed instance stays, by measured load"),
    ("repairInstances", False, "repair instances as their tags allow, like harep"),
    ("nodesAtOnce", 2, "most nodes out of service at a time"),
    ("keepRedundancy", True, "evacuate only where the rest can lose a node (N+1)"),
)


def incidents(call: Invocation) -> int:
    action, ids = call.values["action"], call.get("incidents") or []
    if action == "list":
        return _list(call, ids)
    if action not in ("show", "cancel", "forget"):
        raise Failure(f"Command '{action}' is not valid: give list, show, cancel or forget after '{call.command.line}'")
    if not ids and action != "show":
        raise Failure(f"Name the incident: '{call.command.line} list' shows their ids")
    if action == "show":
        return _show(call, ids)
    for word in ids:
        found = jobs.ask(call, {"OP_ID": _OPCODES[action], "incident": word})
        out(f"Incident {found} is {_DONE[action]}")
    return 0


def maintenance(call: Invocation) -> int:
    action = call.values["action"]
    if action not in ("plan", "show"):
        raise Failure(f"Command '{action}' is not valid: give plan or show after '{call.command.line}'")
    found = call.client.call("PlanMaintenance")
    if action == "show":
        for name, usual, meaning in _SETTINGS:
            out(f"{name}: {found['settings'].get(name, usual)} ({meaning})")
        return 0
    for task in found["tasks"]:
        out(f"Next: {task['why']} ({_counted(len(task['jobs']))})")
    for held in found["held"]:
        out(f"Held back: {held['about']}: {held['why']}")
    if found["jobs"]:
        out(f"The round under way has the jobs {', '.join(map(str, found['jobs']))}: the next begins when they ended")
    elif found["tasks"] and found["waits_s"]:
        out(f"The next round begins in {found['waits_s']:.0f} seconds")
    if not found["tasks"] and not found["held"] and not found["jobs"]:
        out("Nothing is to be done")
    return 0


def _counted(jobs_in_it: int) -> str:
    return f"{jobs_in_it} job{'s' if jobs_in_it != 1 else ''}"


def _chosen(call: Invocation, ids: list[str]) -> list[dict[str, Any]]:
    """Those named by their ids, or how these begin; all where none is named."""
    found = call.client.call("KnownIncidents")
    for word in ids:
        if not any(each["id"].startswith(word) for each in found):
            raise Failure(f"'{word}' is the id of no incident: 'gnt-cluster incidents list' shows them")
    return [each for each in found if not ids or any(each["id"].startswith(word) for word in ids)]


def _list(call: Invocation, ids: list[str]) -> int:
    rows = [
        [each["id"], each["node_name"], each["action"], each["repair-status"], ",".join(map(str, each["jobs"])) or "-"]
        for each in _chosen(call, ids)
    ]
    print_table(["Id", "Node", "Action", "Status", "Jobs"], [False] * 5, rows, headers=True, separator=None)
    return 0


def _show(call: Invocation, ids: list[str]) -> int:
    for number, each in enumerate(_chosen(call, ids)):
        if number:
            out()
        out(f"Incident {each['id']}")
        out(f"  Node: {each['node_name']}")
        out(f"  Action: {each['action']}")
        out(f"  Status: {each['repair-status']}")
        out(f"  Jobs: {', '.join(map(str, each['jobs'])) or '-'}")
        out(f"  Tag: {each['tag'] or '-'}")
        out(f"  Seen first: {timestamp(each['ctime'])}")
        out(f"  The node says: {json.dumps(each['original'], sort_keys=True)}")
    return 0
