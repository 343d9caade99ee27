# SPDX-License-Identifier: BSD-2-Clause
"""What a place is asked for, as it travels inside the product: from a job to LuxiD, and to its placement worker.

Written as JSON, each is the request of the allocator protocol (protocols, section 7.2) word by word. So a program that
is an allocator is given `to_protocol`, and only there it is a dictionary.
"""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

Plain = dict[str, Any]


class _Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    pass


class WantedDisk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk of an instance to be placed; *size* in MiB."""

    size: int
    mode: str = "rw"
    spindles: int | None = None
    name: str | UnsetType | None = UNSET
    vg: str | UnsetType | None = UNSET
    dev_type: str | UnsetType = UNSET


class Allocate(_Request, frozen=True, kw_only=True, tag="allocate"):
    """A place for an instance that does not exist yet; sizes in MiB."""

    name: str
    memory: int
    vcpus: int
    spindle_use: int = 1
    disks: list[WantedDisk]
    disk_template: str
    os: str | None = None
    tags: list[str] = []
    nics: list[Plain] = []
    """As the protocol has them."""
    hypervisor: str = ""
    required_nodes: int
    disk_space_total: int
    """What the disks take on each node."""
    group_name: str | None = None
    restrict_to_nodes: list[str] | UnsetType = field(name="restrict-to-nodes", default=UNSET)
    """The nodes of several groups, of which the protocol knows one only."""

    def allowed(self, names: Collection[str]) -> list[str]:
        """Those of *names* that may be chosen."""
        only = self.restrict_to_nodes
        return [name for name in names if isinstance(only, UnsetType) or name in only]


class MultiAllocate(_Request, frozen=True, kw_only=True, tag="multi-allocate"):
    """Places for several new instances, each on the result of the former."""

    instances: list[Allocate]
    group_name: str | UnsetType = UNSET


class Relocate(_Request, frozen=True, kw_only=True, tag="relocate"):
    """Another node of the same group; *relocate_from* are names of the nodes to leave."""

    name: str
    relocate_from: list[str]
    required_nodes: int = 1
    disk_space_total: int


class AllocateSecondary(_Request, frozen=True, kw_only=True, tag="allocate-secondary"):
    """A second node, in the group of the first, for an instance that has none yet."""

    name: str
    disk_template: str
    """What its disks will be. Not of the protocol, which knows one such template."""


class NodeEvacuate(_Request, frozen=True, kw_only=True, tag="node-evacuate"):
    """Instances leave the nodes that *evac_mode* says: ``primary-only``, ``secondary-only`` or ``all``."""

    instances: list[str]
    evac_mode: str
    ignore_soft_errors: bool = False
    """Not of the protocol: a program gets an option for it."""


class ChangeGroup(_Request, frozen=True, kw_only=True, tag="change-group"):
    """Instances go to another of the groups, named by UUID; without any, to every one but theirs."""

    instances: list[str]
    target_groups: list[str]
    unsuitable: dict[str, list[str]] = {}
    """Those of the groups that an instance, by its name, cannot go to. Not of the protocol: it has no word for it."""


class EmptyNodes(_Request, frozen=True, kw_only=True, tag="empty-nodes"):
    """Where the instances of whole nodes go (not in 3.1). *begun* are on their way out, *nodes* are tried in order."""

    begun: list[str] = []
    nodes: list[str] = []
    keep_redundancy: bool = True


class NodeRoom(msgspec.Struct, frozen=True):
    """One node (by name): *refused* says why it must not be emptied now, and then nothing else is told."""

    node: str
    jobs: list[tuple[str, list[Plain]]] = []
    """Instances that find a place, each with the opcodes that take it there."""
    stuck: list[tuple[str, str]] = []
    """Instances that find none, and why."""
    bound: list[tuple[str, str]] = []
    """Instances whose disks are on this node alone."""
    refused: str = ""


class BalanceStep(_Request, frozen=True, kw_only=True, tag="balance-step"):
    """The first jobs that make the cluster more even (not in 3.1); *without* are nodes that are left alone.

    *load* is what processors do for instances, by name; without it, all do the same. With it nothing moves in a group
    whose busiest node is less than *load_threshold* above the mean, in shares of its processors. Instances that *stay*
    are not moved.
    """

    without: list[str] = []
    least_gain: float = 0.0
    disk_moves: bool = False
    load: dict[str, float] | None = None
    load_threshold: float = 0.0
    stay: list[str] = []


class CountCapacity(_Request, frozen=True, kw_only=True, tag="capacity"):
    """How many more instances fit in node groups, named by UUID (S1.65)."""

    node_groups: list[str]
    default_template: str
    group_parameters: dict[str, Plain] = {}
    if_added: list[str] = []
    """Kinds of new nodes that are to be supposed, in the words of the command line (not in 3.1)."""
    if_lost: list[str] = []
    """Names of nodes and groups that are to be supposed as lost (not in 3.1)."""


PlacementRequest = (
    Allocate
    | MultiAllocate
    | Relocate
    | AllocateSecondary
    | NodeEvacuate
    | ChangeGroup
    | CountCapacity
    | EmptyNodes
    | BalanceStep
)


def to_protocol(request: PlacementRequest) -> Plain:
    """The request of the allocator protocol."""
    told: Plain = msgspec.to_builtins(request)
    told.pop("ignore_soft_errors", None)
    told.pop("unsuitable", None)
    if isinstance(request, AllocateSecondary):
        del told["disk_template"]
    for supposed in ("if_added", "if_lost"):
        if not told.get(supposed):
            told.pop(supposed, None)
    return told


def names_of(request: PlacementRequest) -> list[str]:
    """The instances that are to get a place."""
    match request:
        case Allocate() | Relocate() | AllocateSecondary():
            return [request.name]
        case MultiAllocate():
            return [each.name for each in request.instances]
        case NodeEvacuate() | ChangeGroup():
            return request.instances
        case CountCapacity() | EmptyNodes() | BalanceStep():
            return []
