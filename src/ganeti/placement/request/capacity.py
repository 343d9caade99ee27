# SPDX-License-Identifier: BSD-2-Clause
"""What an allocator may be asked about capacity, and its answer (S1.65-S1.70)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from typing import Any, NamedTuple

from ganeti.placement.request.what_if import WhatIf


class Shape(NamedTuple):
    """The size of an instance, in the order of S1.69."""

    memory_mib: int
    disk_mib: int
    vcpus: int


@dataclass(frozen=True, slots=True)
class CapacityParameters:
    """What capacity is counted in (S1.66); None leaves it to the node group's policy.

    *max_inst_spec* is the largest size; *default_template* the disk template; *max_cpu_ratio* virtual to physical
    processors; *max_disk_usage* the share of a node's disk that may be used.
    """

    max_inst_spec: Shape | None = None
    default_template: str | None = None
    max_cpu_ratio: float | None = None
    max_disk_usage: float | None = None


PARAMETER_NAMES = tuple(field.name for field in fields_of(CapacityParameters))


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many more instances fit into *groups* (names or UUIDs; empty for all).

    *parameters* override those that *own* has by group UUID, and these what the policies say.
    """

    groups: tuple[str, ...] = ()
    parameters: CapacityParameters = CapacityParameters()
    own: Mapping[str, CapacityParameters] = field(default_factory=dict)
    what_if: WhatIf | None = None
    """What the cluster is to be taken for."""


@dataclass(frozen=True, slots=True)
class GroupCapacity:
    """What fits into one group, the largest size first, and the parameters it was counted with.

    Without a size of its own in *parameters* the counting began with the largest ones of the group's policy, *largest*.
    *why* is a sentence that says why nothing fits, where nothing does.
    """

    sizes: tuple[tuple[Shape, int], ...]
    parameters: CapacityParameters
    largest: tuple[Shape, ...]
    why: str = ""

    def plain(self) -> dict[str, Any]:
        """As S1.70 has it."""
        own = self.parameters
        return {
            "tspecs": _tiered(self.sizes),
            "max_inst_spec": list(own.max_inst_spec or max(self.largest, default=())),
            "default_template": own.default_template,
            "max_cpu_ratio": own.max_cpu_ratio,
            "max_disk_usage": own.max_disk_usage,
        }


@dataclass(frozen=True, slots=True)
class Capacities:
    """What fits into each group, by UUID."""

    groups: Mapping[str, GroupCapacity]
    supposed: str = ""
    """What would become of instances, where nodes were supposed to be lost."""

    @property
    def info(self) -> str:
        count = sum(number for group in self.groups.values() for _, number in group.sizes)
        fits = f"{count} more instances fit into {len(self.groups)} node groups"
        return "; ".join([*([self.supposed] if self.supposed else []), fits, *self.reasons])

    @property
    def reasons(self) -> list[str]:
        """A sentence for each group that has no room, in the order of the groups."""
        return [group.why for group in self.groups.values() if group.why]

    def plain(self) -> dict[str, Any]:
        """As S1.69 and S1.70 have it."""
        everywhere: dict[Shape, int] = {}
        for group in self.groups.values():
            for shape, count in group.sizes:
                everywhere[shape] = everywhere.get(shape, 0) + count
        return {
            "cluster": _tiered(tuple(sorted(everywhere.items(), reverse=True))),
            "node_groups": {uuid: group.plain() for uuid, group in self.groups.items()},
        }


def _tiered(sizes: tuple[tuple[Shape, int], ...]) -> list[list[int]]:
    return [[*shape, count] for shape, count in sizes]
