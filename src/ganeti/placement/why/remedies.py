# SPDX-License-Identifier: BSD-2-Clause
"""All that keeps an instance off one node or pair of nodes, and the smallest changes that would admit it.

There are two ways: the instance asks for less, or more is free (or allowed) where it would go. Each names every part it
takes; what neither could do without, such as a drained node, is part of both.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ganeti.placement.cluster.lack import (
    DISK,
    DISK_SPINDLES,
    EXCLUSION_TAG,
    GROUP,
    INSTANCE,
    MEMORY,
    NODE,
    POLICY,
    REDUNDANCY,
    RESOURCES,
    SPINDLE_RATIO,
    SPINDLE_USES,
    TEMPLATE,
    UNITS,
    VCPU_RATIO,
    VCPUS,
    Change,
    Lack,
    Way,
    at_least,
    at_most,
    distance,
)
from ganeti.placement.cluster.picture import Group, Instance
from ganeti.placement.why.policy import (
    SHARE_OF_POLICY,
    Window,
    minds_unnamed,
    policy_share,
    spindles_only_by_policy,
)
from ganeti.placement.why.room import PRIMARY, UNLIMITED, Limit, Room, memory_to_free
from ganeti.placement.why.smaller import less_parts, shrunk

_SHARE_OF_MOVE = 0.5


@dataclass(frozen=True, slots=True)
class Spot:
    """A node in one role. *leaving* are instances that must go because of their exclusion tags.

    *present* are the limits as things are; *limits* and *room* are those after *leaving* have left.
    """

    room: Room
    role: str
    present: tuple[Limit, ...]
    limits: tuple[Limit, ...]
    group: Group
    primary: int
    forced: bool = False
    leaving: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """*lacks* is empty where the instance fits as it is; *ways* are ordered by size, and empty where none helps."""

    lacks: tuple[Lack, ...] = ()
    ways: tuple[Way, ...] = ()

    @property
    def distance(self) -> float:
        if not self.lacks:
            return 0.0
        return distance(self.ways[0]) if self.ways else math.inf


def lacks_of(spot: Spot) -> Iterator[Lack]:
    """A lack for each constraint that is exceeded, in the order of the checks, each with its tightest limit."""
    tightest: dict[str, Limit] = {}
    for limit in spot.present:
        if limit.exceeded:
            known = tightest.get(limit.constraint)
            if known is None:
                tightest[limit.constraint] = limit
            elif limit.asked - limit.cap > known.asked - known.cap:
                tightest[limit.constraint] = replace(limit, mode=known.mode)
    for limit in tightest.values():
        memory = tightest.get(MEMORY)
        if limit.constraint == REDUNDANCY and memory and memory.asked - memory.cap >= limit.asked - limit.cap:
            continue
        sentence = limit.words
        if limit.constraint in RESOURCES:
            reserve = " in reserve" if spot.role != PRIMARY and limit.constraint == MEMORY else ""
            sentence = f"needs {_measure(limit.constraint, limit.asked)}{reserve}, {limit.words}"
            if limit.asked - limit.cap == 1 and limit.words == f"{at_most(limit.asked)} free":
                sentence += ", and some must stay free"
        unit = UNITS.get(limit.resource, "")
        yield Lack(limit.constraint, sentence, limit.mode, limit.asked, limit.cap, unit, spot.room.name)


def _measure(resource: str, amount: int) -> str:
    if resource in (MEMORY, DISK):
        return f"{at_least(amount)} of {resource}"
    return f"{amount:,} {UNITS[resource][:-1] if amount == 1 else UNITS[resource]}"


def _freed(spot: Spot, instance: Instance) -> list[Change]:
    """What must be freed on one node."""
    amounts = dict.fromkeys(RESOURCES, 0)
    asked = dict.fromkeys(RESOURCES, 1)
    for limit in spot.limits:
        if limit.resource in amounts and limit.resource != MEMORY:
            amounts[limit.resource] = max(amounts[limit.resource], limit.asked - limit.cap)
            asked[limit.resource] = max(1, limit.asked)
    amounts[MEMORY] = memory_to_free(
        spot.room, instance, spot.limits, spot.role, primary=spot.primary, forced=spot.forced
    )
    asked[MEMORY] = max(1, instance.memory_mib)
    return [
        Change(NODE, name, spot.room.name, amount, "", amount / asked[name])
        for name, amount in amounts.items()
        if amount
    ]


def _by_ratio(spot: Spot, change: Change) -> Change | None:
    """The ratio of the policy that would do instead of freeing vcpus or uses of spindles."""
    room = spot.room
    limits = [limit for limit in spot.limits if limit.resource == change.constraint]
    used_after = max(
        (room.later_used_vcpus if change.constraint == VCPUS else room.later_spindle_uses) + limit.asked
        for limit in limits
    )
    if change.constraint == VCPUS and room.total_cpus:
        wanted = used_after / room.total_cpus
        return Change(GROUP, VCPU_RATIO, spot.group.name, 0, wanted, _ratio_share(wanted, room.vcpu_ratio))
    if change.constraint == SPINDLE_USES and room.spindles:
        wanted = used_after / room.spindles
        while math.nextafter(wanted, 0.0) * room.spindles >= used_after:
            wanted = math.nextafter(wanted, 0.0)
        while wanted * room.spindles < used_after:
            wanted = math.nextafter(wanted, math.inf)
        return Change(GROUP, SPINDLE_RATIO, spot.group.name, 0, wanted, _ratio_share(wanted, room.spindle_ratio))
    return None


def _ratio_share(wanted: float, present: float) -> float:
    return (wanted - present) / max(wanted, 1e-9) + 1e-6


def _widened(lacks: Sequence[Lack], group: Group) -> list[Change]:
    return [
        Change(GROUP, lack.constraint, group.name, 0, lack.needed, policy_share(lack))
        for lack in lacks
        if lack.constraint.startswith(POLICY)
    ]


def judge(
    instance: Instance,
    spots: Sequence[Spot],
    by_policy: Sequence[tuple[list[Lack], Window]],
    fixed: Sequence[tuple[Lack, Change | None]] = (),
) -> Judgement:
    """All lacks of *spots* together (a primary, or a primary and its secondary) and the ways to admit *instance*.

    *by_policy* is what `policy_lacks` says. *fixed* are lacks that only their own change cures; None: nothing does.
    """
    lacks = [lack for lack, _ in fixed] + by_policy[0][0]
    for spot in spots:
        lacks += lacks_of(spot)
    if not lacks:
        return Judgement()
    parts = [change for _, change in fixed]
    if any(change is None for change in parts) or any(lack.constraint == TEMPLATE for lack in lacks):
        return Judgement(tuple(lacks))
    common = tuple(change for change in parts if change is not None) + tuple(_departures(spots))
    ways = [
        *_nearest(_by_asking_less(instance, spots, common, policy, window) for policy, window in by_policy),
        *_nearest(_by_room(instance, spots, common, policy, window) for policy, window in by_policy),
    ]
    return Judgement(tuple(lacks), tuple(sorted(dict.fromkeys(ways), key=distance)))


def _nearest(found: Iterable[Iterable[Way]]) -> Sequence[Way]:
    """Of the ways by each range of the policy those of the range that takes least."""
    by_range = [ways for one in found if (ways := list(one))]
    return min(by_range, key=lambda ways: distance(ways[0]), default=[])


def _departures(spots: Sequence[Spot]) -> Iterator[Change]:
    for spot in spots:
        for other in spot.leaving:
            yield Change(NODE, EXCLUSION_TAG, spot.room.name, 1, other.name, _SHARE_OF_MOVE)


def _by_asking_less(
    instance: Instance,
    spots: Sequence[Spot],
    common: Way,
    policy: Sequence[Lack],
    window: Window,
) -> Iterator[Way]:
    caps = dict.fromkeys(RESOURCES, UNLIMITED)
    for spot in spots:
        for limit in spot.limits:
            if limit.resource in caps and (limit.asked or limit.exceeded):
                caps[limit.resource] = min(caps[limit.resource], limit.cap)
    if any(lack.constraint in (POLICY + "template", POLICY + "disks") for lack in policy):
        return
    exclusive = spots[0].room.exclusive
    unnamed = _spindles_unnamed(spots) or any(map(minds_unnamed, policy))
    counted = unnamed or (instance.total_spindles is not None and any(spot.room.exclusive for spot in spots))
    smaller = shrunk(instance, caps, window, exclusive, counted)
    if smaller is not None:
        yield (*less_parts(instance, smaller), *common)


def _by_room(
    instance: Instance, spots: Sequence[Spot], common: Way, policy: Sequence[Lack], window: Window
) -> Iterator[Way]:
    if _spindles_unnamed(spots) or any(map(minds_unnamed, policy)):
        policy, admitted = spindles_only_by_policy(instance, policy, window, spots[0].room.exclusive)
        if not admitted:
            return
        count = len(instance.disks)
        common = (Change(INSTANCE, DISK_SPINDLES, instance.name, count, count, SHARE_OF_POLICY), *common)
    parts = [change for spot in spots for change in _freed(spot, instance)]
    widened = tuple(_widened(policy, spots[0].group))
    yield (*common, *widened, *parts)
    for at, change in enumerate(parts):
        spot = next(spot for spot in spots if spot.room.name == change.name)
        ratio = _by_ratio(spot, change) if change.constraint in (VCPUS, SPINDLE_USES) else None
        if ratio is not None:
            yield (*common, *widened, ratio, *parts[:at], *parts[at + 1 :])


def _spindles_unnamed(spots: Sequence[Spot]) -> bool:
    return any(limit.resource == DISK_SPINDLES for spot in spots for limit in spot.limits)
