# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the guests of a node."""

from typing import Any

import msgspec

from ganeti.model.node_calls import DAY_S, SLOW_S, URGENT_S, NodeRequest
from ganeti.model.node_requests import AttachedDisk, DiskSpec, InstanceSpec


class FoundInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A guest found on a node."""

    name: str
    hypervisor: str
    memory_mib: int
    vcpus: int
    state: str
    """``running``, ``paused``, ``shutdown`` (ended by itself, process still there), ``incoming``, ``postmigrate``."""
    cpu_time_s: float


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """Console object (protocols, section 20)."""

    instance: str
    kind: str
    message: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    command: list[str] | None = None
    display: str | None = None


class InstanceInfo(NodeRequest[FoundInstance | None], frozen=True, kw_only=True):
    """What is known of one guest; null when it is not here."""

    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True
    instance: InstanceSpec


class AllInstancesInfo(NodeRequest[list[FoundInstance]], frozen=True, kw_only=True):
    """All guests of these hypervisors (name to filled parameters)."""

    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True
    hypervisors: dict[str, dict[str, Any]]


class InstanceConsoleInfo(NodeRequest[Console], frozen=True, kw_only=True):
    """How a person reaches the console of a guest that runs here."""

    answer_within_s = URGENT_S
    changes_node = False
    instance: InstanceSpec


class InstanceList(NodeRequest[list[str]], frozen=True, kw_only=True):
    """Names of all guests of these hypervisors (name to filled parameters)."""

    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True
    hypervisors: dict[str, dict[str, Any]]


class InstanceDisksAssemble(NodeRequest[list[AttachedDisk]], frozen=True, kw_only=True):
    """Make all disks usable here, in one call; without *as_primary*, their copies here follow the primary's."""

    instance: InstanceSpec
    for_migration: bool = False
    as_primary: bool = True


class InstanceDisksShutdown(NodeRequest[None], frozen=True, kw_only=True):
    """Close all disks of an instance."""

    instance: InstanceSpec


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is left: a successor that completes a removal may forget the instance."""

    settled: bool = True


class InstanceDisksRemove(NodeRequest[Removed], frozen=True, kw_only=True):
    """Close and remove all disks of an instance; those that are gone are no error."""

    answer_within_s = SLOW_S
    instance: InstanceSpec


class InstanceDisksSteal(NodeRequest[None], frozen=True, kw_only=True):
    """Take the disks from a dead node; the caller answers for nothing writing there any more."""

    instance: InstanceSpec
    reason: str


class InstanceStart(NodeRequest[None], frozen=True, kw_only=True):
    """Start a guest on its disks (which are assembled if they were not)."""

    instance: InstanceSpec
    paused: bool = False


class InstanceResizeDisk(NodeRequest[None], frozen=True, kw_only=True):
    """Let a running guest see a disk of its as large as *disk* says."""

    instance: InstanceSpec
    disk: DiskSpec


class InstanceShutdown(NodeRequest[None], frozen=True, kw_only=True):
    """Power a guest off, or end it after *timeout_s*; nothing of it but its disks is left."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    timeout_s: float


class InstanceReboot(NodeRequest[None], frozen=True, kw_only=True):
    """Reboot in place, or with *hard* by stopping and starting."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    hard: bool = False
    shutdown_timeout_s: float = 30.0


class InstanceBalloonMemory(NodeRequest[None], frozen=True, kw_only=True):
    """Give a running guest another amount of memory."""

    instance: InstanceSpec
    memory_mib: int


class HypervisorValidateParams(NodeRequest[None], frozen=True, kw_only=True):
    """Check filled parameters against this node; raises `HypervisorError` saying what is missing."""

    changes_node = False
    asked_by_plans = True
    hypervisor: str
    hvparams: dict[str, Any]
    vcpus: int | None = None
    """Virtual CPUs of the instance that is to have them."""
    starts: bool = False
    """Whether it is to start with them now."""
    user_ids: list[list[int]] | None = None
    """The cluster's pool, where it changes together with the parameters."""


class InstanceOsAdd(NodeRequest[None], frozen=True, kw_only=True):
    """Run the create script of the instance's OS on its disks (which are assembled if they were not)."""

    answer_within_s = DAY_S
    instance: InstanceSpec
    reinstall: bool = False
    debug: int = 0
    timeout_s: float = 86400.0
    token: str = ""


class InstanceRunRename(NodeRequest[None], frozen=True, kw_only=True):
    """Tell the OS that the instance, which was *old_name*, has the name it has now."""

    answer_within_s = SLOW_S
    instance: InstanceSpec
    old_name: str
    debug: int = 0
    token: str = ""
