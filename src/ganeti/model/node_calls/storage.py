# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the places where disks are kept."""

import msgspec

from ganeti.model.node_calls import FAST_S, URGENT_S, NodeRequest


class StorageUnit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A disk template and the cluster's setting for it (directory, volume group, pool)."""

    template: str
    setting: str
    spindles: bool = False
    """Whether its physical volumes are to be counted, too."""


class StorageUnitState(msgspec.Struct, frozen=True, kw_only=True):
    """One place; sizes are null where it cannot be read."""

    template: str
    name: str
    size_mib: int | None
    free_mib: int | None
    allocatable: bool = True
    """Whether new disks are put there."""

    @property
    def used_mib(self) -> int | None:
        return None if self.size_mib is None or self.free_mib is None else self.size_mib - self.free_mib


class StorageList(NodeRequest[list[StorageUnitState]], frozen=True, kw_only=True):
    """Size and free space of each unit, in the order asked."""

    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True
    units: list[StorageUnit]


class PhysicalVolumes(NodeRequest[list[StorageUnitState]], frozen=True, kw_only=True):
    """The physical volumes of a volume group, which the template in *unit* keeps its disks in."""

    answer_within_s = FAST_S
    changes_node = False
    unit: StorageUnit


class VolumeSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a logical volume that lies on one device."""

    device: str
    group: str
    name: str
    size_mib: int
    """Of the whole volume."""


class NodeVolumes(NodeRequest[list[VolumeSegment]], frozen=True, kw_only=True):
    """All logical volumes of the node, of instances or not."""

    answer_within_s = FAST_S
    changes_node = False


class StorageModify(NodeRequest[None], frozen=True, kw_only=True):
    """Let new volumes be put on a physical volume, or no longer."""

    name: str
    allocatable: bool


class StorageRepair(NodeRequest[None], frozen=True, kw_only=True):
    """Take the missing physical volumes out of a volume group."""

    name: str


class ProviderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of external storage as a node finds it."""

    name: str
    path: str
    fault: str = ""
    """What is wrong with it; empty where it can be used."""
    parameters: list[tuple[str, str]] = []
    """Name and help of each."""


class ExtstorageDiagnose(NodeRequest[list[ProviderStatus]], frozen=True, kw_only=True):
    """The providers of external storage, the first of each name on the search path first."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True
