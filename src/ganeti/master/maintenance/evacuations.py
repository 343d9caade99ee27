# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes are to be emptied, in which order, and what their next jobs are (S4.6, S4.41).

The allocator says where instances go, and whether the nodes that stay can lose any one of them then (`NodeRoom`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.master.maintenance.changes import FAILED, OPEN
from ganeti.master.maintenance.incidents import instances_on
from ganeti.master.maintenance.sameness import EVACUATIONS, severity
from ganeti.master.maintenance.task import Held, Opcode, Task
from ganeti.model.objects import Incident, Node
from ganeti.model.placement_requests import NodeRoom
from ganeti.model.view import ConfigView
from ganeti.wire.diagnose_report import EVACUATE_FAILOVER

_SHUTDOWN_TIMEOUT_S = 120
_RAISE_LIMIT = "raise the limit with gnt-cluster modify --maintenance-nodes-at-once"


@dataclass(frozen=True)
class Leaving:
    """A node that is to be emptied, by the most invasive of its open incidents; the others are dealt with, too."""

    node: Node
    leading: Incident
    incidents: Sequence[Incident]

    @property
    def is_begun(self) -> bool:
        return any(each.jobs for each in self.incidents)

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(each.uuid for each in self.incidents)


@dataclass
class Evacuations:
    """What is to be done about nodes that leave."""

    tasks: list[Task] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    """Incidents with which nothing more can be done."""
    why_stuck: list[Held] = field(default_factory=list)


def leading(view: ConfigView) -> dict[str, Incident]:
    """The most invasive open incident of each node, by the node's uuid; of equal ones the first."""
    found: dict[str, Incident] = {}
    for each in view.maintenance.incidents:
        if each.repair_status in OPEN and each.confirmed:
            other = found.get(each.node)
            if other is None or severity(each.action) > severity(other.action):
                found[each.node] = each
    return found


def leaving(view: ConfigView) -> list[Leaving]:
    """Nodes to be emptied: first those that have begun, then the most urgent, then the oldest."""
    nodes = []
    for uuid, first in leading(view).items():
        node = view.get("nodes", uuid)
        if isinstance(node, Node) and first.action in EVACUATIONS:
            own = [each for each in view.maintenance.incidents if each.node == uuid and _counts(each)]
            nodes.append(Leaving(node, first, own))
    return sorted(nodes, key=lambda each: (not each.is_begun, -severity(each.leading.action), each.leading.ctime))


def out_of_service(view: ConfigView) -> set[str]:
    """Uuids of nodes that are out of service by the daemon's doing, or on their way."""
    found = {each.node.uuid for each in leaving(view) if each.is_begun}
    for each in view.maintenance.incidents:
        node = view.get("nodes", each.node)
        if each.action in EVACUATIONS and each.jobs and isinstance(node, Node) and (node.offline or node.drained):
            found.add(node.uuid)
    return found


def affected(view: ConfigView) -> set[str]:
    """Uuids of nodes that nothing else is done to: something is wrong with them."""
    return {
        each.node for each in view.maintenance.incidents if each.repair_status in (*OPEN, FAILED) and each.confirmed
    }


def evacuations(view: ConfigView, rooms: Mapping[str, NodeRoom]) -> Evacuations:
    """The next jobs of every node that leaves; *rooms* are by the names of nodes."""
    found = Evacuations()
    out, moved = out_of_service(view), set[str]()
    for each in leaving(view):
        reason = _held_back(view, each, rooms.get(each.node.name), out)
        if reason is not None:
            found.held.append(Held(each.uuids, each.node.name, reason))
            continue
        out.add(each.node.uuid)
        _next(view, each, rooms.get(each.node.name) or NodeRoom(each.node.name), moved, found)
    return found


def _counts(incident: Incident) -> bool:
    return incident.repair_status in OPEN and incident.confirmed and incident.action in EVACUATIONS


def _held_back(view: ConfigView, leaving: Leaving, room: NodeRoom | None, out: set[str]) -> str | None:
    """Why nothing is done now; None where something may be."""
    node, limit = leaving.node, view.maintenance.nodes_at_once
    if node.uuid == view.cluster.master_node:
        return f"{node.name} is the master: run gnt-cluster master-failover on another candidate"
    if leaving.is_begun:
        return None
    if not limit:
        return f"no node may be taken out of service: {_RAISE_LIMIT}"
    if len(out - {node.uuid}) >= limit:
        names = ", ".join(sorted(view.node(uuid).name for uuid in out))
        return (
            f"{len(out)} of at most {limit} nodes are out of service already ({names}): put one back, or {_RAISE_LIMIT}"
        )
    if room is None:
        return "the allocator has not said where its instances may go"
    return room.refused or None


def _next(view: ConfigView, leaving: Leaving, room: NodeRoom, moved: set[str], found: Evacuations) -> None:
    node = leaving.node
    if not instances_on(view, node.uuid):
        if not node.offline:
            found.tasks.append(_take_out(leaving))
        return
    jobs = [(name, opcodes) for name, opcodes in room.jobs if name not in moved]
    moved.update(name for name, _ in jobs)
    if jobs:
        found.tasks.append(_move_away(leaving, jobs))
    elif room.bound and len(room.bound) == len(instances_on(view, node.uuid)):
        found.stuck += leaving.uuids
        words = "; ".join(f"{name}: {why}" for name, why in room.bound)
        found.why_stuck.append(Held(leaving.uuids, node.name, f"what is left there cannot be moved: {words}"))
    else:
        words = "; ".join(f"{name}: {why}" for name, why in [*room.stuck, *room.bound])
        found.held.append(Held(leaving.uuids, node.name, f"no other node takes what is left: {words or 'no answer'}"))


def _take_out(leaving: Leaving) -> Task:
    return Task(
        leaving.uuids,
        leaving.node.name,
        f"{leaving.node.name} is empty: it is taken offline",
        [[_node_params(leaving.node, offline=True)]],
    )


def _move_away(leaving: Leaving, jobs: Sequence[tuple[str, Sequence[Opcode]]]) -> Task:
    """Drain the node, and move each instance in a job of its own, which waits for that."""
    node, never_live = leaving.node, leaving.leading.action == EVACUATE_FAILOVER
    drains: list[list[Opcode]] = []
    if not (node.drained or node.offline):
        drains = [[_node_params(node, drained=True)]]
    waits = {"depends": [[-1, ["success"]]]} if drains else {}
    moves = []
    for number, (_, opcodes) in enumerate(jobs, 1):
        job = [stopped(opcode) if never_live or node.offline else dict(opcode) for opcode in opcodes]
        job[0] = job[0] | ({"depends": [[-number, ["success"]]]} if waits else {})
        moves.append(job)
    how = "fail over" if never_live else "move"
    names = ", ".join(name for name, _ in jobs)
    why = f"{node.name} asks for {leaving.leading.action}: {names} {how} to other nodes"
    return Task(leaving.uuids, node.name, why, [*drains, *moves], tuple(name for name, _ in jobs))


def stopped(opcode: Mapping[str, Any]) -> Opcode:
    """The same move with the instance stopped in between: never live."""
    if opcode["OP_ID"] != "OP_INSTANCE_MIGRATE":
        return dict(opcode)
    kept = {key: opcode[key] for key in ("instance_name", "target_node", "ignore_ipolicy") if key in opcode}
    rest = {"shutdown_timeout": _SHUTDOWN_TIMEOUT_S, "ignore_consistency": False}
    return {"OP_ID": "OP_INSTANCE_FAILOVER", **kept, **rest}


def _node_params(node: Node, **values: bool) -> Opcode:
    return {"OP_ID": "OP_NODE_SET_PARAMS", "node_name": node.name, "auto_promote": True, **values}
