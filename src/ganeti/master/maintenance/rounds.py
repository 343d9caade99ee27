# SPDX-License-Identifier: BSD-2-Clause
"""What is submitted next: a round of jobs that do not get into each other's way (S4.40-S4.42).

First what nodes with a defect need, then what instances elsewhere need, then one set of balancing moves in each group
that no node is emptied in: what leaves a node must find the room that it was told of.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ganeti.master.maintenance.changes import NOTED
from ganeti.master.maintenance.evacuations import affected, evacuations, leading, leaving, out_of_service
from ganeti.master.maintenance.incidents import instances_on
from ganeti.master.maintenance.repairs import repairs
from ganeti.master.maintenance.sameness import EVACUATIONS
from ganeti.master.maintenance.task import Held, Round, Task
from ganeti.model.objects import Incident
from ganeti.model.placement_requests import BalanceStep, EmptyNodes, NodeRoom
from ganeti.model.view import ConfigView
from ganeti.placement.balance.steadiness import cooling
from ganeti.wire.diagnose_report import LIVE_REPAIR


@dataclass(frozen=True)
class Answers:
    """What the allocator has said."""

    rooms: Mapping[str, NodeRoom] = field(default_factory=dict)
    """By the name of a node that leaves."""
    balance: Sequence[NodeRoom] = ()


def is_due(view: ConfigView, now_s: float) -> bool:
    """Whether a round may begin: none is under way, and the last one began long enough ago."""
    own = view.maintenance
    return not own.jobs and not own.submitting and not waits_s(view, now_s)


def waits_s(view: ConfigView, now_s: float) -> float:
    """How long until the next round may begin; not at all where a clock was set back since the last one."""
    own = view.maintenance
    since_s = now_s - own.round_began_s
    return own.round_delay_s - since_s if 0 <= since_s < own.round_delay_s else 0.0


def room_question(view: ConfigView) -> EmptyNodes | None:
    """What the allocator must be asked about nodes that leave; None if nobody does."""
    own, master = leaving(view), view.cluster.master_node
    full = {each.node.name for each in own if instances_on(view, each.node.uuid)}
    begun = [each.node.name for each in own if each.is_begun]
    is_limited = len(out_of_service(view)) >= view.maintenance.nodes_at_once
    others = [each.node.name for each in own if not each.is_begun and each.node.uuid != master]
    asked = [] if is_limited else others
    if not asked and full.isdisjoint(begun):
        return None
    return EmptyNodes(begun=begun, nodes=asked, keep_redundancy=view.maintenance.keep_redundancy)


def balance_question(view: ConfigView, load: Mapping[str, float] | None, now_s: float) -> BalanceStep | None:
    """What the allocator must be asked about balancing; None if it is off, or the load is wanted and not known.

    By measured load only: until the mean that MonD tells is that of its new node, an instance stays.
    """
    own = view.maintenance
    if not own.balance or (own.balance_dynamic and load is None):
        return None
    without = [node.name for node in view.nodes() if _is_left_alone(view, node.uuid)]
    known = dict(load) if own.balance_dynamic and load is not None else None
    stay = cooling({each.name: each.mtime for each in view.instances()}, now_s, own.cool_down_s) if known else ()
    return BalanceStep(
        without=without,
        least_gain=own.balance_threshold,
        disk_moves=own.balance_disk_moves,
        load=known,
        load_threshold=own.load_threshold,
        stay=sorted(stay),
    )


def plan_round(view: ConfigView, answers: Answers, now_s: float) -> Round:
    """Everything that is to be submitted now."""
    out = evacuations(view, answers.rooms)
    tasks = [*out.tasks, *_live_repairs(view)]
    busy = {name for task in tasks for name in task.moves}
    mending = []
    if view.maintenance.repair_instances:
        mending = [
            each for each in repairs(view, affected(view), now_s) if view.instance(each.instance).name not in busy
        ]
        tasks += [each.task for each in mending if each.task is not None]
        busy |= {name for each in mending if each.task is not None for name in each.task.moves}
    crowded = {view.group(view.find_node(task.about).group).name for task in out.tasks if task.moves}
    tasks += _balancing([each for each in answers.balance if each.node not in crowded], busy)
    held = [*out.held, *out.why_stuck, *_unconfirmed(view)]
    return Round(tasks, held, out.stuck, mending)


def _live_repairs(view: ConfigView) -> list[Task]:
    """The repair commands of nodes from which nobody leaves; each runs once."""
    return [
        _live_repair(view, each)
        for uuid, first in leading(view).items()
        if first.action not in EVACUATIONS
        for each in view.maintenance.incidents
        if each.node == uuid and each.action == LIVE_REPAIR and each.repair_status == NOTED and each.confirmed
    ]


def _live_repair(view: ConfigView, incident: Incident) -> Task:
    node = view.node(incident.node).name
    command = str(incident.original.get("command", ""))
    opcode = {
        "OP_ID": "OP_REPAIR_COMMAND",
        "node_name": node,
        "command": command,
        "input": json.dumps(incident.original),
    }
    return Task((incident.uuid,), node, f"{node} asks for its repair command {command}", [[opcode]])


def _balancing(found: Sequence[NodeRoom], busy: set[str]) -> list[Task]:
    """One task for each group; what moves already is left out."""
    tasks = []
    for group in found:
        jobs = [(name, opcodes) for name, opcodes in group.jobs if name not in busy]
        if jobs:
            names = tuple(name for name, _ in jobs)
            why = f"group {group.node} gets more even by moving {', '.join(names)}"
            tasks.append(Task((), group.node, why, [opcodes for _, opcodes in jobs], names))
    return tasks


def _unconfirmed(view: ConfigView) -> list[Held]:
    return [
        Held((each.uuid,), view.node(each.node).name, "seen once: something is done when the next look finds the same")
        for each in view.maintenance.incidents
        if each.repair_status == NOTED and not each.confirmed and view.get("nodes", each.node) is not None
    ]


def _is_left_alone(view: ConfigView, uuid: str) -> bool:
    node = view.node(uuid)
    return uuid in affected(view) or node.offline or node.drained
