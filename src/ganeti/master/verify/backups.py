# SPDX-License-Identifier: BSD-2-Clause
"""Incremental backups that are unfinished, that nobody can read, or that are not made although they should be."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ganeti.base.errors import NodeCallError
from ganeti.master.backups import CREATE, schedule_of
from ganeti.master.verify.findings import WARNING, Finding
from ganeti.model.objects import BackupSchedule, Instance, Node
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodeAnswer
from ganeti.wire.backup_file import Backup, UnreadableBackupError, decode


def leftovers(view: ConfigView, instances: Collection[Instance], answers: Sequence[NodeAnswer]) -> Iterator[Finding]:
    """*instances* are those that no job works on now: a backup of another one may be on its way."""
    at_rest, stores = {instance.uuid for instance in instances}, set[str]()
    for answer in answers:
        node = view.node(answer.node_uuid).name
        if answer.error is not None:
            if not isinstance(answer.error, NodeCallError):  # one that does not answer at all is told elsewhere
                yield Finding("ENODESETUP", node, f"its backups cannot be listed: {answer.error}", WARNING)
            continue
        shared = answer.value.shared
        store = answer.value.identity or shared
        if store in stores:
            continue  # another node has told of it
        stores |= {store} - {""}
        for uuid, backup in answer.value.unfinished:
            if uuid in at_rest or view.get("instances", uuid) is None:
                place = f"{uuid}/{backup} from {shared}" if shared else f"/srv/ganeti/backup/{uuid}/{backup}.new"
                told = f"backup {backup} of {_name(view, uuid)} was begun and never finished: remove {place}"
                yield Finding("ENODEORPHANLV", node, told)
        for files in answer.value.backups:
            if why := files.fault or _fault(files.manifest, view.backups.keys):
                what = f"backup {files.id} of {_name(view, files.instance_uuid)} cannot be used: {why}"
                yield Finding("ENODEORPHANLV", node, what, WARNING)


def missing(view: ConfigView, now_s: float) -> Iterator[Finding]:
    """What schedules ask for and is not there: their jobs fail, or are not even submitted."""
    working = set[str]()
    for schedule in view.backups.schedules:
        node = view.get("nodes", schedule.node)
        if not isinstance(node, Node):
            told = f"backup schedule {schedule.name} keeps its backups on a node that does not exist, so none is made"
            yield Finding("ECLUSTERCFG", "", f"{told}: add it anew with another node (gnt-backup schedule add)")
        elif node.offline:
            told = f"backup schedule {schedule.name} keeps its backups on node {node.name}, which is offline"
            yield Finding("ECLUSTERCFG", "", f"{told}: none is made until it is back", WARNING)
        else:
            working.add(schedule.name)
    for instance in view.instances():
        wanted = schedule_of(view, instance)
        if wanted is not None and wanted.name in working and (late := _late(view, instance, wanted, now_s)):
            yield Finding("ECLUSTERCFG", "", f"backup schedule {wanted.name}: {late}", WARNING)


def _late(view: ConfigView, instance: Instance, schedule: BackupSchedule, now_s: float) -> str:
    """What is wrong with the newest backup of an instance; empty if nothing is."""
    key = f"{CREATE} {instance.uuid}"
    made_s = view.backups.done.get(key)
    if made_s is None:
        return f"no backup of {instance.name} was made, see its jobs" if key in view.backups.tried else ""
    age_s = now_s - made_s
    if schedule.interval_s <= 0 or age_s < 2 * schedule.interval_s:
        return ""
    return f"the newest backup of {instance.name} is {age_s / 3600:.0f} h old, see its jobs"


def _fault(manifest: str, keys: Mapping[str, str]) -> str:
    try:
        decode(manifest, Backup, keys)
    except UnreadableBackupError as err:
        return str(err)
    return ""


def _name(view: ConfigView, uuid: str) -> str:
    found = view.get("instances", uuid)
    return found.name if isinstance(found, Instance) else f"instance {uuid}, which is gone,"
