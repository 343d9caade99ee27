# SPDX-License-Identifier: BSD-2-Clause
"""What each range of a policy makes of asking for less, in numbers: `remedies.shrunk` resource by resource.

A request that may have at most *cap* of a resource costs the difference between *asked* and the smaller of *base* and
*cap*, as a share of the larger; less than *least* cannot be asked for. Costs of several resources add up.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ganeti.placement.cluster.lack import DISK, MEMORY, POLICY, SPINDLE_USES, SPINDLES, VCPUS, Lack
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.why.policy import (
    SHARE_OF_POLICY,
    Window,
    minds_unnamed,
    policy_share,
    spindle_bounds,
    spindles_only_by_policy,
)
from ganeti.placement.why.room import UNLIMITED

SCALES = (MEMORY, DISK, VCPUS, SPINDLES, SPINDLE_USES)
_LOWEST = -UNLIMITED
_IMPOSSIBLE = (0, 0, UNLIMITED, 1.0)

Column = tuple[int, int, int, float]
"""Asked, base, least and weight for one resource."""


@dataclass(frozen=True, slots=True)
class Price:
    """One range; the four tuples are in the order of `SCALES`, *less* and *room* are costs beside them."""

    asked: tuple[int, ...]
    base: tuple[int, ...]
    least: tuple[int, ...]
    weight: tuple[float, ...]
    less: float
    room: float


def price_of(instance: Instance, lacks: Sequence[Lack], window: Window, exclusive: bool, unnamed: bool) -> Price:
    """The price of one range of a policy, which has *lacks* against *instance*.

    *exclusive*: the primary has exclusive storage. *unnamed*: disks that name no spindles meet exclusive storage.
    """
    unnamed = unnamed or any(map(minds_unnamed, lacks))
    columns = tuple(_columns(instance, window, exclusive, unnamed))
    asked, base, least, weight = zip(*columns, strict=True)
    less = SHARE_OF_POLICY if unnamed and instance.total_spindles is None else 0.0
    if _IMPOSSIBLE in columns or any(lack.constraint in (POLICY + "template", POLICY + "disks") for lack in lacks):
        less = math.inf
    return Price(asked, base, least, weight, less, _room(instance, lacks, window, exclusive, unnamed))


def _columns(instance: Instance, window: Window, exclusive: bool, unnamed: bool) -> Iterator[Column]:
    low, high = window.low, window.high
    yield _within(instance.memory_mib, low.memory_mib, high.memory_mib)
    yield _disks(instance, window)
    yield _within(instance.vcpus, low.cpus, high.cpus)
    counted = unnamed or instance.total_spindles is not None
    yield _spindles(instance, window, exclusive, unnamed) if counted else (0, 0, _LOWEST, 1.0)
    uses = instance.spindle_use
    yield (uses, uses, uses, 1.0) if exclusive else _within(uses, low.spindle_use, high.spindle_use, least=0)


def _within(value: int, low: int, high: int, least: int = 1) -> Column:
    floor = max(least, low) if value > 0 else low
    base = max(floor, min(value, high))
    return value, base, _LOWEST if value == base == 0 else floor, 1.0


def _disks(instance: Instance, window: Window) -> Column:
    sizes = [disk.size_mib for disk in instance.disks]
    total = instance.disk_mib
    if not sizes:
        return total, total, _LOWEST, 1.0
    low, high = window.low.disk_mib, window.high.disk_mib
    if min(sizes) < low:
        grown = [max(low, size) for size in sizes]
        space = total + sum(grown) - sum(sizes)
        return (total, space, space, 1.0) if max(grown) <= high else _IMPOSSIBLE
    floor = max(1, low)
    if min(sizes) < floor or high < floor:
        return _IMPOSSIBLE
    excess = sum(max(0, size - high) for size in sizes)
    return total, total - excess, total - sum(size - floor for size in sizes), 1.0


def _spindles(instance: Instance, window: Window, exclusive: bool, unnamed: bool) -> Column:
    low, high = spindle_bounds(window, exclusive)
    named = instance.total_spindles is not None
    counts = [disk.spindles if named and disk.spindles is not None else 1 for disk in instance.disks]
    floor, fewest = low, sum(min(1, count) for count in counts)
    if floor > high or fewest > high or (not counts and floor > 0):
        return _IMPOSSIBLE
    total = sum(counts)
    base = max(floor, min(total, high))
    return (total if named else base), base, max(floor, min(fewest, total)), 1.0 if named else 0.0


def _room(instance: Instance, lacks: Sequence[Lack], window: Window, exclusive: bool, unnamed: bool) -> float:
    cost = 0.0
    if unnamed:
        lacks, admitted = spindles_only_by_policy(instance, lacks, window, exclusive)
        if not admitted:
            return math.inf
        cost = SHARE_OF_POLICY
    return cost + sum(policy_share(lack) for lack in lacks if lack.constraint.startswith(POLICY))
