# SPDX-License-Identifier: BSD-2-Clause
"""What a node lacks for an instance, and changes that would admit it: as numbers for programs, as words for people."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.placement.cluster.failure import FailMode

INSTANCE, NODE, GROUP, REQUEST = "instance", "node", "group", "request"
"""Whose property a change is about."""

MEMORY, DISK, VCPUS, SPINDLES, SPINDLE_USES = "memory", "disk", "vcpus", "spindles", "spindle-uses"
RESOURCES = (MEMORY, DISK, VCPUS, SPINDLES, SPINDLE_USES)
REDUNDANCY, EXCLUSION_TAG, DISK_SPINDLES = "redundancy", "exclusion-tag", "disk-spindles"
REDUNDANCY_NOW = "redundancy-now"
"""A failure that could not be absorbed even without the instance; as the *target* of a change: freed because of one."""
VCPU_RATIO, SPINDLE_RATIO = "vcpu-ratio", "spindle-ratio"
POLICY = "policy-"
"""Begins the name of a constraint of the group's policy: ``policy-memory``, ``policy-template``, …"""
AVAILABILITY, NETWORK, ALLOC_POLICY = "availability", "network", "alloc-policy"
MIGRATION_TAG, TEMPLATE = "migration-tag", "template"
OTHER_GROUP, RESTRICTION, NODE_COUNT = "group", "restriction", "node-count"

UNITS = {MEMORY: "MiB", DISK: "MiB", VCPUS: "vcpus", SPINDLES: "spindles", SPINDLE_USES: "spindle uses"}
_POLICY_SIZES = {"policy-memory": "of memory", "policy-disk": "in a disk"}
_POLICY_WORDS = {
    "policy-vcpus": "vcpus",
    "policy-spindle-uses": "spindle uses",
    "policy-spindles": "spindles",
    "policy-disks": "disks",
}
NAMES_SHOWN = 3
_PARTS = 10_000
_LARGE = 10 * 1024
"""From here on sizes have a larger unit."""


@dataclass(frozen=True, slots=True)
class Lack:
    """One constraint that keeps an instance off a node: *needed* against *present*, numbers in *unit* or names."""

    constraint: str
    sentence: str
    mode: FailMode | None = None
    needed: float | str = ""
    present: float | str = ""
    unit: str = ""
    node: str = ""

    def plain(self) -> dict[str, Any]:
        return {
            "constraint": self.constraint,
            "needed": self.needed,
            "present": self.present,
            "unit": self.unit,
            "node": self.node,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a change that would admit the instance.

    For *subject* `INSTANCE` the instance asks for *amount* less (negative: more); for `NODE` so much is freed on
    *name*, or the instance *target* leaves it; for `GROUP` the policy or setting of group *name* becomes *target*;
    for `REQUEST` the request says *target*. *share* is its size beside what is asked for; the smaller the nearer.
    """

    subject: str
    constraint: str
    name: str = ""
    amount: float = 0
    target: float | str = ""
    share: float = 0

    def plain(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "constraint": self.constraint,
            "name": self.name,
            "amount": self.amount,
            "unit": UNITS.get(self.constraint, ""),
            "target": self.target,
        }


Way = tuple[Change, ...]
"""A change that suffices: all its parts together."""


def distance(way: Way) -> float:
    """How much a way asks for: the sum of the shares of its parts."""
    return sum(change.share for change in way)


def names_of(names: Sequence[str], what: str = "", shown: int = NAMES_SHOWN) -> str:
    """``a, b, c and 7 more nodes``: the first names; *what* is the plural of the rest."""
    if len(names) <= shown + 1:
        return listed(names)
    return f"{', '.join(names[:shown])} and {len(names) - shown:,} more {what}".rstrip()


def at_least(mib: int) -> str:
    """``4,096 MiB``, ``32 GiB``, ``12.4 GiB``: easy to read, and never less than *mib*."""
    return _size(mib, math.ceil)


def at_most(mib: int) -> str:
    """The same, never more than *mib*."""
    return _size(mib, math.floor)


def _size(mib: int, rounded: Callable[[float], int]) -> str:
    """Small sizes are exact: they are what is typed. Of large ones a tenth does."""
    if abs(mib) < _LARGE:
        return f"{mib:,} MiB"
    unit, whole = ("TiB", 1024 * 1024) if abs(mib) >= _LARGE * 1024 else ("GiB", 1024)
    if mib % whole == 0:
        return f"{mib // whole:,} {unit}"
    return f"{rounded(10 * mib / whole) / 10:,.1f}".removesuffix(".0") + f" {unit}"


def number(value: float) -> str:
    """1,024 or 4.25: with separators, without useless decimals, and never less than *value*."""
    if value == int(value):
        return f"{int(value):,}"
    shown = math.ceil(value * _PARTS) / _PARTS
    return f"{shown if shown >= value else shown + 1 / _PARTS:,.4f}".rstrip("0").rstrip(".")


def listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _amount(constraint: str, amount: float) -> str:
    """``512 MiB of memory``, ``1 vcpu``."""
    if constraint in (MEMORY, DISK):
        return f"{at_least(int(amount))} of {constraint}"
    return _count(amount, UNITS[constraint])


def _count(amount: float, unit: str) -> str:
    return f"{number(amount)} {unit.removesuffix('s') if amount == 1 else unit}"


def _less(changes: Sequence[Change]) -> str:
    """``with 512 MiB less memory and 2 vcpus less``."""
    parts = []
    for change in changes:
        size, word = number(abs(change.amount)), "less" if change.amount > 0 else "more"
        if change.constraint == DISK_SPINDLES:
            parts.append(f"its disks naming their spindles, at most {size} in all")
        elif change.constraint in (MEMORY, DISK):
            parts.append(f"{at_least(abs(int(change.amount)))} {word} {change.constraint}")
        else:
            parts.append(f"{_amount(change.constraint, abs(change.amount))} {word}")
    return f"with {listed(parts)}"


def freed_words(changes: Sequence[Change], here: str, verb: str = "were freed") -> str:
    """``512 MiB of memory were freed there and 64 on node7``, node by node, *here* first."""
    by_node: dict[str, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.name != here):
        by_node.setdefault(change.name, []).append(change)
    texts: list[str] = []
    said = ""
    for name, parts in list(by_node.items())[:NAMES_SHOWN]:
        where = "there" if name == here else f"on {name}"
        if texts and said == parts[0].constraint and len(parts) == 1:
            texts.append(f"{_amount(said, parts[0].amount).removesuffix(f' of {said}')} {where}")
            continue
        sizes = listed([_amount(part.constraint, part.amount) for part in parts])
        single = len(parts) == 1 and parts[0].amount == 1
        said = parts[0].constraint if len(parts) == 1 else ""
        texts.append(" ".join(filter(None, (sizes, verb.replace("were", "was") if single else verb, where))))
    if len(by_node) > NAMES_SHOWN:
        texts.append(f"some on {_count(len(by_node) - NAMES_SHOWN, 'more nodes')}")
    return listed(texts)


def _set(change: Change, here: str) -> str:
    """What would have to be otherwise, for a change that is no amount."""
    group, target = change.name, change.target
    shown = number(target) if not isinstance(target, str) else target
    match change.constraint:
        case "vcpu-ratio":
            return f"the vcpu ratio of group {group} were {shown} or more"
        case "spindle-ratio":
            return f"the spindle ratio of group {group} were {shown} or more"
        case "exclusion-tag":
            return f"instance {shown} with the same exclusion tag moved away"
        case "availability":
            return f"{'the node' if change.name == here else change.name} were not {shown}"
        case "migration-tag":
            return f"{'the node' if change.name == here else change.name} had the tag {shown}"
        case "network":
            return f"group {group} were connected to network {shown}"
        case "alloc-policy":
            return f"the allocation policy of group {group} were not unallocable"
        case "group":
            return f"group {shown} were asked for"
        case "restriction":
            return f"the request were not restricted to other nodes than {shown}"
        case "policy-template":
            return f"the policy of group {group} allowed disk template {shown}"
    if change.constraint in _POLICY_SIZES and not isinstance(target, str):
        return f"the policy of group {group} allowed {at_least(int(target))} {_POLICY_SIZES[change.constraint]}"
    words = _POLICY_WORDS[change.constraint]
    return f"the policy of group {group} allowed {shown if isinstance(target, str) else _count(target, words)}"


def _conditions(changes: Sequence[Change], here: str) -> str:
    leaving = [str(change.target) for change in changes if change.constraint == EXCLUSION_TAG]
    texts = []
    if len(leaving) > 1:
        texts.append(f"{len(leaving)} instances with the same exclusion tag ({names_of(leaving)}) moved away")
    texts += [_set(c, here) for c in changes if c.subject != NODE or c.constraint not in (*RESOURCES, EXCLUSION_TAG)]
    if len(leaving) == 1:
        texts.append(next(_set(c, here) for c in changes if c.constraint == EXCLUSION_TAG))
    freed = [change for change in changes if change.subject == NODE and change.constraint in RESOURCES]
    before = [change for change in freed if change.target == REDUNDANCY_NOW]
    if here and len(before) > 1:
        freed = [change for change in freed if change not in before]
        texts.append(f"{len(before)} nodes had room for the failure of others")
    if freed:
        texts.append(freed_words(freed, here))
    return f"if {listed(texts)}"


def way_words(way: Way, here: str) -> str:
    """One way as words that complete "fits …"; *here* is the node it is about."""
    own = [change for change in way if change.subject == INSTANCE]
    others = [change for change in way if change.subject != INSTANCE]
    parts = [_less(own)] if own else []
    if others:
        parts.append(_conditions(others, here))
    return " ".join(parts)


def _amounts(way: Iterable[Change]) -> list[tuple[str, float]]:
    return [(change.constraint, change.amount) for change in way]


def ways_words(ways: Sequence[Way], here: str) -> str:
    """All ways as one phrase: ``with 512 MiB less memory, or if as much were freed there``."""
    if not ways:
        return ""
    texts: list[str] = []
    asked: list[tuple[str, float]] = []
    for way in ways:
        if all(change.subject == INSTANCE for change in way):
            asked = _amounts(way)
        free = all(change.subject == NODE and change.name == here for change in way)
        texts.append("if as much were freed there" if free and _amounts(way) == asked else way_words(way, here))
    return ", or ".join(texts)
