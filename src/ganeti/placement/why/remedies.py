# SPDX-License-Identifier: BSD-2-Clause
"""All that keeps an instance off one node or pair of nodes, and the smallest changes that would admit it.

There are two ways: the instance asks for less, or more is free (or allowed) where it would go. Each names every part it
takes; what neither could do without, such as a drained node, is part of both.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.failure import FailMode
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
    SPINDLES,
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
from ganeti.placement.cluster.picture import Disk, Group, Instance
from ganeti.placement.cluster.policy import UNNAMED, Policy, Spec
from ganeti.placement.why.room import PRIMARY, UNLIMITED, Limit, Room, memory_to_free

SHARE_OF_POLICY = 0.5
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


# the policy


@dataclass(frozen=True, slots=True)
class Window:
    """What one range of a policy allows."""

    low: Spec
    high: Spec


ANY_SIZE = Window(Spec(0, 0, 0, 0, 0, 0), Spec(*(UNLIMITED,) * 6))
ANYTHING: Sequence[tuple[list[Lack], Window]] = (([], ANY_SIZE),)


def policy_lacks(policy: Policy, instance: Instance, exclusive: bool) -> list[tuple[list[Lack], Window]]:
    """What each range of *policy* has against the instance, the nearest range first."""
    found: list[tuple[list[Lack], Window]] = []
    for low, high in policy.ranges:
        lacks = list(_outside(instance, low, high, exclusive))
        found.append((lacks, Window(low, high)))
    found = found or [([], ANY_SIZE)]
    found.sort(key=lambda one: sum(policy_share(lack) for lack in one[0]))
    if instance.template not in policy.templates:
        words = f"the policy does not allow disk template {instance.template}, only {', '.join(policy.templates)}"
        allowed = ", ".join(policy.templates)
        for lacks, _ in found:
            lacks.append(Lack(POLICY + "template", words, FailMode.FailDisk, instance.template, allowed))
    return found


def _outside(instance: Instance, low: Spec, high: Spec, exclusive: bool) -> Iterator[Lack]:
    """What is too small, then what is too large; of the disks the smallest or the largest speaks for all."""
    sizes = [disk.size_mib for disk in instance.disks]
    for name, mode, words, value, floor in _measures(instance, min(sizes, default=None), low, exclusive):
        if value < floor:
            sentence = f"the policy asks for at least {_bound(floor, words)}, the instance has {_plain(value, words)}"
            if value == UNNAMED:
                sentence = "the policy asks on exclusive storage that the instance's disks name their spindles"
            yield Lack(POLICY + name, sentence, mode, value, floor, words)
    for name, mode, words, value, top in _measures(instance, max(sizes, default=None), high, exclusive):
        if value > top:
            sentence = f"the policy allows at most {_bound(top, words)}, the instance has {_plain(value, words)}"
            yield Lack(POLICY + name, sentence, mode, value, top, words)


def _plain(value: int, words: str) -> str:
    return at_least(value) if words.startswith("MiB") else f"{value:,}"


def _bound(value: int, words: str) -> str:
    """``32 GiB of memory``, ``8 vcpus``, ``1 disk``."""
    if words.startswith("MiB"):
        return at_least(value) + words.removeprefix("MiB")
    return f"{value:,} {words.removesuffix('s') if value == 1 else words}"


def _measures(
    instance: Instance, disk_mib: int | None, bound: Spec, exclusive: bool
) -> Iterator[tuple[str, FailMode, str, int, int]]:
    """Name, mode, words, value and bound of what a policy compares."""
    yield MEMORY, FailMode.FailMem, "MiB of memory", instance.memory_mib, bound.memory_mib
    if disk_mib is not None:
        yield DISK, FailMode.FailDisk, "MiB in a disk", disk_mib, bound.disk_mib
    yield VCPUS, FailMode.FailCPU, "vcpus", instance.vcpus, bound.cpus
    total = instance.total_spindles
    if not exclusive:
        yield SPINDLE_USES, FailMode.FailSpindles, "spindle uses", instance.spindle_use, bound.spindle_use
    else:
        yield SPINDLES, FailMode.FailSpindles, "spindles", UNNAMED if total is None else total, bound.spindle_use
    traits = traits_of(instance.template)
    if traits is None or traits.has_disks:
        yield "disks", FailMode.FailDiskCount, "disks", len(instance.disks), bound.disks


def policy_share(lack: Lack) -> float:
    if isinstance(lack.needed, str) or isinstance(lack.present, str):
        return 1.0
    return SHARE_OF_POLICY + abs(lack.needed - lack.present) / max(1.0, lack.needed, lack.present)


# asking for less


def shrunk(instance: Instance, caps: dict[str, int], window: Window, exclusive: bool, counted: bool) -> Instance | None:
    """*instance* with as little less (or more, where a policy wants it) as caps and policy allow.

    None if they exclude each other. *counted*: its spindles matter, so its disks must name some.
    """
    low, high = window.low, window.high
    memory = _within(instance.memory_mib, low.memory_mib, high.memory_mib, caps[MEMORY])
    vcpus = _within(instance.vcpus, low.cpus, high.cpus, caps[VCPUS])
    uses = instance.spindle_use
    if not exclusive:
        wanted = _within(uses, low.spindle_use, high.spindle_use, caps[SPINDLE_USES], least=0)
        if wanted is None:
            return None
        uses = wanted
    elif uses > caps[SPINDLE_USES]:
        return None  # the primary counts spindles, so nothing can be changed for a secondary that counts their uses
    disks = _smaller_disks(instance, caps[DISK], low, high)
    if memory is None or vcpus is None or disks is None:
        return None
    overhead = instance.disk_mib - sum(disk.size_mib for disk in instance.disks) if instance.disks else 0
    if instance.disks:
        space = overhead + sum(disk.size_mib for disk in disks)
    else:
        space = min(instance.disk_mib, caps[DISK])
    if space > caps[DISK]:
        return None
    spread = _fewer_spindles(disks, caps[SPINDLES], *spindle_bounds(window, exclusive)) if counted else disks
    if spread is None:
        return None
    return replace(instance, memory_mib=memory, vcpus=vcpus, spindle_use=uses, disks=spread, disk_mib=space)


def _within(value: int, low: int, high: int, cap: int, least: int = 1) -> int | None:
    floor = max(least, low) if value > 0 else low
    found = max(floor, min(value, high, cap))
    return found if found <= cap or found == value == 0 else None


def _smaller_disks(instance: Instance, cap: int, low: Spec, high: Spec) -> tuple[Disk, ...] | None:
    """The largest disks cut to one level, so that each is within the policy and all together within *cap*.

    Where a disk is too small for the policy it grows instead, and nothing else may have to shrink.
    """
    sizes = [disk.size_mib for disk in instance.disks]
    if not sizes:
        return ()
    overhead = instance.disk_mib - sum(sizes)
    if min(sizes) < low.disk_mib:
        grown = [max(low.disk_mib, size) for size in sizes]
        fits = max(grown) <= high.disk_mib and sum(grown) + overhead <= cap
        return tuple(replace(d, size_mib=size) for d, size in zip(instance.disks, grown, strict=True)) if fits else None
    excess = sum(max(0, size - high.disk_mib) for size in sizes)
    cut = leveled(sizes, max(excess, sum(sizes) + overhead - cap))
    if min(cut) < max(1, low.disk_mib):
        return None
    return tuple(replace(disk, size_mib=size) for disk, size in zip(instance.disks, cut, strict=True))


def leveled(sizes: Sequence[int], less: int) -> list[int]:
    """*sizes* with *less* taken off in all, always from the largest; of equal ones the first gives the odd unit."""
    if less <= 0:
        return list(sizes)
    order = sorted(range(len(sizes)), key=lambda at: -sizes[at])
    found, left = list(sizes), less
    for count in range(1, len(order) + 1):
        level = sizes[order[count]] if count < len(order) else -math.inf
        room = sum(sizes[at] - level for at in order[:count])
        if room >= left:
            top = sum(sizes[at] for at in order[:count]) - left
            for place, at in enumerate(sorted(order[:count])):
                short = count - top % count if top % count else 0
                found[at] = top // count + (1 if short and place >= short else 0)
            return found
    return found


def spindle_bounds(window: Window, exclusive: bool) -> tuple[int, int]:
    """The fewest and the most spindles of the disks; policies count them where the primary has exclusive storage."""
    return (window.low.spindle_use, window.high.spindle_use) if exclusive else (0, UNLIMITED)


def _fewer_spindles(disks: tuple[Disk, ...], cap: int, floor: int, most: int) -> tuple[Disk, ...] | None:
    """Spindles within bounds; disks that name none get one each first."""
    named = all(disk.spindles is not None for disk in disks)
    counts = [disk.spindles if named and disk.spindles is not None else 1 for disk in disks]
    top = min(cap, most)
    if floor > top or (not disks and floor > 0):
        return None
    while sum(counts) > top:
        at = counts.index(max(counts))
        if counts[at] <= 1:
            return None
        counts[at] -= 1
    if sum(counts) < floor:
        counts[0] += floor - sum(counts)
    return tuple(replace(disk, spindles=count) for disk, count in zip(disks, counts, strict=True))


def less_parts(before: Instance, after: Instance) -> list[Change]:
    """How *after* differs from *before*, as parts of a way."""
    pairs = [
        (MEMORY, before.memory_mib, after.memory_mib),
        (DISK, before.disk_mib, after.disk_mib),
        (VCPUS, before.vcpus, after.vcpus),
        (SPINDLE_USES, before.spindle_use, after.spindle_use),
    ]
    parts = []
    old, new = before.total_spindles, after.total_spindles
    if old is not None and new is not None:
        pairs.append((SPINDLES, old, new))
    elif new is not None:
        parts.append(Change(INSTANCE, DISK_SPINDLES, before.name, new, new, SHARE_OF_POLICY))
    for name, was, now in pairs:
        if was != now:
            parts.append(Change(INSTANCE, name, before.name, was - now, now, abs(was - now) / max(1, was, now)))
    return parts


def smaller_by(instance: Instance, way: Way) -> Instance:
    """*instance* as *way* would have it, in what is its own."""
    parts = {change.constraint: change for change in way if change.subject == INSTANCE}
    memory = int(parts[MEMORY].target) if MEMORY in parts else instance.memory_mib
    vcpus = int(parts[VCPUS].target) if VCPUS in parts else instance.vcpus
    uses = int(parts[SPINDLE_USES].target) if SPINDLE_USES in parts else instance.spindle_use
    instance = replace(instance, memory_mib=memory, vcpus=vcpus, spindle_use=uses)
    if DISK not in parts:
        return instance
    sizes = leveled([disk.size_mib for disk in instance.disks], int(parts[DISK].amount))
    disks = tuple(replace(disk, size_mib=size) for disk, size in zip(instance.disks, sizes, strict=True))
    return replace(instance, disks=disks, disk_mib=int(parts[DISK].target))


# more room


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


# both ways


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


def spindles_only_by_policy(
    instance: Instance, policy: Sequence[Lack], window: Window, exclusive: bool
) -> tuple[list[Lack], bool]:
    """What a policy has against the instance once its disks name one spindle each, and whether it may."""
    lacks = [lack for lack in policy if not minds_unnamed(lack)]
    count, (low, high) = len(instance.disks), spindle_bounds(window, exclusive)
    if count > high:
        words = f"the policy allows at most {high} spindles"
        lacks.append(Lack(POLICY + SPINDLES, words, None, count, high))
    return lacks, count >= low


def minds_unnamed(lack: Lack) -> bool:
    return lack.constraint == POLICY + SPINDLES and lack.needed == UNNAMED


def _spindles_unnamed(spots: Sequence[Spot]) -> bool:
    return any(limit.resource == DISK_SPINDLES for spot in spots for limit in spot.limits)
