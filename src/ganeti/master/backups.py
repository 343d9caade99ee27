# SPDX-License-Identifier: BSD-2-Clause
"""What is due by the schedules of backups, decided from the configuration alone; and what is recorded of it. Pure.

A job that was submitted is recorded before, so that no crash submits it twice; one that did not come to a good end is
submitted again after a while.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from ganeti.model.configuration import Draft
from ganeti.model.objects import Backups, BackupSchedule, Instance
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change

CREATE, PROVE = "create", "prove"
INSTANCE, TAG, GROUP, CLUSTER = SCOPES = ("instance", "tag", "group", "cluster")
_RETRY_MOST_S = 3600.0


class RecordBackup(Change, frozen=True, kw_only=True):
    """A backup of an instance is there."""

    instance_uuid: str
    made_s: float

    def apply(self, draft: Draft) -> None:
        _record_done(draft, f"{CREATE} {self.instance_uuid}", self.made_s)


class RecordProof(Change, frozen=True, kw_only=True):
    """A backup of an instance was booted, and has shown a sign of life."""

    instance_uuid: str
    proved_s: float

    def apply(self, draft: Draft) -> None:
        _record_done(draft, f"{PROVE} {self.instance_uuid}", self.proved_s)


class RecordTries(Change, frozen=True, kw_only=True):
    """Jobs are about to be submitted; what is known of instances that are gone is forgotten."""

    tried: list[str]
    """Keys of `Backups.tried`."""
    now_s: float

    def apply(self, draft: Draft) -> None:
        old = draft.backups
        tried = _of_instances(draft, old.tried | dict.fromkeys(self.tried, self.now_s))
        draft.put("backups", replace(old, tried=tried, done=_of_instances(draft, old.done)))


class PutSchedule(Change, frozen=True, kw_only=True):
    """A schedule is as given, in the place of one of that name."""

    schedule: BackupSchedule

    def apply(self, draft: Draft) -> None:
        old = draft.backups
        others = [each for each in old.schedules if each.name != self.schedule.name]
        schedules = sorted([*others, self.schedule], key=lambda each: each.name)
        draft.put("backups", replace(old, schedules=schedules))


class DropSchedule(Change, frozen=True, kw_only=True):
    name: str

    def apply(self, draft: Draft) -> None:
        old = draft.backups
        draft.put("backups", replace(old, schedules=[each for each in old.schedules if each.name != self.name]))


@dataclass(frozen=True)
class Due:
    """What a job is to do."""

    kind: str
    """`CREATE` or `PROVE`."""
    instance: Instance
    node_name: str
    """The node that keeps the backups."""
    keep: int
    schedule: str

    @property
    def key(self) -> str:
        return f"{self.kind} {self.instance.uuid}"


def due(view: ConfigView, now_s: float) -> list[Due]:
    """What is to be done now: for each instance by the first schedule that names it, and no proof beside a backup."""
    own = view.backups
    found: list[Due] = []
    for instance in view.instances():
        schedule = schedule_of(view, instance)
        if schedule is None or instance.forthcoming or _out_of_reach(view, instance, schedule):
            continue
        node = view.node(schedule.node).name
        for kind, interval_s in ((CREATE, schedule.interval_s), (PROVE, schedule.prove_interval_s)):
            made_s = own.done.get(f"{CREATE} {instance.uuid}")
            if kind == PROVE and made_s is None:
                continue
            if _is_due(own, f"{kind} {instance.uuid}", interval_s, now_s):
                found.append(Due(kind, instance, node, schedule.keep, schedule.name))
                break
    return found


def schedule_of(view: ConfigView, instance: Instance) -> BackupSchedule | None:
    """The schedule that holds for an instance: the one that names it most narrowly, of several the first by name."""
    fitting = [each for each in view.backups.schedules if _fits(view, instance, each)]
    return min(fitting, key=lambda each: (SCOPES.index(each.scope), each.name), default=None)


def jobs_of(each: Due) -> list[dict[str, object]]:
    """The opcodes of its job."""
    name = each.instance.name
    if each.kind == PROVE:
        return [{"OP_ID": "OP_BACKUP_PROVE", "instance_name": name}]
    create: dict[str, object] = {"OP_ID": "OP_BACKUP_CREATE", "instance_name": name, "node": each.node_name}
    return [create, {"OP_ID": "OP_BACKUP_FORGET", "instance_name": name, "keep": each.keep}]


def _fits(view: ConfigView, instance: Instance, schedule: BackupSchedule) -> bool:
    if schedule.scope == INSTANCE:
        return schedule.target == instance.uuid
    if schedule.scope == TAG:
        return schedule.target in instance.tags
    return schedule.scope == CLUSTER or view.node(instance.primary_node).group == schedule.target


def _out_of_reach(view: ConfigView, instance: Instance, schedule: BackupSchedule) -> bool:
    nodes = [view.get("nodes", uuid) for uuid in (instance.primary_node, schedule.node)]
    return not instance.disks or any(node is None or getattr(node, "offline", True) for node in nodes)


def _is_due(own: Backups, key: str, interval_s: int, now_s: float) -> bool:
    if interval_s <= 0:
        return False
    retry_s = min(float(interval_s), _RETRY_MOST_S)
    return _passed(own.done.get(key), now_s, interval_s) and _passed(own.tried.get(key), now_s, retry_s)


def _passed(then_s: float | None, now_s: float, interval_s: float) -> bool:
    """A time in the future, after a clock was set back, counts for nothing."""
    return then_s is None or not 0 <= now_s - then_s < interval_s


def _record_done(draft: Draft, key: str, time_s: float) -> None:
    old = draft.backups
    draft.put("backups", replace(old, done=old.done | {key: time_s}))


def _of_instances(view: ConfigView, times: dict[str, float]) -> dict[str, float]:
    return dict(_there(view, times))


def _there(view: ConfigView, times: dict[str, float]) -> Iterator[tuple[str, float]]:
    for key, time_s in times.items():
        if view.get("instances", key.rpartition(" ")[2]) is not None:
            yield key, time_s
