# SPDX-License-Identifier: BSD-2-Clause
"""Node calls by which a master candidate holds a copy of configuration and queue, and promises itself to a master."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ganeti.model.membership import Membership
from ganeti.model.node_calls import FAST_S, URGENT_S, Answer, NodeRequest
from ganeti.model.replica_records import Acknowledged, Caller, CommitRecord, Position, WireStep


class CopyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of its copy. Keys of later releases are passed over."""

    refused: str | None = None
    """The reason of a refusal (`ports/replica.py`): nothing has changed but, perhaps, the promised epoch."""
    sentence: str = ""
    """The refusal in words."""
    granted: bool = False
    """Of `Promise` only."""
    promised: int = 0
    """The highest epoch the node has promised itself to."""
    holder: str | None = None
    """The node it has promised that epoch to."""
    established: int = 0
    """The highest epoch of which it has a record."""
    position: Position | None = None
    digest: str = ""
    """Fingerprint of the configuration that it holds."""
    membership: Membership | None = None
    names: str = ""
    """The master its ssconf names."""
    files: dict[str, str] = {}
    """Of `ReplicaQueueList` only: digest by name."""


class FromMaster(NodeRequest[Answer], frozen=True, kw_only=True):
    """What a master, or a node that would be one, says of itself."""

    cluster: str
    """UUID of the cluster."""
    software: str
    """Release of the caller."""
    epoch: int
    master: str
    """UUID of the node that asks."""
    time_s: float
    """The caller's clock."""

    @classmethod
    def read(cls, value: Any) -> Answer:
        """What does not say whether it is a refusal is no answer."""
        if not isinstance(value, Mapping) or "refused" not in value:
            raise msgspec.ValidationError("Object missing required field `refused`")
        return super().read(value)

    @property
    def caller(self) -> Caller:
        return Caller(
            cluster=self.cluster, software=self.software, epoch=self.epoch, master=self.master, time_s=self.time_s
        )


class ReplicaState(FromMaster[CopyAnswer], frozen=True, kw_only=True):
    """What this node holds, and to whom it has promised itself; repairs nothing.

    What the node holds and is *acknowledged*, it publishes from now on.
    """

    answer_within_s = URGENT_S
    changes_node = False
    acknowledged: Acknowledged | None = None


class ReplicaAppend(FromMaster[CopyAnswer], frozen=True, kw_only=True):
    """Take over records after *after* and queue files as they are now (None: gone); answers when all is on disk."""

    answer_within_s = URGENT_S
    changes_node = False
    after: Position
    commits: list[CommitRecord]
    files: dict[str, str | None]
    archived: list[int]
    serial: int
    membership: Membership | None
    acknowledged: Acknowledged | None = None


class ReplicaSnapshot(FromMaster[CopyAnswer], frozen=True, kw_only=True):
    """Replace the whole copy by *config*, a `config.data`, compressed (zlib) and in base64."""

    answer_within_s = FAST_S
    changes_node = False
    position: Position
    config: str
    steps: list[WireStep]
    membership: Membership | None
    digest: str
    acknowledged: Acknowledged | None = None
    files: dict[str, str | None] = {}
    """Files of the queue that are written first: the jobs that have made its commits are marked there as begun."""


class ReplicaQueueList(FromMaster[CopyAnswer], frozen=True, kw_only=True):
    """The replicated queue files of this node, each with the digest of its content."""

    answer_within_s = URGENT_S
    changes_node = False


class ReplicaMembers(FromMaster[CopyAnswer], frozen=True, kw_only=True):
    """Note durably who the members are."""

    answer_within_s = URGENT_S
    changes_node = False
    membership: Membership


class Promise(FromMaster[CopyAnswer], frozen=True, kw_only=True):
    """Promise *epoch* to *master*, durably, if none as high is promised; with *ask_only* say what would be done.

    *position* is that of the one who asks, for the log.
    """

    answer_within_s = URGENT_S
    changes_node = False
    ask_only: bool
    position: Position | None = None
