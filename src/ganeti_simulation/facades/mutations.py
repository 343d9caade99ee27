# SPDX-License-Identifier: BSD-2-Clause
"""Deliberate breakages of single rules, by which the simulator itself is tested: each must be found.

A mutation changes production modules as they are loaded, in the simulator's real process only. `docs/simulator.md` has
the table of what shows each; `tests/simulation/mutations/NAME.plan` are the plans.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ganeti_simulation.facades.loader import Patch
from ganeti_simulation.facades.stand_ins import PATCHES

_LATER_S = 1.0


@dataclass(frozen=True)
class Mutation:
    name: str
    rule: str
    """The rule that is broken, as it should be."""
    patches: dict[str, Patch]


MUTATIONS: dict[str, Mutation] = {}


def patches_with(name: str | None) -> dict[str, Patch]:
    """What the loader applies: what stands for hardware, and then the mutation, if one is named."""
    patches = dict(PATCHES)
    if name is not None:
        for module, patch in MUTATIONS[name].patches.items():
            patches[module] = _one_after_the_other(patches.get(module), patch)
    return patches


def _one_after_the_other(first: Patch | None, second: Patch) -> Patch:
    def patch(module: Any) -> None:
        if first is not None:
            first(module)
        second(module)

    return patch


def _breaks(name: str, rule: str, *modules: str) -> Callable[[Patch], Patch]:
    """Declare what breaks *rule*, applied to each of these modules."""

    def declare(patch: Patch) -> Patch:
        MUTATIONS[name] = Mutation(name, rule, {f"ganeti.{module}": patch for module in modules})
        return patch

    return declare


# What is acknowledged


@_breaks("early-release", "what is acknowledged is on disk at every member", "master.replication.machine")
def _(module: Any) -> None:
    module.Machine.waited = property(lambda machine: [])


@_breaks("late-sync", "a member has synced what it says it has", "noded.replica_copy")
def _(module: Any) -> None:
    inner = module.ReplicaCopy.append

    async def append(self: Any, *arguments: Any) -> None:
        in_turn = self._in_turn

        async def do(work: Any, *rest: Any) -> None:
            await asyncio.sleep(_LATER_S)
            with suppress(Exception):  # what fails now was told to have been done
                await in_turn(work, *rest)

        async def later(work: Any, *rest: Any) -> None:
            self.__dict__.setdefault("later", []).append(asyncio.ensure_future(do(work, *rest)))

        self._in_turn = later
        try:
            await inner(self, *arguments)
        finally:
            self._in_turn = in_turn

    module.ReplicaCopy.append = append


@_breaks("send-first", "a commit is sent once it is on the master's own disk", "wconfd.commits")
def _(module: Any) -> None:
    async def serve(self: Any, batch: list[Any]) -> None:
        staged = [request for request in batch if self._stage(request)]
        commits = self._sign([request for request in staged if request.commit is not None])
        if not commits:
            return
        kept = module._Batch(staged)
        self._unfinished.append(kept)
        kept.number = self._replicator.hand_over(commits, [name for each in staged for name in each.queue_files])
        self.finish(self._replicator.released)
        self._is_writing = True
        try:
            await asyncio.sleep(_LATER_S)
            await self._store.run(self._store.store.commit, commits)
        except Exception as err:
            if kept in self._unfinished:
                self._unfinished.remove(kept)
            self._take_back(staged, err)
        finally:
            self._is_writing = False

    module.Committer._serve = serve


# Who is a member


@_breaks("lonely-shrink", "a member is left out with the knowledge of R candidates", "master.replication.members")
def _(module: Any) -> None:
    module.may_shrink = lambda *_: True


@_breaks("early-member", "a newcomer has everything before it is a member", "master.replication.machine")
def _(module: Any) -> None:
    def may_join(self: Any, follower: Any) -> bool:
        return bool(follower.known and follower.node in self.candidates and not self._members.includes(follower.node))

    module.Machine._may_join = may_join


@_breaks("no-snapshot", "a follower with another tail is sent everything", "wconfd.replication_log")
def _(module: Any) -> None:
    inner = module.ReplicationLog.number_at

    def number_at(self: Any, position: Any, digest: str) -> int | None:
        number: int | None = inner(self, position, digest)
        if number is not None or not self._numbers:
            return number
        known = [at for at in self._numbers if at <= position]
        return int(self._numbers[max(known)]) if known else None

    module.ReplicationLog.number_at = number_at


# Who may take over


@_breaks("half-majority", "an epoch needs the promises of more than half", "master.replication.quorum")
def _(module: Any) -> None:
    module.take_over_quorum = lambda candidates: (candidates + 1) // 2


@_breaks("stranger-takes-over", "only a member takes over", "master.mastership.takeover")
def _(module: Any) -> None:
    inner = module.TakeOver._members

    def members(self: Any) -> tuple[str, ...]:
        newest = inner(self)
        return newest if self.claim.me in newest else (*newest, self.claim.me)

    module.TakeOver._members = members
    module.TakeOver._behind = lambda *_: None
    module.TakeOver.check_invariants = lambda _: None


@_breaks("promise-twice", "an epoch is promised to one node", "node.promises")
def _(module: Any) -> None:
    module.Promise.would_grant = lambda self, epoch: epoch >= self.epoch


@_breaks("promise-in-memory", "a promise is on disk before it is told", "noded.calls")
def _(module: Any) -> None:
    def keep_promise(self: Any, promise: Any) -> None:
        self._ledger.promise = promise

    module.NodeCalls.keep_promise = keep_promise


@_breaks("old-epochs", "a node refuses epochs lower than its promise", "node.promises")
def _(module: Any) -> None:
    promise = module.Promise
    record, call = promise.admit_record, promise.admit_call
    promise.admit_record = lambda self, epoch, master: record(self, epoch, master) or self
    promise.admit_call = lambda self, epoch: call(self, epoch) or self


@_breaks("late-call", "a node carries out no call of an epoch lower than its promise", "node.promises")
def _(module: Any) -> None:
    inner = module.Promise.admit_call
    module.Promise.admit_call = lambda self, epoch: inner(self, epoch) or self


@_breaks(
    "deposed-goes-on",
    "who is master no more ends",
    "master.replication.machine",
    "noded.replica",
)
def _(module: Any) -> None:
    if hasattr(module, "Machine"):
        module.Machine._epoch_seen = lambda *_: None
    else:
        module._MasterDaemons.end = lambda *_: None


# The queue


@_breaks("early-job", "a job is on every member before its number is told", "luxid.queue.copies")
def _(module: Any) -> None:
    async def wait(self: Any, names: Any, within_s: float | None = None) -> str:
        self.soon(list(names))
        return ""

    module.QueueCopies.wait = wait


@_breaks("early-result", "a result is on every member before it is told", "luxid.queue.watching")
def _(module: Any) -> None:
    inner = module.QueueWatching._hold_back

    async def hold_back(self: Any, file: Any, alive: bool) -> None:
        copy = self._copy

        async def at_once(names: Any) -> str:
            copy(names)
            return ""

        self._copy = at_once
        try:
            await inner(self, file, alive)
        finally:
            self._copy = copy

    module.QueueWatching._hold_back = hold_back


@_breaks("local-undo", "an undo record is on every member before its step", "job.records")
def _(module: Any) -> None:
    async def append(self: Any, *lines: Any, durable: bool = True) -> None:
        self._undo.append(*lines, durable=durable)

    module.JobRecords.append = append


@_breaks("no-mark", "that a job runs is on every member before its first step", "job.records")
def _(module: Any) -> None:
    async def begin(self: Any) -> None:
        """Nothing is written."""

    async def append(self: Any, *lines: Any, durable: bool = True) -> None:
        self._undo.append(*lines, durable=durable)
        if durable:
            await self._copy()

    module.JobRecords.begin, module.JobRecords.append = begin, append
    module.JobRecords.mark = lambda self: ()


@_breaks(
    "late-mark", "no member has a job's first commit without the mark that the job has begun", "wconfd.replication"
)
def _(module: Any) -> None:
    inner = module.Replicator.hand_over
    module.Replicator.hand_over = lambda self, commits, queue_files=(): inner(self, commits)
