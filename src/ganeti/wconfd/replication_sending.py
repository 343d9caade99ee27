# SPDX-License-Identifier: BSD-2-Clause
"""What one request of the replicator does: node calls made, answers turned into events (`replica_*`, node/actions).

Nothing is decided here, and nothing remembered but where each follower was when it last answered.
"""

import asyncio
import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec

from ganeti.base.errors import GanetiError, NodeTimeoutError, NodeUnreachableError
from ganeti.base.version import RELEASE
from ganeti.calls.queue_replication import job_name
from ganeti.master.config.records import Position, StepAnswer
from ganeti.master.replication.effects import SendAppend, SendQueue, SendSnapshot, SendState
from ganeti.master.replication.events import (
    Acked,
    Damaged,
    EpochSeen,
    Event,
    Failed,
    Lost,
    MembersAccepted,
    MembersRefused,
    Problem,
    QueueEqual,
    SnapshotTaken,
    StateKnown,
)
from ganeti.master.replication.followers import Timing
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import (
    CopyAnswer,
    FromMaster,
    Promise,
    ReplicaAppend,
    ReplicaMembers,
    ReplicaQueueList,
    ReplicaSnapshot,
    ReplicaState,
)
from ganeti.model.replica_records import CommitRecord
from ganeti.ports.nodes import NodesPort, ask
from ganeti.wconfd.replication_log import ReplicationLog, encode_step
from ganeti.wconfd.replication_queue import Files, QueueFiles, digest_of, pieces_of

_SMALL_BYTES = 256 * 1024
_NAMES_KEPT = 256
_EPOCH, _GAP, _DAMAGED = "epoch", "gap", "damaged"


class Snapshot(NamedTuple):
    """The configuration as of a record; *parts* joined are its `config.data`."""

    number: int
    position: Position
    digest: str
    parts: list[bytes]
    steps: list[StepAnswer]


@dataclass(frozen=True)
class Identity:
    """Who this master is, to its followers."""

    cluster: str
    me: str
    epoch: int
    now_s: Callable[[], float]

    def arguments(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "software": RELEASE,
            "epoch": self.epoch,
            "master": self.me,
            "time_s": self.now_s(),
        }


class Refused(Exception):
    """A node answered that it will not."""

    def __init__(self, answer: CopyAnswer) -> None:
        super().__init__(answer.sentence or answer.refused)
        self.answer = answer
        self.reason = answer.refused


class Sender:
    """Carries out requests; each gives the events that answer it."""

    def __init__(
        self,
        nodes: NodesPort,
        identity: Identity,
        log: ReplicationLog,
        queue: QueueFiles,
        snapshot: Callable[[], Snapshot],
        timing: Timing,
    ) -> None:
        self._nodes = nodes
        self._identity = identity
        self._log = log
        self._queue = queue
        self._snapshot = snapshot
        self._timing = timing
        self.positions: dict[str, Position] = {}
        """Where each follower was when it last answered."""
        self._read: tuple[tuple[list[str], int], Files, dict[str, str]] = ([], 0), {}, {}
        """Files as they were at a record or later: mostly, all followers are sent the same ones at the same moment."""
        self._taken: dict[str, dict[str, str]] = {}
        """By node and name, digests of the files it has on disk, as it has answered; nothing of one that has failed
        since. With each record of an undo log its job's file would go along as it was, and LuxiD asks for the end of a
        job that its process has sent already."""

    async def send(self, request: SendState | SendAppend | SendSnapshot | SendQueue) -> list[Event]:
        node = request.node
        try:
            if isinstance(request, SendAppend):
                return await self._append(request)
            taken = self._taken.pop(node, None)
            match request:
                case SendState():
                    events = await self._state(request)
                    if taken is not None and isinstance(events[0], StateKnown) and events[0].is_expected:
                        self._taken[node] = taken
                    return events
                case SendSnapshot():
                    return await self._whole(request)
                case SendQueue():
                    return await self._compare_queue(request)
        except Refused as err:
            return await self._refused(node, err)
        except NodeTimeoutError as err:
            return [Failed(node, Problem.SILENT, str(err))]
        except NodeUnreachableError as err:
            return [Failed(node, Problem.UNREACHABLE, str(err))]
        except (GanetiError, OSError) as err:
            return [Failed(node, Problem.REFUSED, str(err))]

    async def ask_members(self, node: str, membership: Membership) -> list[Event]:
        try:
            request = ReplicaMembers(**self._identity.arguments(), membership=membership)
            answer = await self._ask(node, request, self._timing.take_s)
        except Refused as err:
            seen = await self._refused(node, err) if err.reason == _EPOCH else []
            return [*(event for event in seen if isinstance(event, EpochSeen)), MembersRefused(node, str(err))]
        except GanetiError as err:
            return [MembersRefused(node, str(err))]
        known = None if answer.membership is None else answer.membership.version
        if known is not None and known > membership.version:
            return [MembersRefused(node, f"it knows of a newer one, {known[0]}.{known[1]}")]
        return [MembersAccepted(node, membership.version)]

    async def _state(self, request: SendState) -> list[Event]:
        node, acknowledged = request.node, self._log.state_at(request.acknowledged)
        asked = ReplicaState(**self._identity.arguments(), acknowledged=acknowledged)
        answer = await self._ask(node, asked, self._timing.take_s)
        position, digest = answer.position, answer.digest
        version = None if answer.membership is None else answer.membership.version
        if position is None:
            return [StateKnown(node, None, version, False)]
        number = self._log.number_at(position, digest)
        expected = number is not None and self.positions.get(node) == position
        self.positions[node] = position
        twice = self._log.is_given_twice(position, digest)
        told = request.acknowledged
        return [StateKnown(node, number, version, expected, told, twice)]

    async def _append(self, request: SendAppend) -> list[Event]:
        node = request.node
        commits = self._log.commits_after(request.commits_after, request.up_to)
        wanted = self._log.queue_after(request.queue_after, request.up_to)
        if commits is None or wanted is None:
            return [Lost(node, "it lacks more than is held")]
        after = self.positions.get(node, commits.after) if not commits.encoded else commits.after
        names, archived = wanted
        taken = self._taken.pop(node, {})
        files, digests = await self._files_of(names, request.up_to)
        files = {name: content for name, content in files.items() if taken.get(name) != digests[name]}
        membership = request.membership
        if not (files or archived or commits.encoded or membership):
            self._taken[node] = taken
            return [Acked(node, commits.up_to, request.up_to, None)]
        told = min(request.acknowledged, commits.up_to)
        *first, last = pieces_of(files)
        for piece in first:
            await self._append_piece(node, after, [], piece, [], None)
        state = self._log.state_at(told)
        answer = await self._append_piece(node, after, commits.encoded, last, archived, membership, state)
        if (position := answer.position) is not None:
            self.positions[node] = position
        if commits.encoded and position != self._log.position_at(commits.up_to):
            return [Lost(node, f"it is at {position} after records up to {self._log.position_at(commits.up_to)}")]
        if not archived and len(taken) < _NAMES_KEPT:
            self._taken[node] = taken | {name: digests[name] for name in files}
        version = None if request.membership is None else request.membership.version
        return [Acked(node, commits.up_to, request.up_to, version, told)]

    async def _files_of(self, names: list[str], record: int) -> tuple[Files, dict[str, str]]:
        """The files, and what tells whether they have changed."""
        key, files, digests = self._read
        if key != (names, record):
            files = await self._queue.read(names)
            digests = {name: "gone" if content is None else digest_of(content) for name, content in files.items()}
            await self._queue.serial(fresh=bool(files))
            self._read = (names, record), files, digests
        return files, digests

    async def _append_piece(
        self,
        node: str,
        after: Position,
        commits: list[msgspec.Raw],
        files: dict[str, str | None],
        archived: list[int],
        membership: Membership | None,
        acknowledged: tuple[Position, str] | None = None,
    ) -> CopyAnswer:
        size_bytes = sum(len(bytes(commit)) for commit in commits)
        size_bytes += sum(len(content) for content in files.values() if content is not None)
        request = ReplicaAppend(
            **self._identity.arguments(),
            after=after,
            commits=cast("list[CommitRecord]", commits),  # encoded once for all followers
            files=files,
            archived=archived,
            serial=await self._queue.serial(fresh=False),
            membership=membership,
            acknowledged=acknowledged,
        )
        return await self._ask(
            node, request, self._timing.take_s if size_bytes <= _SMALL_BYTES else self._timing.long_take_s
        )

    async def _whole(self, request: SendSnapshot) -> list[Event]:
        taken = self._snapshot()
        told = min(request.acknowledged, taken.number)
        config = await asyncio.to_thread(_pack, taken.parts)
        asked = ReplicaSnapshot(
            **self._identity.arguments(),
            position=taken.position,
            config=config,
            steps=[encode_step(step) for step in taken.steps],
            membership=request.membership,
            digest=taken.digest,
            acknowledged=self._log.state_at(told),
            files=await self._marks_of(taken.steps),
        )
        answer = await self._ask(request.node, asked, 2 * self._timing.long_take_s)
        self.positions[request.node] = answer.position or taken.position
        return [SnapshotTaken(request.node, taken.number, request.membership.version, told)]

    async def _marks_of(self, steps: list[StepAnswer]) -> Files:
        """The files of the jobs whose commits a snapshot holds: no copy has those without the marks of their jobs."""
        files = await self._queue.read(list(dict.fromkeys(job_name(step.job) for step in steps if step.job)))
        return {name: content for name, content in files.items() if content is not None}

    async def _compare_queue(self, request: SendQueue) -> list[Event]:
        node = request.node
        answer = await self._ask(node, ReplicaQueueList(**self._identity.arguments()), self._timing.long_take_s)
        self._read = ([], 0), {}, {}  # nobody may be sent an older file than he has
        changed, archived = await self._queue.differences(answer.files)
        await self._queue.serial(fresh=True)
        after = self.positions[node]
        for begin in range(0, len(changed), _FILES_AT_ONCE):
            for piece in pieces_of(await self._queue.read(changed[begin : begin + _FILES_AT_ONCE])):
                await self._append_piece(node, after, [], piece, [], None)
        if archived:
            await self._append_piece(node, after, [], {}, archived, None)
        return [QueueEqual(node, request.as_of)]

    async def _refused(self, node: str, refusal: Refused) -> list[Event]:
        if refusal.reason == _GAP:
            if (position := refusal.answer.position) is not None:
                self.positions[node] = position
            return [Lost(node, str(refusal))]
        if refusal.reason == _DAMAGED:
            return [Damaged(node, str(refusal))]
        failed = Failed(node, Problem.REFUSED, str(refusal))
        if refusal.reason != _EPOCH:
            return [failed]
        answer = refusal.answer
        if not answer.established:
            answer = await self._ask_promise(node) or answer
        return [EpochSeen(node, answer.promised, answer.holder, answer.established), failed]

    async def _ask_promise(self, node: str) -> CopyAnswer | None:
        request = Promise(**self._identity.arguments(), ask_only=True)
        try:
            return await ask(self._nodes, node, request, deadline_s=self._timing.take_s)
        except GanetiError:
            return None

    async def _ask(self, node: str, request: FromMaster[CopyAnswer], deadline_s: float) -> CopyAnswer:
        answer = await ask(self._nodes, node, request, deadline_s=deadline_s)
        if answer.refused is not None:
            raise Refused(answer)
        return answer


_FILES_AT_ONCE = 256


def _pack(parts: list[bytes]) -> str:
    return base64.b64encode(zlib.compress(b"".join(parts), 1)).decode()
