# SPDX-License-Identifier: BSD-2-Clause
"""What placement would say of another cluster: its answers for a new instance, and for each node that is emptied.

A copy of the configuration does not say what is free on the nodes. A text file of the cluster does, as `hscan`, or
`hbal -S`, of that cluster writes it (spec: htools, 1).
"""

from typing import Any

from ganeti.base.errors import PrerequisiteError
from ganeti.model.templates import TEMPLATES
from ganeti.placement.cluster.picture import Cluster, Disk, Instance
from ganeti.placement.cluster.policy import Spec
from ganeti.placement.dispatch import place
from ganeti.placement.request.terms import Allocate, EvacuationMode, NodeEvacuate, Options, Question, RequestError
from ganeti.placement.service import response_to
from ganeti.tools.htools.loading import text

_OPTIONS = Options(why=False, why_not=False)
_NEW = "new-instance"


def placement_preview(path: str) -> list[str]:
    """Lines to be shown; raises `GanetiError` for what is no text file of a cluster."""
    try:
        with open(path, encoding="utf-8") as file:
            cluster, _ = text.read(file.read())
    except (OSError, UnicodeDecodeError) as err:
        raise PrerequisiteError(f"{path} cannot be read: {getattr(err, 'strerror', None) or err}") from err
    except text.TextError as err:
        raise PrerequisiteError(f"{path} is no text file of a cluster, as hscan writes it: {err}") from err
    lines = [f"What placement would say, by {path}:"]
    lines += [f"  - {sentence}" for sentence in (*_new(cluster), *_emptied(cluster))]
    return lines


def _new(cluster: Cluster) -> list[str]:
    size = cluster.policy.standard
    words = f"{size.memory_mib} MiB of memory, {size.cpus} processors, {size.disks} disks of {size.disk_mib} MiB"
    found = []
    for template in sorted({each.template for each in cluster.instances} & set(TEMPLATES)):
        answer = _asked(cluster, Allocate(_instance(template, size), required_nodes=_copies(cluster, template)))
        place_of = f"goes to {' and '.join(answer['result'])}" if answer["success"] else answer["info"]
        found.append(f"a new instance on {template}, {words}: {place_of}")
    return found


def _emptied(cluster: Cluster) -> list[str]:
    found = []
    for node in cluster.nodes:
        names = tuple(each.name for each in cluster.instances if each.primary == node.name)
        if not names or node.unavailable:
            continue
        answer = _asked(cluster, NodeEvacuate(names, EvacuationMode.PRIMARY_ONLY))
        if not answer["success"]:
            found.append(f"{node.name} emptied: {answer['info']}")
            continue
        moved, failed, _ = answer["result"]
        sentences = [f"{name} to {', '.join(nodes)}" for name, _, nodes in moved]
        sentences += [f"{name} stays ({reason})" for name, reason in failed]
        found.append(f"{node.name} emptied: {'; '.join(sentences)}")
    return found


def _asked(cluster: Cluster, question: Question) -> dict[str, Any]:
    try:
        response, _ = response_to(question, place(cluster, question, options=_OPTIONS))
    except RequestError as err:
        return {"success": False, "info": str(err)}
    return response


def _copies(cluster: Cluster, template: str) -> int:
    return 2 if any(each.secondary for each in cluster.instances if each.template == template) else 1


def _instance(template: str, size: Spec) -> Instance:
    disks = tuple(Disk(size.disk_mib) for _ in range(size.disks))
    return Instance(
        name=_NEW,
        memory_mib=size.memory_mib,
        disk_mib=size.disk_mib * size.disks,
        vcpus=size.cpus,
        template=template,
        disks=disks,
        spindle_use=size.spindle_use,
    )
