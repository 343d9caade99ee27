# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about the machine itself."""

from typing import Any

import msgspec

from ganeti.model.node_calls import DAY_S, FAST_S, URGENT_S, NodeRequest
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.model.node_calls.storage import StorageUnit


class NodeCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """Memory and processors as a hypervisor sees them; keys of protocols, section 6, "hv info"."""

    memory_total: int
    memory_free: int
    memory_dom0: int
    memory_hv: int = 0
    cpu_total: int
    cpu_nodes: int = 1
    cpu_sockets: int = 1
    cpu_dom0: int = 1
    hv_version: list[int] | str | None = None


class StorageSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in MiB; null where they cannot be read."""

    type: str
    name: str
    storage_size: int | None
    storage_free: int | None
    spindles: int | None = None
    """Its physical volumes, where they were to be counted."""
    free_spindles: int | None = None
    """Those of them that a disk with exclusive storage can take."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node tells of itself."""

    boot_id: str
    """Changes with every power-on."""
    storage: list[StorageSpace]
    """In the order asked."""
    hypervisors: dict[str, NodeCapacity]
    guests: list[FoundInstance] | None = None
    """Of all these hypervisors, from before their capacity was read; null where they were not asked for."""


class NodeInfo(NodeRequest[NodeFacts], frozen=True, kw_only=True):
    """Space of storage units and capacity as each hypervisor (name to filled parameters) sees it."""

    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True
    storage: list[StorageUnit]
    hypervisors: dict[str, dict[str, Any]]
    guests: bool = False

    def compare(self, answer: NodeFacts) -> None:
        """Its readers pair the units."""
        if len(answer.storage) != len(self.storage):
            raise msgspec.ValidationError(f"Expected {len(self.storage)} units of storage, got {len(answer.storage)}")


class WatcherRun(NodeRequest[bool], frozen=True, kw_only=True):
    """The watcher looks after one node group now, on the master; false where another one is at work already."""

    answer_within_s = FAST_S
    changes_node = False
    group: str
    """UUID."""


class Version(NodeRequest[int], frozen=True, kw_only=True):
    """The version of the protocol, which is that of the configuration."""

    reaches_offline = True
    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True


class NodeHasIpAddress(NodeRequest[bool], frozen=True, kw_only=True):
    """Whether an address is one of this node."""

    answer_within_s = FAST_S
    changes_node = False
    asked_by_plans = True
    address: str


class BridgesExist(NodeRequest[list[str]], frozen=True, kw_only=True):
    """The names among *bridges* that are no bridges of this node: empty when all is well."""

    answer_within_s = URGENT_S
    changes_node = False
    asked_by_plans = True
    bridges: list[str]


class TestDelay(NodeRequest[None], frozen=True, kw_only=True):
    """Do nothing for *duration* seconds."""

    answer_within_s = DAY_S
    changes_node = False
    duration: float


class AbortAttempt(NodeRequest[int], frozen=True, kw_only=True):
    """End everything that attempts up to *attempt* of *job* do here, and refuse what they may still ask.

    Answers when it has ended, with the number of calls that were. Its caller is the successor, which undoes.
    """

    answer_within_s = FAST_S
    changes_node = False
    job: int
    attempt: int
