# SPDX-License-Identifier: BSD-2-Clause
"""What the maintenance daemon and its administrators change in the configuration.

Each change looks again at what it relies on: an administrator may cancel an incident while the daemon decides.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import UNKNOWN_ENTITY, PrerequisiteError
from ganeti.model.configuration import Draft
from ganeti.model.objects import Incident, Instance, Maintenance, Node, Plain
from ganeti.model.tags import MOST
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change

NOTED, PENDING, CANCELED, FAILED, COMPLETED = STATUSES = ("noted", "pending", "canceled", "failed", "completed")
OPEN = (NOTED, PENDING)
"""Something is still to be done about these."""
READY_PREFIX, FAILED_PREFIX = "maintd:repairready:", "maintd:repairfailed:"


def ready_tag(uuid: str) -> str:
    return f"{READY_PREFIX}{uuid}"


def failed_tag(uuid: str) -> str:
    return f"{FAILED_PREFIX}{uuid}"


class RecordIncidents(Change, frozen=True, kw_only=True):
    """What a look at the nodes, and at the jobs, has brought."""

    noted: list[tuple[str, str, str, Plain]] = []
    """Incidents that are new: uuid, uuid of the node, action, object."""
    confirmed: list[str] = []
    forgotten: list[str] = []
    ended: list[tuple[str, str]] = []
    """Incidents whose repair has ended, each with `COMPLETED` or `FAILED`; their nodes are tagged."""
    no_longer_evacuated: list[str] = []
    """Instances whose load is known again."""

    def apply(self, draft: Draft) -> None:
        old = draft.maintenance
        kept = {each.uuid: each for each in old.incidents}
        for uuid, node, action, original in self.noted:
            if uuid not in kept and draft.get("nodes", node) is not None:
                tag = ready_tag(uuid)
                new = Incident(uuid=uuid, node=node, original=original, action=action, tag=tag, ctime=draft.now_s)
                kept[uuid] = replace(new, mtime=draft.now_s)
        for uuid in self.confirmed:
            if uuid in kept and not kept[uuid].confirmed:
                kept[uuid] = touched(draft, kept[uuid], confirmed=True)
        for uuid, status in self.ended:
            if uuid in kept and kept[uuid].repair_status in OPEN:
                tag = ready_tag(uuid) if status == COMPLETED else failed_tag(uuid)
                kept[uuid] = touched(draft, kept[uuid], repair_status=status, tag=_set_tag(draft, kept[uuid].node, tag))
        for uuid in self.forgotten:
            if uuid in kept:
                _remove_tags(draft, kept.pop(uuid))
        evacuated = [name for name in old.evacuated if name not in self.no_longer_evacuated]
        put(draft, replace(old, incidents=list(kept.values()), evacuated=evacuated))


class BeginRound(Change, frozen=True, kw_only=True):
    """A round is about to be submitted: *token* stands in the reasons of its jobs, by which they can be found."""

    token: str

    def apply(self, draft: Draft) -> None:
        put(draft, replace(draft.maintenance, submitting=self.token, round_began_s=draft.now_s))


class RecordRound(Change, frozen=True, kw_only=True):
    """The jobs of a round are submitted. Without any, what was begun has not come about."""

    token: str
    jobs: list[int] = []
    of_incidents: dict[str, list[int]] = {}
    evacuated: list[str] = []
    """Instances that are moved."""
    repair_tags: list[tuple[str, list[str], list[str]]] = []
    """Instances (uuid) whose tags say that they are repaired: what is added, what is taken away."""

    def apply(self, draft: Draft) -> None:
        old = draft.maintenance
        if old.submitting != self.token:
            return
        incidents = []
        for each in old.incidents:
            jobs = self.of_incidents.get(each.uuid, [])
            if jobs:
                status = PENDING if each.repair_status in OPEN else each.repair_status
                each = touched(draft, each, repair_status=status, jobs=[*each.jobs, *jobs], last_jobs=jobs)
            incidents.append(each)
        for uuid, add, remove in self.repair_tags:
            change_tags(draft, uuid, add=add, remove=remove)
        evacuated = [*old.evacuated, *(name for name in self.evacuated if name not in old.evacuated)]
        new = replace(old, submitting="", jobs=self.jobs, incidents=incidents, evacuated=evacuated)
        put(draft, new)


class EndRound(Change, frozen=True, kw_only=True):
    """Jobs of the round have ended; those *left* are waited for."""

    left: list[int] = []
    repair_tags: list[tuple[str, list[str], list[str]]] = []

    def apply(self, draft: Draft) -> None:
        for uuid, add, remove in self.repair_tags:
            change_tags(draft, uuid, add=add, remove=remove)
        put(draft, replace(draft.maintenance, jobs=self.left))


class CancelIncident(Change, frozen=True, kw_only=True):
    """Nothing more is done about it; it is forgotten when it is no longer seen (S4.16)."""

    uuid: str

    def apply(self, draft: Draft) -> str:
        def cancel(incident: Incident) -> Incident:
            _remove_tags(draft, incident)
            return touched(draft, incident, repair_status=CANCELED)

        return _change_one(draft, self.uuid, cancel)


class ForgetIncident(Change, frozen=True, kw_only=True):
    """It is removed with its tag: a defect that persists is a new incident."""

    uuid: str

    def apply(self, draft: Draft) -> str:
        def forget(incident: Incident) -> None:
            _remove_tags(draft, incident)

        return _change_one(draft, self.uuid, forget)


class ChangeMaintenance(Change, frozen=True, kw_only=True):
    """How the daemon is to act, by attributes of `Maintenance`."""

    values: dict[str, Any] = {}

    def apply(self, draft: Draft) -> None:
        put(draft, replace(draft.maintenance, **self.values))


def find_incident(maintenance: Maintenance, word: str) -> Incident:
    """Find by id, or the beginning of one; raises `PrerequisiteError`."""
    found = [each for each in maintenance.incidents if each.uuid == word]
    found = found or [each for each in maintenance.incidents if word and each.uuid.startswith(word)]
    if len(found) == 1:
        return found[0]
    problem = f"fits {len(found)} incidents, write more of it" if found else "is the id of no incident"
    raise PrerequisiteError(f"'{word}' {problem}: gnt-cluster incidents list shows them", UNKNOWN_ENTITY)


def jobs_for_it_alone(maintenance: Maintenance, incident: Incident) -> list[int]:
    """The jobs of an incident that no other one needs: a node may be emptied for several."""
    needed = {job for each in maintenance.incidents if each.repair_status in OPEN for job in each.jobs}
    return [job for job in incident.jobs if job not in needed]


def tagged_nodes(view: ConfigView, incident: Incident) -> list[str]:
    """UUID of the node, where it has a tag of the incident: who changes that needs its lock."""
    node = view.get("nodes", incident.node)
    own = {ready_tag(incident.uuid), failed_tag(incident.uuid)}
    return [node.uuid] if isinstance(node, Node) and own.intersection(node.tags) else []


def touched(draft: Draft, incident: Incident, **values: Any) -> Incident:
    return replace(incident, serial_no=incident.serial_no + 1, mtime=draft.now_s, **values)


def put(draft: Draft, new: Maintenance) -> None:
    if new != draft.maintenance:
        draft.put("maintenance", new)


def change_tags(draft: Draft, uuid: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
    """Of a node or instance, if it is still there and has room for tags."""
    for kind in ("nodes", "instances"):
        old = draft.get(kind, uuid)
        if isinstance(old, Node | Instance):
            tags = [tag for tag in old.tags if tag not in set(remove)]
            tags += [tag for tag in add if tag not in tags and len(tags) < MOST]
            if tags != old.tags:
                draft.put(kind, replace(old, tags=sorted(tags)))


def _set_tag(draft: Draft, node: str, tag: str) -> str:
    """Gives the tag; nothing where the node has no room for it, so that nobody takes it for one that was removed."""
    change_tags(draft, node, add=[tag])
    found = draft.get("nodes", node)
    return tag if isinstance(found, Node) and tag in found.tags else ""


def _remove_tags(draft: Draft, incident: Incident) -> None:
    change_tags(draft, incident.node, remove=[ready_tag(incident.uuid), failed_tag(incident.uuid)])


def _change_one(draft: Draft, word: str, change: Callable[[Incident], Incident | None]) -> str:
    old = draft.maintenance
    chosen = find_incident(old, word)
    new = change(chosen)
    incidents = [each if each is not chosen else new for each in old.incidents]
    put(draft, replace(old, incidents=[each for each in incidents if each is not None]))
    return chosen.uuid
