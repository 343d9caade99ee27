# SPDX-License-Identifier: BSD-2-Clause
"""Incremental backups that are unfinished, or that nobody can read."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ganeti.master.verify.findings import WARNING, Finding
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodeAnswer
from ganeti.wire.backup_file import Backup, UnreadableBackupError, decode


def leftovers(view: ConfigView, instances: Collection[Instance], answers: Sequence[NodeAnswer]) -> Iterator[Finding]:
    """*instances* are those that no job works on now: a backup of another one may be on its way."""
    at_rest, stores = {instance.uuid for instance in instances}, set[str]()
    for answer in answers:
        if answer.error is not None:
            continue  # that the node does not answer is told elsewhere
        node, shared = view.node(answer.node_uuid).name, answer.value.shared
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


def _fault(manifest: str, keys: Mapping[str, str]) -> str:
    try:
        decode(manifest, Backup, keys)
    except UnreadableBackupError as err:
        return str(err)
    return ""


def _name(view: ConfigView, uuid: str) -> str:
    found = view.get("instances", uuid)
    return found.name if isinstance(found, Instance) else f"instance {uuid}, which is gone,"
