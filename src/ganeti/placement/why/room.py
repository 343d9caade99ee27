# SPDX-License-Identifier: BSD-2-Clause
"""How much of each resource an instance may ask for on one node, in plain arithmetic.

`checks` says whether an instance fits; the limits here say by how much it does not. Both agree: a limit is exceeded
exactly where a check refuses, in the same order (held by a property test). *later* counts promised instances too.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import (
    DISK,
    DISK_SPINDLES,
    EXCLUSION_TAG,
    MEMORY,
    SPINDLE_USES,
    SPINDLES,
    TEMPLATE,
    VCPUS,
    at_least,
    at_most,
)
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.cluster.tags import TagRules
from ganeti.placement.definition.score import NodeView, ratio, uses_node_disk, whole_mib

UNLIMITED = sys.maxsize
PRIMARY, SECONDARY = "primary", "secondary"

_MODES = {
    MEMORY: FailMode.FailMem,
    DISK: FailMode.FailDisk,
    VCPUS: FailMode.FailCPU,
    SPINDLES: FailMode.FailSpindles,
    SPINDLE_USES: FailMode.FailDisk,
    DISK_SPINDLES: FailMode.FailSpindles,
    EXCLUSION_TAG: FailMode.FailTags,
}


@dataclass(frozen=True, slots=True)
class Limit:
    """At most *cap* of a resource; the instance asks for *asked*. *words* end the sentence after the numbers."""

    resource: str
    asked: int
    cap: int
    words: str
    constraint: str = ""
    mode: FailMode = FailMode.FailInternal

    @property
    def exceeded(self) -> bool:
        return self.asked > self.cap


def _limit(resource: str, asked: int, cap: int, words: str) -> Limit:
    return Limit(resource, asked, cap, words, resource, _MODES[resource])


@dataclass(slots=True)
class Room:
    """What is free on a node. *peers*: memory kept per primary node; *claims*: what it must find if that node fails.

    *judged_memory_mib* is what N+1 is judged by: where nothing has changed on the node, what it reported as free.
    """

    number: int
    name: str
    rules: TagRules
    vcpu_ratio: float
    spindle_ratio: float
    total_cpus: float
    spindles: int
    exclusive: bool
    low_disk_mib: int
    free_memory_mib: int
    later_free_memory_mib: int
    free_disk_mib: int
    later_free_disk_mib: int
    free_spindles: int
    later_free_spindles: int
    used_vcpus: int
    later_used_vcpus: int
    spindle_uses: int = 0
    later_spindle_uses: int = 0
    reserved_memory_mib: int = 0
    judged_memory_mib: int = 0
    peers: dict[int, int] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)
    primaries: Sequence[Instance] = ()
    quick: bool = True
    """Whether everything that runs here has a second node: then only memory decides where it starts again."""

    @property
    def fails_n1(self) -> bool:
        return self.judged_memory_mib <= self.reserved_memory_mib

    @property
    def high_spindles(self) -> float:
        return self.spindle_ratio * self.spindles

    def holders(self, instance: Instance) -> list[Instance]:
        """Primaries that share an exclusion tag with *instance*."""
        tags = self.rules.exclusion_of(instance.tags)
        return [other for other in self.primaries if tags & self.rules.exclusion_of(other.tags)] if tags else []


def room_of(view: NodeView, number: int) -> Room:
    """Add up what is on a node, in one pass over each list."""
    node = view.node
    recorded = whole_mib(node.total_memory_mib) - node.node_memory_mib
    room = Room(
        number=number,
        name=node.name,
        rules=view.rules,
        vcpu_ratio=view.most_vcpu_ratio,
        spindle_ratio=view.spindle_ratio,
        total_cpus=node.total_cpus,
        spindles=node.spindles,
        exclusive=node.exclusive_storage,
        low_disk_mib=view.low_disk_mib,
        free_memory_mib=recorded - max(0, view.extra_memory_mib),
        later_free_memory_mib=view.forthcoming_free_memory_mib,
        free_disk_mib=view.free_disk_mib,
        later_free_disk_mib=view.free_disk_mib,
        free_spindles=view.free_spindles,
        later_free_spindles=view.free_spindles,
        used_vcpus=node.node_cpus,
        later_used_vcpus=node.node_cpus,
        primaries=view.primaries,
    )
    for instance in view.primaries:
        _count_primary(room, instance)
    for instance, primary in view.secondaries:
        _count_disks(room, instance)
        kept = instance.reserved_memory_mib
        if kept:
            room.peers[primary] = room.peers.get(primary, 0) + kept
        room.claims[primary] = room.claims.get(primary, 0) + (instance.memory_mib if instance.uses_memory else 0)
    room.reserved_memory_mib = max(room.peers.values(), default=0)
    room.judged_memory_mib = _judged(view, room)
    return room


def _judged(view: NodeView, room: Room) -> int:
    """By report one MiB less will do than by what is known of the instances."""
    reported = room.free_memory_mib - min(0, view.extra_memory_mib) + 1
    by_report = view.judged_failing is None or (reported <= room.reserved_memory_mib) == view.judged_failing
    return reported if by_report else room.free_memory_mib


def _count_primary(room: Room, instance: Instance) -> None:
    if instance.uses_memory:
        room.free_memory_mib -= instance.memory_mib
    cpus = instance.counted_vcpus
    room.later_used_vcpus += cpus
    if not instance.forthcoming:
        room.used_vcpus += cpus
    traits = traits_of(instance.template)
    if instance.forthcoming or traits is None or not traits.has_secondary or not instance.secondary:
        room.quick = False
    _count_disks(room, instance)


def _count_disks(room: Room, instance: Instance) -> None:
    """What the lists tell beyond `free_disk_mib`: uses of spindles, and what is promised."""
    if instance.forthcoming and room.exclusive:
        room.later_free_spindles -= instance.total_spindles or 0
    if not uses_node_disk(instance):
        return
    if instance.forthcoming:
        room.later_free_disk_mib -= instance.disk_mib
    elif not room.exclusive:
        room.spindle_uses += instance.spindle_use
    if not room.exclusive:
        room.later_spindle_uses += instance.spindle_use


def view_without(view: NodeView, leaving: Sequence[Instance]) -> NodeView:
    """Give *view* without some of its primaries, which took their disks with them."""
    gone = {instance.name for instance in leaving}
    real = [instance for instance in leaving if not instance.forthcoming]
    spindles = sum(instance.total_spindles or 0 for instance in real) if view.node.exclusive_storage else 0
    return replace(
        view,
        judged_failing=None,
        primaries=[instance for instance in view.primaries if instance.name not in gone],
        free_disk_mib=view.free_disk_mib + sum(i.disk_mib for i in real if uses_node_disk(i)),
        free_spindles=view.free_spindles + spindles,
        forthcoming_free_memory_mib=view.forthcoming_free_memory_mib + sum(i.memory_mib for i in leaving),
        primary_location_tags=(),
    )


def vcpu_cap(room: Room, used: int) -> int:
    """The most vcpus the ratio leaves beside *used*."""
    if not room.total_cpus:
        return -used
    cap = math.floor(min(room.vcpu_ratio * room.total_cpus, 1e15)) - used
    while ratio(used + cap + 1, room.total_cpus) <= room.vcpu_ratio and cap < 1e15:
        cap += 1
    while ratio(used + cap, room.total_cpus) > room.vcpu_ratio:
        cap -= 1
    return cap


def primary_limits(room: Room, instance: Instance, *, forced: bool = False) -> Iterator[Limit]:
    """What `checks.refuse_primary` looks at, in its order."""
    if forced and instance.forthcoming:
        return
    if not instance.forthcoming:
        memory = instance.memory_mib if instance.uses_memory else 0
        yield _limit(MEMORY, memory, room.free_memory_mib - 1, f"{at_most(room.free_memory_mib)} free")
        yield from _disk_limits(room, instance, forced)
        if forced:
            return
        if not room.fails_n1:
            yield _limit(MEMORY, memory, room.free_memory_mib - room.reserved_memory_mib - 1, _beside(room))
        yield _vcpu_limit(room, instance, room.used_vcpus, "in use")
        holders = room.holders(instance)
        if holders:
            yield _limit(EXCLUSION_TAG, len(holders), 0, _tag_words(room, instance, holders))
    free = room.later_free_memory_mib
    yield _limit(MEMORY, instance.memory_mib, free - 1, f"{at_most(free)} free after what is promised")
    yield from _later_disk_limits(room, instance)
    yield _vcpu_limit(room, instance, room.later_used_vcpus, "in use or promised")


def _beside(room: Room) -> str:
    free = max(0, room.free_memory_mib - room.reserved_memory_mib)
    kept = at_least(room.reserved_memory_mib)
    return f"{at_most(free)} free beside the {kept} kept for the failure of another node"


def _tag_words(room: Room, instance: Instance, holders: Sequence[Instance]) -> str:
    tags = room.rules.exclusion_of(instance.tags)
    tag = min(tag for other in holders for tag in tags & room.rules.exclusion_of(other.tags))
    more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
    return f"has instance {holders[0].name}{more} with the same exclusion tag {tag}"


def _vcpu_limit(room: Room, instance: Instance, used: int, words: str) -> Limit:
    allowed = f"{room.vcpu_ratio * room.total_cpus:g}"
    return _limit(VCPUS, instance.counted_vcpus, vcpu_cap(room, used), f"{used} of {allowed} allowed are {words}")


def _disk_limits(room: Room, instance: Instance, forced: bool) -> Iterator[Limit]:
    if not uses_node_disk(instance):
        return
    free = room.free_disk_mib
    yield _limit(DISK, instance.disk_mib, free - 1, f"{at_most(free)} free")
    if not forced:
        yield _limit(DISK, instance.disk_mib, free - room.low_disk_mib, _floor_words(room, free))
    if room.exclusive:
        yield from _spindle_limits(instance, room.free_spindles, "free")
    elif not forced:
        yield _use_limit(room, instance, room.spindle_uses, "taken")


def _later_disk_limits(room: Room, instance: Instance) -> Iterator[Limit]:
    if not uses_node_disk(instance):
        return
    free = room.later_free_disk_mib
    cap = free - max(1, room.low_disk_mib)
    yield _limit(DISK, instance.disk_mib, cap, f"{at_most(free)} free after what is promised")
    if room.exclusive:
        yield from _spindle_limits(instance, room.later_free_spindles, "free after what is promised")
    else:
        yield _use_limit(room, instance, room.later_spindle_uses, "taken or promised")


def _floor_words(room: Room, free: int) -> str:
    return f"{at_most(free)} free of which {at_least(room.low_disk_mib)} must stay so"


def _spindle_limits(instance: Instance, free: int, words: str) -> Iterator[Limit]:
    """Disks that name no spindles would have to name at least one each."""
    asked = instance.total_spindles
    if asked is None:
        unnamed = "has exclusive storage, and the instance's disks do not name their spindles"
        yield _limit(DISK_SPINDLES, 1, 0, unnamed)
        asked = len(instance.disks)
    yield _limit(SPINDLES, asked, free, f"{free} {words}")


def _use_limit(room: Room, instance: Instance, used: int, words: str) -> Limit:
    cap = math.floor(min(room.high_spindles, 1e15)) - used
    return _limit(SPINDLE_USES, instance.spindle_use, cap, f"{used} of {room.high_spindles:g} are {words}")


def secondary_limits(room: Room, instance: Instance, primary: int, *, forced: bool = False) -> Iterator[Limit]:
    """What `checks.refuse_secondary` looks at for the secondary of an instance on node number *primary*."""
    traits = traits_of(instance.template)
    if traits is None or not traits.has_secondary:
        words = f"disk template {instance.template} has no secondary node"
        yield Limit(TEMPLATE, 1, 0, words, TEMPLATE, FailMode.FailDisk)
        return
    if forced and instance.forthcoming:
        return
    needed, free, later = instance.reserved_memory_mib, room.free_memory_mib, room.later_free_memory_mib
    if not instance.forthcoming:
        yield from _disk_limits(room, instance, forced)
        if forced:
            return
        yield _limit(MEMORY, needed, free - 1, f"{at_most(free)} free")
        if not room.fails_n1:
            kept = room.peers.get(primary, 0)
            words = f"{at_most(free)} free of which {at_least(kept)} are kept for the same primary"
            yield _limit(MEMORY, needed, free - kept - 1, words if kept else f"{at_most(free)} free")
            yield _limit(MEMORY, 0, free - room.reserved_memory_mib - 1, _beside(room))
    yield _limit(MEMORY, instance.claimed_memory_mib, later - 1, f"{at_most(later)} free after what is promised")
    yield from _later_disk_limits(room, instance)


def memory_to_free(
    room: Room, instance: Instance, limits: Sequence[Limit], role: str, *, primary: int, forced: bool
) -> int:
    """The least MiB to free on the node so that all limits on memory hold.

    A node that cannot take over what it should is not asked to; with more free memory it is asked again.
    """
    least = max((limit.asked - limit.cap for limit in limits if limit.resource == MEMORY), default=0)
    least = max(0, least)
    if instance.forthcoming or forced or room.judged_memory_mib + least <= room.reserved_memory_mib:
        return least
    if role == PRIMARY:
        asked, kept = instance.memory_mib if instance.uses_memory else 0, room.reserved_memory_mib
    else:
        asked, kept = instance.reserved_memory_mib, room.peers.get(primary, 0)
    return max(least, asked + kept - room.free_memory_mib + 1)
