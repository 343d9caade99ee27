# SPDX-License-Identifier: BSD-2-Clause
"""The words of ``--why``: reasons of many nodes in few lines, the nearest first."""

from collections.abc import Iterable, Sequence

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import (
    ALLOC_POLICY,
    AVAILABILITY,
    DISK,
    DISK_SPINDLES,
    EXCLUSION_TAG,
    MEMORY,
    MIGRATION_TAG,
    NETWORK,
    OTHER_GROUP,
    REDUNDANCY,
    RESOURCES,
    RESTRICTION,
    SPINDLE_USES,
    SPINDLES,
    UNITS,
    VCPUS,
    Lack,
    at_least,
    at_most,
    freed_words,
    listed,
    names_of,
)
from ganeti.placement.request.terms import LargestSize, NearestFit, NodeRefusal, NoFit, Placement
from ganeti.placement.why.alike import Alike, alike, is_of_partner, own_lacks

_HAVE = {
    MEMORY: "too little memory",
    DISK: "too little disk",
    VCPUS: "too few vcpus",
    SPINDLES: "too few spindles",
    SPINDLE_USES: "no use of spindles left",
    EXCLUSION_TAG: "an instance with the same exclusion tag",
    DISK_SPINDLES: "exclusive storage, and the disks name no spindles",
    REDUNDANCY: "no room left for the failure of another node",
    MIGRATION_TAG: "migration tags against it",
}
_ARE = {
    NETWORK: "not connected to a network of the instance",
    ALLOC_POLICY: "in a group that takes no new instances (unallocable)",
    OTHER_GROUP: "in another group than asked for",
    RESTRICTION: "not among the nodes asked for",
}
_BY_NAME = (*RESOURCES, EXCLUSION_TAG, REDUNDANCY)
"""Told of several nodes without the numbers and names of one."""
_FAILURES_SHOWN = 3
_BUT_FOR_FAILURES = "would fit, but for failures that could not be absorbed"


def why_lines(found: Placement | NoFit) -> list[str]:
    """Why each node was not chosen, many with the same reason in one line.

    Where nothing fits, the lines of `failure_lines` come first.
    """
    told = failure_lines(found) if isinstance(found, NoFit) else []
    nearest = found.nearest.nodes if isinstance(found, NoFit) and found.nearest is not None else ()
    if len(found.refusals) == 1 and told:
        return told
    return [*told, *grouped(found.refusals, nearest)]


def failure_lines(found: NoFit) -> list[str]:
    """At most five lines for the error of a failed creation, the remedy first.

    The failures that keep everything out, the nearest fit, how many nodes lack what, which half of a pair is missing,
    and what would fit now.
    """
    lines = _only_node_lines(found.refusals) if found.nearest is not None else []
    lines += _nearest_lines(found.nearest) if found.nearest is not None else []
    if found.refusals:
        lines.append(_summary(found.refusals))
    if found.selected is not None:
        already = ", ".join(found.selected) or "none"
        lines.append(f"Can't find a suitable node for position {len(found.selected) + 1} (already selected: {already})")
    if found.nearest is not None and found.nearest.largest:
        lines.append("What fits now: " + "; ".join(_size_words(size) for size in found.nearest.largest))
    return lines


def _only_node_lines(refusals: Sequence[NodeRefusal]) -> list[str]:
    """How to go on where a single node is in use: it may be asked for, though its failure can never be absorbed."""
    groups = alike(refusals)
    used = [group for group in groups if all(lack.constraint != AVAILABILITY for lack in group.first.lacks)]
    if len(used) != 1 or len(used[0].names) != 1:
        return []
    only = used[0].first
    if only.mode != FailMode.FailN1 or any(lack.mode != FailMode.FailN1 for lack in only.lacks):
        return []
    return [f"Name the node to place it all the same (-n {only.node}): no other one could take over if that fails"]


def _summary(refusals: Sequence[NodeRefusal]) -> str:
    groups = alike(refusals)
    if len(refusals) == 1:
        return f"{refusals[0].node}: {refusals[0].sentence}"
    if len(groups) == 1:
        everyone = "Both nodes" if len(refusals) == 2 else f"All {len(refusals):,} nodes"
        return f"{everyone} {_counted(groups[0]).removeprefix(f'{len(refusals):,} ')}"
    texts = [_counted(group) for group in groups[:_FAILURES_SHOWN]]
    left = sum(len(group.names) for group in groups[_FAILURES_SHOWN:])
    if left:
        texts.append(f"{left:,} more {'has' if left == 1 else 'have'} other reasons")
    return f"Of {len(refusals):,} nodes " + "; ".join(texts)


def _counted(group: Alike) -> str:
    count, first = len(group.names), group.first
    if not first.lacks:
        return f"{count:,} would fit, {first.sentence.removeprefix('fits, ')}"
    own = own_lacks(first)
    if _but_for_failures(first):
        return f"{count:,} {_BUT_FOR_FAILURES}"
    if is_of_partner(first, own):
        return f"{count:,} would do, but no other node would with {'it' if count == 1 else 'them'}"
    return f"{count:,} {_phrase(own, count == 1)}"


def _but_for_failures(refusal: NodeRefusal) -> bool:
    """Whether the node has room itself, but too little would be left for the failure of another one elsewhere."""
    own = own_lacks(refusal)
    return not own or (is_of_partner(refusal, own) and all(lack.constraint == REDUNDANCY for lack in own))


def _phrase(lacks: Iterable[Lack], single: bool) -> str:
    """``are drained and have too little memory``, ``are refused by the policy (memory)``."""
    lacks = list(lacks)
    states = [str(lack.present) for lack in lacks if lack.constraint == AVAILABILITY]
    states = list(dict.fromkeys([*states, *(_ARE[lack.constraint] for lack in lacks if lack.constraint in _ARE)]))
    policy = [_POLICY_NAMES[lack.constraint] for lack in lacks if lack.constraint in _POLICY_NAMES]
    things = list(dict.fromkeys(_HAVE[lack.constraint] for lack in lacks if lack.constraint in _HAVE))
    verb = "is" if single else "are"
    parts = [f"{verb} {listed(states)}"] if states else []
    if policy:
        parts.append(f"{verb} refused by the policy ({', '.join(dict.fromkeys(policy))})")
    if things:
        parts.append(f"{'has' if single else 'have'} {listed(things)}")
    return listed(parts) if parts else f"{'does' if single else 'do'} not fit"


_POLICY_NAMES = {
    "policy-memory": "memory",
    "policy-disk": "size of a disk",
    "policy-vcpus": "vcpus",
    "policy-disks": "number of disks",
    "policy-spindles": "spindles",
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
        partner = f" (secondary {nearest.nodes[1]})" if len(nearest.nodes) > 1 else ""
        lines.append(f"Nearest fit: {nearest.nodes[0]}{partner}, {nearest.change}")
    return lines


def _size_words(size: LargestSize) -> str:
    where = "/".join(size.nodes)
    if size.scaled == MEMORY:
        return f"{at_most(size.memory_mib)} of memory on {where}"
    if size.scaled == DISK:
        return f"{at_most(size.disk_mib)} of disk on {where}"
    vcpus = f"{size.vcpus} vcpu{'' if size.vcpus == 1 else 's'}"
    if size.scaled == VCPUS:
        return f"{vcpus} on {where}"
    return f"in proportion {at_most(size.memory_mib)} of memory, {at_most(size.disk_mib)} of disk, {vcpus} on {where}"


# node by node


def grouped(refusals: Sequence[NodeRefusal], told: Sequence[str] = ()) -> list[str]:
    """One line for each reason, the nearest nodes first; of the nodes *told* the remedy was said already."""
    return [_group_line(group, told) for group in alike(refusals)]


def _group_line(group: Alike, told: Sequence[str]) -> str:
    first = group.first
    if len(group.names) == 1:
        return str(first)
    names = names_of(group.names, "nodes")
    if not first.lacks:
        return f"{names}: {_plural(first.sentence)}"
    remedy = "" if first.node in told and first.change else f"; {_nearest_of(first)}"
    return f"{names}: {_range_words(group)}{remedy}"


def _nearest_of(first: NodeRefusal) -> str:
    return f"nearest is {first.node}, {first.change}" if first.change else "no change of one thing would do"


def _range(resource: str, least: int, most: int) -> str:
    """``513 to 2,561 MiB``, ``1 vcpu``."""
    first, last = (at_least(n) if resource in (MEMORY, DISK) else f"{n:,} {UNITS[resource]}" for n in (least, most))
    if least == most:
        return last.removesuffix("s") if least == 1 else last
    value, unit = first.split(" ", 1)
    return f"{value} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"


def _plural(sentence: str) -> str:
    """What is said of one node, said of several."""
    first, _, rest = sentence.partition(" ")
    several = {"is": "are", "has": "have", "its": "their", "fits,": "fit,"}
    return f"{several.get(first, first)} {rest}"


def _range_words(group: Alike) -> str:
    """What all of them lack, with the least and the most that is missing."""
    texts = []
    if _but_for_failures(group.first):
        return _BUT_FOR_FAILURES
    if is_of_partner(group.first, own_lacks(group.first)):
        return _plural(group.first.sentence)
    for lack in {lack.constraint: lack for lack in own_lacks(group.first)}.values():
        if lack.constraint not in RESOURCES or lack.constraint not in group.missing:
            texts.append(
                _HAVE.get(lack.constraint, lack.sentence) if lack.constraint in _BY_NAME else _plural(lack.sentence)
            )
            continue
        least, most = group.missing[lack.constraint]
        texts.append(f"{_HAVE[lack.constraint]} ({_range(lack.constraint, least, most)} short)")
    return "; ".join(texts)
