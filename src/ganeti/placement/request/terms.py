# SPDX-License-Identifier: BSD-2-Clause
"""What may be asked of placement, and the answers (spec: protocols, 7.2; htools, 10)."""

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.placement_requests import NodeRoom
from ganeti.model.templates import PAIRED
from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.cluster.lack import Lack, Way
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.request.capacity import Capacities, Capacity


class RequestError(ParameterError):
    """The request makes no sense: an unknown name, type or number. The message is a sentence for the user."""


class EvacuationMode(enum.StrEnum):
    PRIMARY_ONLY = "primary-only"
    SECONDARY_ONLY = "secondary-only"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Allocate:
    """Nodes for a new instance. *group* is a group name or UUID; empty lets placement choose."""

    instance: Instance
    required_nodes: int = 1
    group: str = ""
    restrict_to: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Relocate:
    """One other node for an instance: a new secondary, or a new primary on shared storage (X10)."""

    name: str
    relocate_from: tuple[str, ...]
    required_nodes: int = 1


@dataclass(frozen=True, slots=True)
class AllocateSecondary:
    """A secondary for an instance that has none, in the group of its primary."""

    name: str
    template: str = PAIRED
    """What its disks will be; the allocator protocol knows one template with two copies."""


@dataclass(frozen=True, slots=True)
class MultiAllocate:
    """Several new instances, each placed on the result of the former; *group* holds for all of them."""

    requests: tuple[Allocate, ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class NodeEvacuate:
    instances: tuple[str, ...]
    mode: EvacuationMode


@dataclass(frozen=True, slots=True)
class MultiEvacuate:
    """The mode of version 1 for whole nodes (S5.36, S5.39)."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Move instances to other groups; *target_groups* empty allows every group but theirs.

    *unsuitable* are groups, by UUID, that an instance cannot go to all the same.
    """

    instances: tuple[str, ...]
    target_groups: tuple[str, ...] = ()
    unsuitable: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmptyNodes:
    """Where the instances of whole nodes go: *begun* leave in any case, *nodes* if the rest can do without them."""

    begun: tuple[str, ...]
    nodes: tuple[str, ...]
    keep_redundancy: bool = True


@dataclass(frozen=True, slots=True)
class BalanceStep:
    """The first set of moves that can be made side by side and lower the score by *least_gain* in the end.

    Further terms as in `ganeti.model.placement_requests`.
    """

    without: tuple[str, ...]
    least_gain: float
    disk_moves: bool
    load: Mapping[str, float] | None = None
    load_threshold: float = 0.0
    stay: frozenset[str] = frozenset()


Request = (
    Allocate | Relocate | AllocateSecondary | MultiAllocate | NodeEvacuate | MultiEvacuate | ChangeGroup | Capacity
)
"""What the allocator protocol can ask."""
Question = Request | EmptyNodes | BalanceStep
"""With what only the product itself asks."""


@dataclass(frozen=True, slots=True)
class Options:
    """Switches of the allocator (spec: command line, 4)."""

    ignore_soft_errors: bool = False
    capacity_checks: bool = True
    restrict_to: tuple[str, ...] | None = None
    lost_nodes_fail: bool = True
    """Whether the failure of a node that is offline must be absorbed as well, as 3.1 wants it."""
    existing_errors_fail: bool = True
    """Whether no instance changes its group while any group could not lose a node, as 3.1 wants it."""
    why: bool = True
    """Whether an answer with nodes says of every other node why it was not chosen."""
    why_not: bool = True
    """Whether an answer without nodes says why, and what is nearest."""


@dataclass(frozen=True, slots=True)
class NodeRefusal:
    """Why one node was not chosen; *sentence* names the numbers. *mode* is None for a node that would have fitted.

    *change* says what would admit the instance, in words that complete "fits …"; *lacks* and *ways* say the same to
    programs: every constraint that excludes the node, and the changes that suffice, the smallest first. *distance* is
    the size of that beside what is asked for: 0 for a node that fits, infinite where nothing helps. Of a pair the node
    would be the *role*, and *partner* the other half.
    """

    node: str
    mode: FailMode | None
    sentence: str
    change: str = ""
    lacks: tuple[Lack, ...] = ()
    ways: tuple[Way, ...] = ()
    distance: float = 0.0
    role: str = ""
    partner: str = ""

    def __str__(self) -> str:
        return f"{self.node}: {self.sentence}" + (f"; fits {self.change}" if self.change else "")

    def plain(self) -> dict[str, Any]:
        """For machine-readable output."""
        return {
            "node": self.node,
            "mode": self.mode.name if self.mode else None,
            "sentence": self.sentence,
            "change": self.change,
            "role": self.role,
            "partner": self.partner,
            "lacks": [lack.plain() for lack in self.lacks],
            "ways": [[change.plain() for change in way] for way in self.ways],
        }


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes were found: primary first for a new instance, the one new node for a relocation."""

    nodes: tuple[str, ...]
    info: str
    group: str = ""
    refusals: Sequence[NodeRefusal] = field(default=())


@dataclass(frozen=True, slots=True)
class LargestSize:
    """What would fit now on *nodes*, with less of *scaled* only: memory, disk, vcpus, or everything in proportion."""

    scaled: str
    memory_mib: int
    disk_mib: int
    vcpus: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NearestFit:
    """Where a new instance that fits nowhere would fit with the least change, and the largest that fits as things are.

    *nodes* (primary, secondary) are empty where no change of one thing would do; *change*, *ways* and *lacks* are as in
    `NodeRefusal`, of both nodes together. *unabsorbed* are failures of nodes that could not be absorbed even without
    the instance, *absorbing* is what would have to be freed for them: both are part of every refusal, too.
    """

    nodes: tuple[str, ...] = ()
    change: str = ""
    ways: tuple[Way, ...] = ()
    lacks: tuple[Lack, ...] = ()
    largest: tuple[LargestSize, ...] = ()
    unabsorbed: tuple[Lack, ...] = ()
    absorbing: Way = ()

    def plain(self) -> dict[str, Any]:
        """For machine-readable output."""
        return {
            "nodes": list(self.nodes),
            "change": self.change,
            "ways": [[change.plain() for change in way] for way in self.ways],
            "lacks": [lack.plain() for lack in self.lacks],
            "unabsorbed": [lack.plain() for lack in self.unabsorbed],
            "absorbing": [change.plain() for change in self.absorbing],
            "largest": [
                {
                    "scaled": size.scaled,
                    "memory": size.memory_mib,
                    "disk": size.disk_mib,
                    "vcpus": size.vcpus,
                    "nodes": list(size.nodes),
                }
                for size in self.largest
            ],
        }


@dataclass(frozen=True, slots=True)
class NoFit:
    """Nothing fits. *info* is the allocator's own sentence, *refusals* says it node by node.

    *hopeless*: not even a candidate could be formed, whatever the instance. *nearest* is there for a new instance.
    *selected*, of one that needs two nodes: the primary that would do, or nothing; None where a pair would do.
    """

    info: str
    refusals: Sequence[NodeRefusal] = field(default=())
    hopeless: bool = False
    nearest: NearestFit | None = None
    selected: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MultiPlacement:
    """Outcome of several allocations: who got which nodes, and who none and why."""

    placed: tuple[tuple[str, tuple[str, ...]], ...]
    failed: tuple[tuple[str, str], ...]
    info: str


@dataclass(frozen=True, slots=True)
class Moves:
    """Outcome of an evacuation. Moved: instance, group name, its nodes. Jobs: opcodes as dictionaries, per instance."""

    moved: tuple[tuple[str, str, tuple[str, ...]], ...]
    failed: tuple[tuple[str, str], ...]
    jobs: tuple[tuple[dict[str, Any], ...], ...]
    info: str


@dataclass(frozen=True, slots=True)
class NodeRooms:
    """An answer for each node that was asked about, in that order."""

    rooms: list[NodeRoom]


Answer = Placement | NoFit | MultiPlacement | Moves | Capacities | NodeRooms
