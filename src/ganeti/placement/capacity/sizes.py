# SPDX-License-Identifier: BSD-2-Clause
"""The sizes that room is counted in, within the ranges of a node group's policy.

Nobody asks for spindles (S1.66 has none): where they are counted, an instance has as few as the policy admits.
"""

from collections.abc import Sequence

from ganeti.placement.capacity.count import Size
from ganeti.placement.cluster.policy import Policy, Spec
from ganeti.placement.request.capacity import Shape


def asked_size(policy: Policy, shape: Shape) -> Size:
    """The size of *shape*, with the fewest spindles of the ranges it is in, or else of those it can shrink into."""
    reached = [(low, high) for low, high in policy.ranges if _is_within(_shape(low), shape)]
    around = [(low, high) for low, high in reached if _is_within(shape, _shape(high))]
    fewest = min((low.spindle_use for low, _ in around or reached), default=1)
    return Size(*shape, max(1, fewest))


def largest_sizes(policy: Policy) -> list[Size]:
    return [Size(*_shape(most), max(1, least.spindle_use)) for least, most in policy.ranges]


def least_sizes(policy: Policy, sizes: Sequence[Size]) -> list[Size]:
    """What each of *sizes* can shrink to, ascending; without ranges, that is itself."""
    if not policy.ranges:
        return list(sizes)
    lows = [low for low, _ in policy.ranges if any(_is_within(_shape(low), _amounts(size)) for size in sizes)]
    return sorted({least_size(low) for low in lows}, key=_in_order)


def least_size(low: Spec) -> Size:
    """As small as the least of a range, but no smaller than instances are."""
    return Size(max(1, low.memory_mib), low.disk_mib, max(1, low.cpus), max(1, low.spindle_use))


def words(size: Size, template: str, *, exclusive_storage: bool) -> str:
    """Spindles are told where they are counted."""
    vcpus = "1 vcpu" if size.vcpus == 1 else f"{size.vcpus} vcpus"
    spindles = f" with {size.spindles} spindle{'' if size.spindles == 1 else 's'}" if exclusive_storage else ""
    return f"{size.memory_mib} MiB of memory, {size.disk_mib} MiB of disk{spindles} and {vcpus} as {template}"


def _shape(spec: Spec) -> Shape:
    return Shape(spec.memory_mib, spec.disk_mib, spec.cpus)


def _amounts(size: Size) -> Shape:
    return Shape(size.memory_mib, size.disk_mib, size.vcpus)


def _is_within(smaller: Shape, larger: Shape) -> bool:
    return all(less <= more for less, more in zip(smaller, larger, strict=True))


def _in_order(size: Size) -> tuple[int, int, int, int]:
    return size.memory_mib, size.disk_mib, size.vcpus, size.spindles
