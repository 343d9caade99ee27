# SPDX-License-Identifier: BSD-2-Clause
"""The words of ``--why``: reasons of many nodes in few lines, the nearest first."""

from collections.abc import Iterable, Sequence

from ganeti.placement.alike import Alike, alike, own_lacks
from ganeti.placement.lack import (
    ALLOC_POLICY,
    AVAILABILITY,
    DISK,
    DISK_SPINDLES,
    EXCLUSION_TAG,
    MEMORY,
    MIGRATION_TAG,
    NETWORK,
    OTHER_GROUP,
    POLICY,
    REDUNDANCY,
    RESOURCES,
    RESTRICTION,
    SPINDLE_USES,
    SPINDLES,
    UNITS,
    VCPUS,
    Lack,
    freed_words,
    listed,
    names_of,
    number,
)
from ganeti.placement.request import LargestSize, NearestFit, NodeRefusal, NoFit, Placement

_HAVE = {
    MEMORY: "too little memory",
    DISK: "too little disk",
    VCPUS: "too few vcpus",
    SPINDLES: "too few spindles",
    SPINDLE_USES: "no use of spindles left",
    EXCLUSION_TAG: "an instance with the same exclusion tag",
    DISK_SPINDLES: "exclusive storage, and the disks name no spindles",
    REDUNDANCY: "no room left for the failure of another node",
    NETWORK: "no connection to a network of the instance",
    ALLOC_POLICY: "an unallocable group",
    OTHER_GROUP: "another group than asked for",
    RESTRICTION: "no place among the nodes the request is restricted to",
    MIGRATION_TAG: "migration tags against it",
}
_BY_NAME = (*RESOURCES, EXCLUSION_TAG, REDUNDANCY)
"""Told of several nodes without the numbers and names of one."""
_FAILURES_SHOWN = 3


def why_lines(found: Placement | NoFit) -> list[str]:
    """Why each node was not chosen, many with the same reason in one line.

    Where nothing fits, the lines of `failure_lines` come first.
    """
    return [*(failure_lines(found) if isinstance(found, NoFit) else []), *grouped(found.refusals)]


def failure_lines(found: NoFit) -> list[str]:
    """At most four lines for the error of a failed creation.

    How many nodes lack what, the failures that keep everything out, the nearest fit, and what would fit now.
    """
    lines = [_summary(found.refusals)] if found.refusals else []
    return lines + (_nearest_lines(found.nearest) if found.nearest is not None else [])


def _summary(refusals: Sequence[NodeRefusal]) -> str:
    groups = alike(refusals)
    texts = [_counted(group) for group in groups[:_FAILURES_SHOWN]]
    left = sum(len(group.names) for group in groups[_FAILURES_SHOWN:])
    if left:
        texts.append(f"{left} more {'has' if left == 1 else 'have'} other reasons")
    return f"Of {len(refusals)} nodes " + "; ".join(texts) if len(refusals) > 1 else str(refusals[0])


def _counted(group: Alike) -> str:
    count, first = len(group.names), group.first
    if not first.lacks:
        return f"{count} would fit, {first.sentence.removeprefix('fits, ')}"
    own = own_lacks(first)
    if not own:
        return f"{count} would fit, but for failures that could not be absorbed even now"
    return f"{count} {_phrase(own, count == 1)}"


def _phrase(lacks: Iterable[Lack], single: bool) -> str:
    """``have too little memory and are drained``."""
    lacks = list(lacks)
    states = list(dict.fromkeys(str(lack.present) for lack in lacks if lack.constraint == AVAILABILITY))
    things = []
    for lack in lacks:
        if lack.constraint.startswith(POLICY):
            things.append(f"a policy against the {_POLICY_NAMES.get(lack.constraint, 'instance')}")
        elif lack.constraint in _HAVE:
            things.append(_HAVE[lack.constraint])
    parts = [f"{'is' if single else 'are'} {listed(states)}"] if states else []
    if things:
        parts.append(f"{'has' if single else 'have'} {listed(list(dict.fromkeys(things)))}")
    return " and ".join(parts) if parts else f"{'does' if single else 'do'} not fit"


_POLICY_NAMES = {
    "policy-memory": "size of its memory",
    "policy-disk": "size of its disks",
    "policy-vcpus": "number of its vcpus",
    "policy-disks": "number of its disks",
    "policy-spindles": "number of its spindles",
    "policy-spindle-uses": "uses of spindles",
    "policy-template": "disk template",
}


def _nearest_lines(nearest: NearestFit) -> list[str]:
    lines = []
    if nearest.unabsorbed:
        text = nearest.unabsorbed[0].sentence
        more = f" ({len(nearest.unabsorbed) - 1} more like it)" if len(nearest.unabsorbed) > 1 else ""
        remedy = f": free {freed_words(nearest.absorbing, '', '')}" if nearest.absorbing else ""
        lines.append(f"Nothing is admitted because {text}{more}{remedy}")
    if nearest.nodes:
        partner = f" with {nearest.nodes[1]} as secondary" if len(nearest.nodes) > 1 else ""
        lines.append(f"Nearest fit: {nearest.nodes[0]}{partner}, {nearest.change}")
    if nearest.largest:
        lines.append("What fits now: " + "; ".join(_size_words(size) for size in nearest.largest))
    return lines


def _size_words(size: LargestSize) -> str:
    where = "/".join(size.nodes)
    if size.scaled == MEMORY:
        return f"{size.memory_mib:,} MiB of memory on {where}"
    if size.scaled == DISK:
        return f"{size.disk_mib:,} MiB of disk on {where}"
    vcpus = f"{size.vcpus} vcpu{'' if size.vcpus == 1 else 's'}"
    if size.scaled == VCPUS:
        return f"{vcpus} on {where}"
    return f"in proportion {size.memory_mib:,} MiB of memory, {size.disk_mib:,} MiB of disk, {vcpus} on {where}"


# node by node


def grouped(refusals: Sequence[NodeRefusal]) -> list[str]:
    """One line for each reason, the nearest nodes first."""
    return [_group_line(group) for group in alike(refusals)]


def _group_line(group: Alike) -> str:
    first = group.first
    if len(group.names) == 1:
        return str(first)
    names = f"{len(group.names)} nodes ({names_of(group.names)})"
    if not first.lacks:
        return f"{names}: {first.sentence}"
    return f"{names}: {_range_words(group)}; {_nearest_of(first)}"


def _nearest_of(first: NodeRefusal) -> str:
    return f"nearest is {first.node}, {first.change}" if first.change else "no change of one thing would do"


def _range_words(group: Alike) -> str:
    """What all of them lack, with the least and the most that is missing."""
    texts = []
    for lack in {lack.constraint: lack for lack in own_lacks(group.first)}.values():
        if lack.constraint not in RESOURCES or lack.constraint not in group.missing:
            texts.append(_HAVE.get(lack.constraint, lack.sentence) if lack.constraint in _BY_NAME else lack.sentence)
            continue
        least, most = group.missing[lack.constraint]
        shown = number(least) if least == most else f"{number(least)} to {number(most)}"
        texts.append(f"{_HAVE[lack.constraint]} ({shown} {UNITS[lack.constraint]} short)")
    return "; ".join(texts) or "would fit, but for failures that could not be absorbed even now"
