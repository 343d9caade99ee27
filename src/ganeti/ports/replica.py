# SPDX-License-Identifier: BSD-2-Clause
"""What the calls `replica_*` and `promise` may ask of this node's copy of configuration and queue.

Each gives the answer as it goes back. A refusal is an answer too: `{"refused": reason, "sentence": text, "promised":
epoch, "holder": uuid or null, "established": epoch}`, where nothing has changed but, perhaps, the promised epoch.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from ganeti.model.membership import Membership
from ganeti.model.node_calls.mastership import MasterEnded
from ganeti.model.replica_records import Acknowledged, Caller, CommitRecord, Position, WireStep

EPOCH = "epoch"
CLUSTER = "cluster"
SOFTWARE = "software"
CLOCK = "clock"
DISK = "disk"
DAMAGED = "damaged"
MASTER = "master"
GAP = "gap"
"""Reasons of a refusal: a higher epoch is promised; a copy of another cluster; another release or layout of the store;
clocks too far apart; a disk full or failing; a copy that cannot be read or is not what its fingerprint says; this node
runs the master's daemons; the copy ends at another record."""

Answer = dict[str, Any]


class ReplicaPort(Protocol):
    async def state(self, caller: Caller, acknowledged: Acknowledged | None = None) -> Answer: ...

    async def append(
        self,
        caller: Caller,
        after: Position,
        commits: list[CommitRecord],
        files: dict[str, str | None],
        archived: list[int],
        serial: int,
        membership: Membership | None,
        acknowledged: Acknowledged | None = None,
    ) -> Answer: ...

    async def snapshot(
        self,
        caller: Caller,
        position: Position,
        config: str,
        steps: list[WireStep],
        membership: Membership | None,
        digest: str,
        acknowledged: Acknowledged | None = None,
        files: Mapping[str, str | None] = {},
    ) -> Answer: ...

    async def queue_list(self, caller: Caller) -> Answer: ...

    async def members(self, caller: Caller, membership: Membership) -> Answer: ...

    async def promise(self, caller: Caller, ask_only: bool) -> Answer: ...

    async def stop_master(self) -> MasterEnded:
        """End the daemons of a master, its jobs, and give the cluster's address up."""
        ...

    async def forget(self) -> None:
        """Close the copy, and write nothing any more of what it holds."""
        ...
