# SPDX-License-Identifier: BSD-2-Clause
"""How many more instances fit: what is asked of allocators for which node group, and their answers read (S1.64-S1.72).

Pure. Parameters are those of the request, or else of the node group, or else of the cluster (S1.66).
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.model import inheritance
from ganeti.model.capacity import Capacity
from ganeti.model.objects import NodeGroup
from ganeti.model.placement_requests import CountCapacity
from ganeti.model.templates import NO_DISKS, traits_of
from ganeti.model.view import ConfigView
from ganeti.ports.luxid import Placement

PARAMETERS = ("max_inst_spec", "default_template", "max_cpu_ratio", "max_disk_usage")
Plain = dict[str, Any]
_POLICY_SIZE = ("memory-size", "disk-size", "cpu-count")
"""What policies call the parts of a size."""
_NUMBERS = 4
"""Memory and disk in MiB, virtual CPUs, and how many instances of that size."""


def question(view: ConfigView, group: NodeGroup, allocator: str, given: Mapping[str, Any]) -> Plain:
    """What is asked about a group: the same question may have the same answer.

    A parameter that nobody gives is the policy's, which is left to the allocator; but for the template, since free
    space is that for disks of one template: the first one that is enabled and that the policy allows.
    """
    kept = inheritance.group_capacity(view.cluster, group)
    found = {name: kept.get(name) if given.get(name) is None else given[name] for name in PARAMETERS}
    if found["default_template"] is None:
        found["default_template"] = _usual_template(view, group)
    return {"iallocator": allocator, **found}


def check_template(view: ConfigView, template: str | None) -> None:
    """Refuse a disk template that the cluster does not have; raises `PrerequisiteError`."""
    enabled = view.cluster.enabled_disk_templates
    if template is not None and template not in enabled:
        raise PrerequisiteError(
            f"Disk template '{template}' is not enabled: there are {', '.join(enabled)}", WRONG_INPUT
        )


def refusal(view: ConfigView, group: NodeGroup, asked: Plain) -> str:
    """Why the group's policy admits nothing of what is asked, whatever room there is, in one sentence; else nothing.

    Sizes only become smaller in counting, and those of no disk have to be as large as those of one.
    """
    policy = inheritance.group_ipolicy(view.cluster, group)
    template, allowed = asked["default_template"], policy.get("disk-templates")
    if allowed is not None and template not in allowed:
        wanted = ", ".join(name for name in view.cluster.enabled_disk_templates if name in allowed)
        remedy = f"name one of {wanted}" if wanted else "it allows none that is enabled, so change the policy"
        return f"The policy of node group '{group.name}' does not allow disk template '{template}': {remedy}"
    size = asked["max_inst_spec"]
    minima = [[pair["min"].get(name, 0) for name in _POLICY_SIZE] for pair in policy.get("minmax", ())]
    if size is None or not minima or any(all(map(operator.ge, size, least)) for least in minima):
        return ""
    memory_mib, disk_mib, vcpus = minima[0]
    return (
        f"A max_inst_spec of {list(size)} is below every minimum of the policy of node group '{group.name}': give at"
        f" least {memory_mib} MiB of memory, {disk_mib} MiB of disk and {vcpus} vcpus"
    )


def _usual_template(view: ConfigView, group: NodeGroup) -> str:
    enabled = view.cluster.enabled_disk_templates
    allowed = inheritance.group_ipolicy(view.cluster, group).get("disk-templates", enabled)
    wanted = [name for name in enabled if name in allowed] or enabled
    return next((name for name in wanted if traits_of(name) is not None), NO_DISKS)


def requests(
    questions: Mapping[str, Plain], if_added: Sequence[str] = (), if_lost: Sequence[str] = ()
) -> list[CountCapacity]:
    """Requests to one allocator, one for each disk template: what there is of free space is told for one."""
    templates = dict.fromkeys(asked["default_template"] for asked in questions.values())
    own = [name for name in PARAMETERS if name != "default_template"]
    found = []
    for template in templates:
        groups = {uuid: asked for uuid, asked in questions.items() if asked["default_template"] == template}
        parameters = {
            uuid: {name: asked[name] for name in own if asked[name] is not None} for uuid, asked in groups.items()
        }
        found.append(
            CountCapacity(
                node_groups=list(groups),
                default_template=template,
                group_parameters=parameters,
                if_added=list(if_added),
                if_lost=list(if_lost),
            )
        )
    return found


def read_answer(request: CountCapacity, result: Any) -> dict[str, Plain]:
    """The entry of each group asked about, by uuid; raises `GanetiError` for what is no answer."""
    groups = result.get("node_groups") if isinstance(result, dict) else None
    if not isinstance(groups, dict):
        raise GanetiError("the result of a capacity request must be an object with 'node_groups'")
    found = {}
    for uuid in request.node_groups:
        entry = groups.get(uuid)
        if not isinstance(entry, dict) or not _is_tiered(entry.get("tspecs")):
            raise GanetiError(f"node group {uuid} has no 'tspecs' that are lists of memory, disk, vcpus and count")
        asked = request.group_parameters[uuid] | {"default_template": request.default_template}
        found[uuid] = {"tspecs": _merged([entry["tspecs"]])} | {
            name: entry.get(name, asked.get(name)) for name in PARAMETERS
        }
    return found


def reasons(answer: Placement) -> dict[str, str]:
    """Why nothing fits, by group, of an answer that `read_answer` has read.

    The built-in allocator tells a sentence for each group of its result that has no room, in their order.
    """
    told = answer.reasons
    if not told:
        return {}
    empty = [uuid for uuid, entry in answer.result["node_groups"].items() if not entry["tspecs"]]
    return dict(zip(empty, told, strict=True)) if len(told) == len(empty) else {}


def supposed(answer: Placement) -> str:
    """What would become of instances, as the built-in allocator tells it first."""
    told = answer.info.partition(": ")[2].partition("; ")[0]
    return told if "would" in told else ""


def _is_tiered(given: Any) -> bool:
    return isinstance(given, list) and all(
        isinstance(row, list) and len(row) == _NUMBERS and all(type(number) is int and number >= 0 for number in row)
        for row in given
    )


def summed(found: Mapping[str, Capacity], now_s: float) -> Plain:
    """The result of the opcode (S1.69 to S1.71); without any group, that of *now_s*."""
    return {
        "cluster": _merged(capacity.result["tspecs"] for capacity in found.values()),
        "node_groups": {uuid: capacity.result for uuid, capacity in found.items()},
        "ctime": min((capacity.counted_at for capacity in found.values()), default=now_s),
    }


def _merged(lists: Iterable[Sequence[Sequence[int]]]) -> list[list[int]]:
    """The largest sizes first, none twice."""
    counts: dict[tuple[int, ...], int] = {}
    for rows in lists:
        for *size, count in rows:
            counts[tuple(size)] = counts.get(tuple(size), 0) + count
    return [[*size, count] for size, count in sorted(counts.items(), reverse=True)]
