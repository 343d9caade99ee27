# SPDX-License-Identifier: BSD-2-Clause
"""Instance policies: the sizes, templates and ratios a group allows (spec: htools, 1 and 8)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from ganeti.model.templates import IN_BUILT_IN_POLICY, traits_of
from ganeti.placement.cluster.failure import FailMode, Refusal


@dataclass(frozen=True, slots=True)
class Spec:
    """One corner of a policy; sizes are MiB."""

    memory_mib: int
    cpus: int
    disk_mib: int
    disks: int
    nics: int
    spindle_use: int


@dataclass(frozen=True, slots=True)
class Policy:
    standard: Spec
    ranges: tuple[tuple[Spec, Spec], ...]
    templates: tuple[str, ...]
    vcpu_ratio: float
    spindle_ratio: float


BUILT_IN_POLICY = Policy(
    standard=Spec(128, 1, 1024, 1, 1, 1),
    ranges=((Spec(128, 1, 1024, 1, 1, 1), Spec(32768, 8, 1048576, 16, 8, 12)),),
    templates=IN_BUILT_IN_POLICY,
    vcpu_ratio=4.0,
    spindle_ratio=32.0,
)


class _Disk(Protocol):
    @property
    def size_mib(self) -> int: ...


class _Sized(Protocol):
    """The part of an instance a policy looks at."""

    @property
    def memory_mib(self) -> int: ...
    @property
    def vcpus(self) -> int: ...
    @property
    def spindle_use(self) -> int: ...
    @property
    def total_spindles(self) -> int | None: ...
    @property
    def template(self) -> str: ...
    @property
    def disks(self) -> tuple[_Disk, ...]: ...


UNNAMED = -1
"""Stands for spindles that the disks do not name: less than any bound."""


def _measures(instance: _Sized, spec: Spec, exclusive_storage: bool) -> Iterator[tuple[FailMode, str, int, int]]:
    """What is compared, in order: mode, words, value of the instance, bound of *spec*."""
    yield FailMode.FailMem, "MiB of memory", instance.memory_mib, spec.memory_mib
    for disk in instance.disks:
        yield FailMode.FailDisk, "MiB in a disk", disk.size_mib, spec.disk_mib
    yield FailMode.FailCPU, "vcpus", instance.vcpus, spec.cpus
    if not exclusive_storage:
        yield FailMode.FailSpindles, "spindle uses", instance.spindle_use, spec.spindle_use
    else:
        total = instance.total_spindles
        yield FailMode.FailSpindles, "spindles", UNNAMED if total is None else total, spec.spindle_use
    traits = traits_of(instance.template)
    if traits is None or traits.has_disks:
        yield FailMode.FailDiskCount, "disks", len(instance.disks), spec.disks


def _outside(instance: _Sized, minimum: Spec, maximum: Spec, exclusive_storage: bool) -> Refusal | None:
    for mode, words, value, bound in _measures(instance, minimum, exclusive_storage):
        if value < bound and value == UNNAMED:
            return Refusal(mode, "the policy asks on exclusive storage that the instance's disks name their spindles")
        if value < bound:
            return Refusal(mode, f"the policy asks for at least {bound} {words}, the instance has {value}")
    for mode, words, value, bound in _measures(instance, maximum, exclusive_storage):
        if value > bound:
            return Refusal(mode, f"the policy allows at most {bound} {words}, the instance has {value}")
    return None


def refusal_by_policy(policy: Policy, instance: _Sized, exclusive_storage: bool) -> Refusal | None:
    """Why *policy* does not admit *instance*, or None; the first range speaks when none fits."""
    first: Refusal | None = None
    for minimum, maximum in policy.ranges:
        refusal = _outside(instance, minimum, maximum, exclusive_storage)
        if refusal is None:
            first = None
            break
        first = first or refusal
    if first is not None:
        return first
    if instance.template not in policy.templates:
        allowed = ", ".join(policy.templates)
        return Refusal(
            FailMode.FailDisk, f"the policy does not allow disk template {instance.template}, only {allowed}"
        )
    return None
