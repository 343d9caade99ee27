# SPDX-License-Identifier: BSD-2-Clause
"""The life of incidents: what a look at the nodes and at the jobs makes of them (S4.15-S4.22, S4.30).

A node that gives no report that is believed says nothing: what was seen there last holds. Nothing is done about an
object before two looks, one after the other, have found it: a command that changes its text each time has no effect.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ganeti.master.maintenance.changes import (
    CANCELED,
    COMPLETED,
    FAILED,
    NOTED,
    OPEN,
    PENDING,
    RecordIncidents,
)
from ganeti.master.maintenance.sameness import EVACUATIONS, NOTHING, action_of, identity
from ganeti.model.objects import Incident, Instance, Maintenance, Node, Plain
from ganeti.model.templates import traits_of
from ganeti.model.view import ConfigView
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS

GONE = "gone"
"""Of a job that is not in the queue any more: nobody knows how it ended."""
MOST_UNSTEADY = 8
"""Objects of a node that vanished at the next look, after which a new one is noted only when it is seen twice."""


@dataclass
class SeenObjects:
    """What earlier looks have found; forgotten when the daemon ends, which only makes it slower to act."""

    last: dict[str, str] = field(default_factory=dict)
    """By uuid of a node, the `identity` of its latest object."""
    unsteady: dict[str, int] = field(default_factory=dict)
    """How many of its objects were seen once only."""

    def is_unsteady(self, node: str) -> bool:
        return self.unsteady.get(node, 0) >= MOST_UNSTEADY

    def take(self, found: Mapping[str, Plain]) -> None:
        """Take over what a look has found."""
        for node, original in found.items():
            own = identity(original)
            before = self.last.get(node)
            if before is not None and before != own:
                self.unsteady[node] = self.unsteady.get(node, 0) + 1
            elif before == own:
                self.unsteady[node] = max(0, self.unsteady.get(node, 0) - 1)
            self.last[node] = own


def record(
    view: ConfigView,
    seen: SeenObjects,
    found: Mapping[str, Plain],
    jobs: Mapping[int, str],
    new_id: Callable[[], str],
    stuck: Iterable[str] = (),
) -> RecordIncidents:
    """What changes by a look that has *found* an object of each node (by uuid) that is believed.

    *jobs* are the statuses of jobs, *stuck* the incidents with which nothing more can be done.
    """
    maintenance = view.maintenance
    forgotten, confirmed, ended = [], [], []
    given_up = set(stuck)
    for incident in maintenance.incidents:
        node = view.get("nodes", incident.node)
        if not isinstance(node, Node) or _is_over(incident, node, found):
            forgotten.append(incident.uuid)
        elif (end := _end_of(view, incident, node, jobs, incident.uuid in given_up)) is not None:
            ended.append((incident.uuid, end))
        elif not incident.confirmed and is_seen(incident, found):
            confirmed.append(incident.uuid)
    noted = [
        (new_id(), node, action_of(original), original)
        for node, original in found.items()
        if action_of(original) != NOTHING and _is_new(maintenance, seen, node, original)
    ]
    seen.take(found)
    return RecordIncidents(noted=noted, confirmed=confirmed, forgotten=forgotten, ended=ended)


def is_seen(incident: Incident, found: Mapping[str, Plain]) -> bool | None:
    """Whether its node tells of it; None where the node says nothing that is believed."""
    own = found.get(incident.node)
    return None if own is None else identity(own) == identity(incident.original)


def succeeded(jobs: Iterable[int], statuses: Mapping[int, str]) -> bool | None:
    """Whether all jobs have ended well; False as soon as one has failed, or is not there any more."""
    found = [statuses.get(job, "") for job in jobs]
    if any(status == GONE or (status in FINAL_STATUSES and status != SUCCESS) for status in found):
        return False
    return True if all(status == SUCCESS for status in found) else None


def _is_new(maintenance: Maintenance, seen: SeenObjects, node: str, original: Plain) -> bool:
    own = identity(original)
    if any(each.node == node and identity(each.original) == own for each in maintenance.incidents):
        return False
    return not seen.is_unsteady(node) or seen.last.get(node) == own


def _is_over(incident: Incident, node: Node, found: Mapping[str, Plain]) -> bool:
    """Whether there is no reason to remember it."""
    is_gone = is_seen(incident, found) is False
    is_tagged = not incident.tag or incident.tag in node.tags
    match incident.repair_status:
        case status if status in (NOTED, CANCELED):
            return is_gone
        case status if status == COMPLETED:
            return is_gone and (not incident.tag or not is_tagged)
        case status if status == FAILED:
            return not is_tagged
    return False


def _end_of(view: ConfigView, incident: Incident, node: Node, jobs: Mapping[int, str], is_stuck: bool) -> str | None:
    """How the repair has ended; None while something is to be done."""
    if incident.repair_status not in OPEN or not incident.confirmed:
        return None
    outcome = succeeded(incident.last_jobs or (), jobs)
    if is_stuck or (incident.repair_status == PENDING and outcome is False):
        return FAILED
    if incident.action in EVACUATIONS:
        is_out = node.offline and not instances_on(view, node.uuid)
        return COMPLETED if is_out and outcome else None
    return COMPLETED if incident.repair_status == PENDING and outcome else None


def instances_on(view: ConfigView, node: str) -> list[Instance]:
    """The instances that run on a node, or have a copy of their disks there."""
    return [each for each in view.instances() if each.primary_node == node or node == secondary_of(view, each)]


def secondary_of(view: ConfigView, instance: Instance) -> str | None:
    """Uuid of the node with the other copy of an instance's disks, where its template has one."""
    traits = traits_of(view.disk_template(instance))
    others = view.secondary_nodes(instance) if traits is not None and traits.has_secondary else []
    return others[0] if others else None


def incident_rows(view: ConfigView) -> list[Plain]:
    """Incidents as they are stored, with the id under both names of the designs, and the node's name (S4.29)."""
    names = {node.uuid: node.name for node in view.nodes()}
    return [
        {"id": each.uuid, "node_name": names.get(each.node, each.node), **each.to_plain()}
        for each in view.maintenance.incidents
    ]
