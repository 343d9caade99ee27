# SPDX-License-Identifier: BSD-2-Clause
"""What a policy has against an instance, range by range, and what each of its ranges allows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ganeti.model.templates import traits_of
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import (
    DISK,
    MEMORY,
    POLICY,
    SPINDLE_USES,
    SPINDLES,
    VCPUS,
    Lack,
    at_least,
)
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.cluster.policy import UNNAMED, Policy, Spec
from ganeti.placement.why.room import UNLIMITED

SHARE_OF_POLICY = 0.5


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


def spindle_bounds(window: Window, exclusive: bool) -> tuple[int, int]:
    """The fewest and the most spindles of the disks; policies count them where the primary has exclusive storage."""
    return (window.low.spindle_use, window.high.spindle_use) if exclusive else (0, UNLIMITED)


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
