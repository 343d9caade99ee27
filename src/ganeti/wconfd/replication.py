# SPDX-License-Identifier: BSD-2-Clause
"""Carries out what the machine of the followers decides (`master/replication/machine.py`), on WConfD's event loop.

What is handed over here is durable on this node already; `on_release` says up to which record every member has it.
A follower has one request in flight; whatever waits goes along with the next one. Without followers nothing is sent,
nothing waits, and a record is released in the call that hands it over.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.errors import INTERNAL_ERROR, ConfigurationError, DeposedError, GanetiError
from ganeti.base.paths import Paths
from ganeti.master.config.records import Commit
from ganeti.master.replication import events
from ganeti.master.replication.effects import (
    AskMembers,
    Deposed,
    Effect,
    LogLine,
    NodeIn,
    NodeOut,
    Reclaim,
    Release,
    SendAppend,
    SendQueue,
    SendSnapshot,
    SendState,
    StoreMembership,
)
from ganeti.master.replication.events import Event
from ganeti.master.replication.followers import State, Timing
from ganeti.master.replication.machine import Machine
from ganeti.model.membership import Kept
from ganeti.model.objects import Node
from ganeti.ports.nodes import NodesPort
from ganeti.system.event_loop import Background
from ganeti.wconfd.replication_log import ReplicationLog
from ganeti.wconfd.replication_queue import QueueFiles, check_names
from ganeti.wconfd.replication_sending import Identity, Sender, Snapshot
from ganeti.wconfd.store_thread import StoreThread

_log = logging.getLogger(__name__)
_MASTER = "master"


@dataclass(frozen=True)
class Begin:
    """What replication begins with."""

    identity: Identity
    kept: Kept
    candidates: dict[str, str]
    """UUID and name, of the newest configuration."""
    log: ReplicationLog
    forced: bool = False
    """A human has said that no other node is master: members that do not answer are left out at the start."""
    timing: Timing = field(default_factory=Timing)


@dataclass
class Hooks:
    """Who is told what."""

    snapshot: Callable[[], Snapshot]
    on_release: Callable[[int], None] = lambda _: None
    on_deposed: Callable[[str], None] = lambda _: None
    on_states: Callable[[], None] = lambda: None
    """A node may have come into sync, or out of it."""
    on_reclaim: Callable[[], None] = lambda: None
    """Only a new epoch makes candidates follow again that have promised themselves to somebody who did not begin."""


class Replicator:
    """The master's side of all copies."""

    def __init__(self, begin: Begin, nodes: NodesPort | None, store: StoreThread, paths: Paths, hooks: Hooks) -> None:
        """*nodes* is None where there is nobody to send to: then the master is the only candidate."""
        identity = begin.identity
        me = identity.me
        candidates = begin.candidates if nodes is not None else {me: begin.candidates.get(me, me)}
        self.log = begin.log
        self.hooks = hooks
        self._nodes = nodes
        self._store = store
        self._identity = identity
        self._candidates = dict(candidates)
        self._machine = Machine(
            me, begin.kept, candidates, self.log.last, self._loop_s(), begin.timing, forced=begin.forced
        )
        self._sender = None
        if nodes is not None:
            queue = QueueFiles(paths)
            self._sender = Sender(nodes, identity, self.log, queue, lambda: self.hooks.snapshot(), begin.timing)
        self._background = Background()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._moved = asyncio.Event()

    @property
    def released(self) -> int:
        return self._machine.released

    @property
    def deposed(self) -> str | None:
        """The sentence that says who is master instead."""
        return self._machine.deposed

    def start(self) -> None:
        """Begin to ask the followers what they have."""
        self._handle(events.Tick())

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._background.cancel()

    def hand_over(self, commits: Sequence[Commit], queue_files: Sequence[str] = ()) -> int:
        """These commits are durable here; gives the number of the last of them. No copy has them before the files."""
        if queue_files and self._machine.followers:
            self.log.add_queue(queue_files, ())
        for commit in commits:
            number = self.log.add_commit(commit)
            if touches_nodes(commit):
                self._note_candidates(number, commit)
        is_queue_only = not any(commit.changes_objects for commit in commits)
        self._handle(events.Durable(self.log.last, is_queue_only))
        return self.log.last

    async def replicate_queue(self, names: Sequence[str], archived: Sequence[int]) -> None:
        """Return when every member has these files of the queue as they are now (S2.7).

        Raises `JobQueueError` for a name that is no file of the queue, `DeposedError` where another node is master.
        """
        check_names(names)
        self.refuse_deposed()
        if not self._machine.followers:
            return
        number = self.log.add_queue(names, archived)
        self._handle(events.Durable(number, is_queue_only=True))
        await self.wait_released(number)

    def compare_queue(self) -> None:
        """Have the files of the queue at every follower compared with those here, before any is sent again."""
        self._handle(events.QueueDoubted())

    async def wait_released(self, number: int | None = None) -> None:
        """Return when all members have this record, or all there are now; raises `DeposedError`."""
        wanted = self.log.last if number is None else number
        while self._machine.released < wanted:
            self.refuse_deposed()
            await self._moved.wait()

    def refuse_deposed(self) -> None:
        if self._machine.deposed is not None:
            raise DeposedError(f"This node is not the master any more: {self._machine.deposed}")

    def is_in_sync(self, node: str) -> bool:
        """Whether nothing is acknowledged that this node does not have."""
        follower = self._machine.followers.get(node)
        return follower is not None and follower.state is State.IN_SYNC

    def appeared(self, node: str) -> None:
        """The node has been heard of by somebody else."""
        self._handle(events.Appeared(node))

    def state(self) -> dict[str, Any]:
        """The answer of ``replicationState``."""
        machine = self._machine
        position = self.log.position_at(machine.released)
        past_s = self._identity.now_s() - self._loop_s()
        nodes: dict[str, Any] = {}
        for node in machine.candidates.newest:
            if node == self._identity.me:
                nodes[node] = {"state": _MASTER, "position": position, "reason": "", "since_s": 0.0}
            elif (follower := machine.followers.get(node)) is not None:
                nodes[node] = {
                    "state": follower.state.value,
                    "position": self._sender.positions.get(node) if self._sender is not None else None,
                    "reason": "" if follower.state is State.IN_SYNC else follower.reason,
                    "since_s": follower.since_s + past_s,
                }
        membership = machine.membership.to_plain()
        return {"epoch": machine.epoch, "membership": membership, "position": position, "nodes": nodes}

    def may_commit(self, commit: Commit) -> bool:
        """Whether it is the time for this commit, which is not durable yet, as the next one.

        False while an earlier change of the candidates is not at every member: `wait_released` then. Raises
        `ConfigurationError` for one that changes too many at once (see `master.replication.quorum`).
        """
        if self._nodes is None or not touches_nodes(commit):
            return True
        candidates = self._candidates_after(commit)
        differ = self._machine.candidates.differ(candidates)
        if differ > 1:
            raise ConfigurationError(
                f"{differ} nodes would become master candidates or cease to be any at once: change one after the other"
            )
        return self._machine.candidates.may_become(candidates)

    def _candidates_after(self, commit: Commit) -> dict[str, str]:
        candidates = dict(self._candidates)
        for put in commit.puts:
            if isinstance(put.obj, Node):
                candidates.pop(put.uuid, None)
                if put.obj.master_candidate and not put.obj.offline:
                    candidates[put.uuid] = put.obj.name
        for kind, uuid in commit.removes:
            if kind == "nodes":
                candidates.pop(uuid, None)
        return dict(sorted(candidates.items()))

    def _note_candidates(self, number: int, commit: Commit) -> None:
        if self._nodes is None:
            return
        self._candidates = self._candidates_after(commit)
        self._handle(events.CandidatesChanged(number, self._candidates))

    def _handle(self, event: Event) -> None:
        for effect in self._machine.handle(event, self._loop_s()):
            self._carry_out(effect)
        self._arm()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendState() | SendAppend() | SendSnapshot() | SendQueue():
                self._background.start(self._request(effect), f"copy at {effect.node}")
            case AskMembers():
                for node in effect.nodes:
                    self._background.start(self._ask_members(node, effect), f"membership at {node}")
            case StoreMembership():
                self._background.start(self._keep(effect.kept), "membership")
            case Release():
                self.log.trim(effect.up_to)
                self.hooks.on_release(effect.up_to)
                self._wake()
            case NodeIn() | NodeOut():
                _log.log(logging.INFO if isinstance(effect, NodeIn) else logging.WARNING, "%s", effect.sentence)
                self.hooks.on_states()
            case LogLine():
                _log.log(logging.WARNING if effect.is_warning else logging.INFO, "%s", effect.sentence)
                self.hooks.on_states()
            case Reclaim():
                self.hooks.on_reclaim()
            case Deposed():
                _log.error("This node is not the master any more: %s", effect.sentence)
                self._wake()
                self.hooks.on_deposed(effect.sentence)

    async def _request(self, request: SendState | SendAppend | SendSnapshot | SendQueue) -> None:
        assert self._sender is not None
        try:
            answers = await self._sender.send(request)
        except Exception as err:
            _log.exception("Sending to node %s failed with %s", request.node, INTERNAL_ERROR)
            reason = f"{INTERNAL_ERROR}: {type(err).__name__}: {err}"
            answers = [events.Failed(request.node, events.Problem.REFUSED, reason)]
        for answer in answers:
            self._handle(answer)

    async def _ask_members(self, node: str, request: AskMembers) -> None:
        assert self._sender is not None
        for answer in await self._sender.ask_members(node, request.membership):
            self._handle(answer)

    async def _keep(self, kept: Kept) -> None:
        try:
            await self._store.run(self._store.store.set_membership, kept)
        except GanetiError as err:
            self._handle(events.MembershipNotKept(str(err)))
        else:
            self._handle(events.MembershipKept())

    def _arm(self) -> None:
        """Wake up when the machine wants it; earlier does no harm, so what was set for an earlier time stays."""
        due_s = None if self._machine.deposed is not None else self._machine.due_s()
        if due_s is None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None or due_s < self._timer_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_s = due_s
            self._timer = asyncio.get_running_loop().call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        due_s = self._machine.due_s()
        if due_s is not None and due_s <= self._loop_s():
            self._handle(events.Tick())
        else:
            self._arm()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    @staticmethod
    def _loop_s() -> float:
        return asyncio.get_running_loop().time()


def touches_nodes(commit: Commit) -> bool:
    """Whether it may change who the master candidates are."""
    return any(put.kind == "nodes" for put in commit.puts) or any(kind == "nodes" for kind, _ in commit.removes)


def candidates_of(nodes: Iterable[Node]) -> dict[str, str]:
    """UUID and name of those that take copies."""
    return {
        node.uuid: node.name
        for node in sorted(nodes, key=lambda n: n.uuid)
        if node.master_candidate and not node.offline
    }
