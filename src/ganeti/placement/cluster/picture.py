# SPDX-License-Identifier: BSD-2-Clause
"""The picture of a cluster that placement reasons about: plain, frozen, without arrays.

All sizes are MiB. The order of nodes, instances and groups is meaningful: ties fall by it (spec: htools, head).
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from ganeti.placement.cluster.policy import BUILT_IN_POLICY, Policy


class AllocPolicy(enum.StrEnum):
    """How freely a group may receive instances nobody placed by hand (S1.19-S1.22)."""

    PREFERRED = "preferred"
    LAST_RESORT = "last_resort"
    UNALLOCABLE = "unallocable"


class Status(enum.StrEnum):
    """The run states of the text format (spec: protocols, 16)."""

    ADMIN_DOWN = "ADMIN_down"
    ADMIN_OFFLINE = "ADMIN_offline"
    ERROR_DOWN = "ERROR_down"
    ERROR_UP = "ERROR_up"
    ERROR_NODE_DOWN = "ERROR_nodedown"
    ERROR_NODE_OFFLINE = "ERROR_nodeoffline"
    RUNNING = "running"
    USER_DOWN = "USER_down"
    ERROR_WRONG_NODE = "ERROR_wrongnode"


_USING_MEMORY = frozenset(
    {Status.RUNNING, Status.ERROR_UP, Status.ERROR_NODE_DOWN, Status.ERROR_NODE_OFFLINE, Status.ERROR_WRONG_NODE}
)


@dataclass(frozen=True, slots=True)
class Group:
    uuid: str
    name: str
    alloc_policy: AllocPolicy = AllocPolicy.PREFERRED
    policy: Policy = BUILT_IN_POLICY
    networks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One node. *unavailable* is empty, or says why nothing may be put on it, such as ``drained``.

    *node_memory_mib* is what the node itself uses, *free_memory_mib* what it reports as free. *cpu_load* is what was
    measured on it as the cluster was read, with its instances where they were then; None: what its instances have.
    """

    name: str
    group: str
    total_memory_mib: float = 0
    node_memory_mib: int = 0
    free_memory_mib: int = 0
    total_disk_mib: float = 0
    free_disk_mib: int = 0
    total_cpus: float = 0
    node_cpus: int = 0
    unavailable: str = ""
    spindles: int = 1
    free_spindles: int = 0
    exclusive_storage: bool = False
    cpu_speed: float = 1.0
    tags: tuple[str, ...] = ()
    cpu_load: float | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    size_mib: int
    spindles: int | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance; *primary* and *secondary* are node names. *disk_mib* is what it takes on each of its nodes."""

    name: str
    memory_mib: int
    disk_mib: int
    vcpus: int
    template: str
    primary: str = ""
    secondary: str = ""
    disks: tuple[Disk, ...] = ()
    status: Status = Status.RUNNING
    auto_balance: bool = True
    spindle_use: int = 1
    forthcoming: bool = False
    tags: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    load: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)

    @property
    def uses_memory(self) -> bool:
        return not self.forthcoming and self.status in _USING_MEMORY

    @property
    def claimed_memory_mib(self) -> int:
        """What its secondary must be able to keep free for it."""
        return self.memory_mib if self.auto_balance and self.status != Status.ADMIN_OFFLINE else 0

    @property
    def reserved_memory_mib(self) -> int:
        """What its secondary keeps free for it now; nothing as long as it is forthcoming."""
        kept = self.auto_balance and self.status != Status.ADMIN_OFFLINE and not self.forthcoming
        return self.memory_mib if kept else 0

    @property
    def counted_vcpus(self) -> int:
        return 0 if self.status == Status.ADMIN_OFFLINE else self.vcpus

    @property
    def total_spindles(self) -> int | None:
        """Spindles asked for by its disks; None when a disk names none."""
        total = 0
        for disk in self.disks:
            if disk.spindles is None:
                return None
            total += disk.spindles
        return total


@dataclass(frozen=True, slots=True)
class Cluster:
    """*promised* are instances with nodes which the nodes' reports do not know of yet; they are added after reading."""

    nodes: Sequence[Node] = ()
    instances: Sequence[Instance] = ()
    groups: Sequence[Group] = ()
    tags: Sequence[str] = ()
    policy: Policy = BUILT_IN_POLICY
    promised: Sequence[Instance] = ()
