# SPDX-License-Identifier: BSD-2-Clause
"""An instance that asks for as little less as limits and policy allow, and how it differs from the one asked for."""

import math
from collections.abc import Sequence
from dataclasses import replace

from ganeti.placement.cluster.lack import (
    DISK,
    DISK_SPINDLES,
    INSTANCE,
    MEMORY,
    SPINDLE_USES,
    SPINDLES,
    VCPUS,
    Change,
    Way,
)
from ganeti.placement.cluster.picture import Disk, Instance
from ganeti.placement.cluster.policy import Spec
from ganeti.placement.why.policy import (
    SHARE_OF_POLICY,
    Window,
    spindle_bounds,
)


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
