# SPDX-License-Identifier: BSD-2-Clause
"""Commits as they run: staged in memory, made durable together, handed to the copies, then told to everyone (D6).

Requests that wait while the disk is busy form the next batch: one transaction and one fsync for all of them. The next
batch may be written while the former is on its way to the copies; they are finished in order, when every copy in sync
has them. Readers see `form` and `stream`, which hold nothing else. A batch that cannot be written is taken back whole;
one that is written stays, whatever becomes of the copies.

A commit that changes who the master candidates are waits until every copy in sync has the change before it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ganeti.base.errors import INTERNAL_ERROR, ConfigurationError, DeposedError, GanetiError
from ganeti.master.config.fingerprint import Ahead
from ganeti.master.config.head import Head, Staged
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import Commit, PublishedMark, StepAnswer
from ganeti.master.config.steps import Steps
from ganeti.master.config.stream import ChangeStream
from ganeti.model.objects import ConfigObject
from ganeti.ports.config import Change
from ganeti.stores.config_store import is_corrupt
from ganeti.system.pause_points import reach
from ganeti.wconfd.replication import Replicator, touches_nodes
from ganeti.wconfd.replication_sending import Snapshot
from ganeti.wconfd.store_thread import StoreThread

_log = logging.getLogger(__name__)
_BATCH_COMMITS = 256
_BATCHES_AHEAD = 4
"""Batches written and not finished, after which the next waits: a copy that is slow must not fill the memory."""
_WAY_OUT = "run gnt-cluster master-failover on another candidate in sync; this copy is made anew then"


@dataclass(frozen=True)
class JobStep:
    """Which step of which job a commit is; job 0 is a daemon."""

    job: int
    attempt: int
    step: int
    lock_file: str
    settles: bool

    def __str__(self) -> str:
        return f"job {self.job}.{self.attempt} step {self.step}"


@dataclass(eq=False)
class _Request:
    step: JobStep
    change: Change
    answer: "asyncio.Future[bytes]"
    queue_files: Sequence[str] = ()
    """Names of files that each copy must have before it has the commit."""
    staged: Staged | None = None
    commit: Commit | None = None
    must_wait: bool = False


@dataclass(eq=False)
class _Batch:
    """Requests that are durable here; *number* is that of the last of their records, 0 until it has one."""

    requests: list[_Request]
    number: int = 0


class Committer:
    """The one writer of the configuration."""

    def __init__(
        self,
        head: Head,
        form: PublishedForm,
        stream: ChangeStream,
        steps: Steps,
        store: StoreThread,
        replicator: Replicator,
        now_s: Callable[[], float],
        on_commit: Callable[[Commit, bytes | None], None],
        check_locks: Callable[[JobStep, Staged], None] = lambda step, staged: None,
    ) -> None:
        """*on_commit* is told each finished commit and its message for subscribers, in order.

        *check_locks* may raise `LockError` for a change that its job may not make.
        """
        self.form = form
        self.stream = stream
        self.steps = steps
        self.published: PublishedMark | None = None
        """What `config.data` was written with, given by its writer; kept with the next commit."""
        self._head = head
        self._store = store
        self._now_s = now_s
        self._on_commit = on_commit
        self._check_locks = check_locks
        self._replicator = replicator
        self._ahead = Ahead(form.fingerprint)
        self._unfinished: deque[_Batch] = deque()
        self._finished = replicator.log.last
        """The newest record that `form` and `stream` hold; at the start, the newest there is."""
        self._room = asyncio.Event()
        self._is_writing = False
        self._queue: asyncio.Queue[_Request] = asyncio.Queue()
        self._held: list[_Request] = []
        """Taken from the queue, and to be served before it."""
        self._must_settle = False
        """The first of `_held` waits for what is on its way to the copies."""
        self._in_flight: dict[tuple[int, int, int], asyncio.Future[bytes]] = {}

    async def commit(self, step: JobStep, change: Change, queue_files: Sequence[str] = ()) -> bytes:
        """Commit *change*; gives the answer as JSON once it is durable, here and at every copy in sync.

        No copy has it without *queue_files*, as they are on this disk now: a job's mark that it has begun goes along
        with its first commit. Where this daemon begins anew, the copies get the queue before any commit.

        A step that was answered before gets the same answer. Raises what the change raises, `ConfigVerifyError`,
        `LockError` for a superseded attempt, or `ConfigurationError` if the disk is at fault; nothing has changed then.
        `DeposedError` where another node is master: it may or may not have what was sent.
        """
        self._replicator.refuse_deposed()
        known = self.steps.find(step.job, step.attempt, step.step)
        if known is not None:
            return known.answer
        key = (step.job, step.attempt, step.step)
        answer = self._in_flight.get(key)
        if answer is None:
            self.steps.refuse_superseded(step.job, step.attempt)
            answer = self._in_flight[key] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(lambda _: self._in_flight.pop(key, None))
            self._queue.put_nowait(_Request(step, change, answer, queue_files))
        return await asyncio.shield(answer)

    async def supersede(self, job: int, attempt: int) -> None:
        """Hear no attempt of *job* before *attempt*; returns when what they had asked for is seen, or refused.

        What the successor undoes depends on it: a commit may be on its way to the copies when its job dies.
        """
        self.steps.supersede(job, attempt)
        former = [answer for (each, number, _), answer in self._in_flight.items() if each == job and number < attempt]
        await asyncio.gather(*map(asyncio.shield, former), return_exceptions=True)

    async def run(self) -> None:
        """Serve the queue, until cancelled; a batch that has begun is finished."""
        while True:
            while len(self._unfinished) >= _BATCHES_AHEAD:
                self._room.clear()
                await self._room.wait()
            await asyncio.shield(asyncio.ensure_future(self._serve(await self._next_batch())))
            await self._maintain()

    async def _maintain(self) -> None:
        if self._queue.empty() and self._store.store.wants_maintenance:
            await self._store.run(self._store.store.maintain)

    async def _next_batch(self) -> list[_Request]:
        if self._must_settle:
            self._must_settle = False
            with suppress(DeposedError):  # who waits was told
                await self._replicator.wait_released()
        batch, self._held = self._held, []
        if not batch:
            batch.append(await self._queue.get())
        while len(batch) < _BATCH_COMMITS and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    async def forget_steps(self, is_finished: Callable[[StepAnswer], bool]) -> None:
        """Drop the answers of jobs whose newest attempt *is_finished*, and what nobody can ask for again."""
        finished = [job for job, newest in self.steps.newest_by_job().items() if is_finished(newest)]
        answers = [answer for job in finished for answer in self.steps.of_job(job)]
        answers += [answer for job in self.steps.newest_by_job() for answer in self.steps.excess(job)]
        if answers:
            await self._store.run(self._store.store.forget_steps, answers)
        for job in finished:
            self.steps.forget_job(job)
        self.steps.forget(answers)
        await self._maintain()  # who read in the log's way may have been one of these jobs

    async def _serve(self, batch: list[_Request]) -> None:
        staged = self._stage_all(batch)
        commits = self._sign([request for request in staged if request.commit is not None])
        if not commits:
            return
        reach("commit-staged")
        self._is_writing = True
        try:
            await self._store.run(self._store.store.commit, commits)
        except Exception as err:
            self._take_back(staged, err)
            return
        finally:
            self._is_writing = False
        reach("commit-durable")
        for commit in commits:
            if commit.step is not None:
                self.steps.supersede(commit.step.job, commit.step.attempt)
        batch_kept = _Batch(staged)
        self._unfinished.append(batch_kept)
        queue_files = dict.fromkeys(name for request in staged for name in request.queue_files)
        batch_kept.number = self._replicator.hand_over(commits, list(queue_files))
        self.finish(self._replicator.released)

    def finish(self, released: int) -> None:
        """Every copy in sync has all records up to this one: answer those who wait, and show what they did."""
        while self._unfinished and 0 < self._unfinished[0].number <= released:
            batch = self._unfinished.popleft()
            for request in batch.requests:
                self._finish(request)
            self._finished = batch.number
            self._room.set()
            reach("commit-told")
        if not self._unfinished:
            if not self._is_writing:
                self._ahead.reset()  # else the batch that is being written counts already
            self._finished = max(self._finished, released)

    def snapshot(self) -> Snapshot:
        """What readers see now, for a copy that lacks too much."""
        form = self.form
        answers = [answer for job in self.steps.newest_by_job() for answer in self.steps.of_job(job)]
        return Snapshot(self._finished, form.position, form.digest, form.config_parts(), answers)

    def give_up(self, error: GanetiError) -> None:
        """Nobody gets an answer any more but this one."""
        for batch in self._unfinished:
            for request in batch.requests:
                _fail(request, error)
        for request in self._held:
            _fail(request, error)
        self._held = []
        while not self._queue.empty():
            _fail(self._queue.get_nowait(), error)

    def _sign(self, requests: list[_Request]) -> list[Commit]:
        """Give each commit the fingerprint of the configuration that holds it."""
        commits = [request.commit for request in requests if request.commit is not None]
        digests = self._ahead.sign(commits)
        signed = [
            replace(commit, digest=digest, published=self.published)
            for commit, digest in zip(commits, digests, strict=True)
        ]
        for request, commit in zip(requests, signed, strict=True):
            request.commit = commit
        return signed

    def _take_back(self, staged: list[_Request], error: Exception) -> None:
        _log.error("%d changes of the configuration are taken back: %s", len(staged), error)
        if not isinstance(error, GanetiError):
            error = ConfigurationError(f"The configuration cannot be written: {type(error).__name__}: {error}")
        elif is_corrupt(error.__cause__):
            error = ConfigurationError(f"{error}; {_WAY_OUT}")
        written = [request.commit for batch in self._unfinished for request in batch.requests]
        self._ahead.reset(commit for commit in written if commit is not None)
        for request in reversed(staged):
            if request.staged is not None:
                self._head.revert(request.staged)
            _fail(request, error)

    def _stage_all(self, batch: list[_Request]) -> list[_Request]:
        """Stage what can be committed together; the rest is held."""
        staged = []
        for number, request in enumerate(batch):
            if not self._stage(request):
                continue
            if request.must_wait and request.staged is not None:
                self._head.revert(request.staged)
                request.staged = request.commit = None
                self._must_settle = True
                self._held = batch[number:]
                break
            staged.append(request)
            if request.commit is not None and touches_nodes(request.commit):
                self._held = batch[number + 1 :]
                break
        return staged

    def _stage(self, request: _Request) -> bool:
        """Whether it can be; one that fails is told why."""
        step, name = request.step, type(request.change).__name__
        try:
            self.steps.refuse_superseded(step.job, step.attempt)
            request.staged = self._head.stage(request.change, self._now_s())
            self._check_locks(step, request.staged)
            request.commit = _commit_of(step, request.staged)
            request.must_wait = not self._replicator.may_commit(request.commit)
        except GanetiError as err:
            if request.staged is not None:
                self._head.revert(request.staged)
            _log.info("%s: change %s refused: %s", step, name, err)
            _fail(request, err)
            return False
        except Exception as err:
            _log.exception("%s: change %s failed with %s", step, name, INTERNAL_ERROR)
            if request.staged is not None:
                self._head.revert(request.staged)
            _fail(request, GanetiError(f"The change {name} failed with {INTERNAL_ERROR}: {type(err).__name__}: {err}"))
            return False
        return True

    def _finish(self, request: _Request) -> None:
        commit = request.commit
        if commit is None or commit.step is None:
            return
        self.steps.add(commit.step)
        if commit.changes_objects:
            self.form.apply(commit)
            event = self.stream.add(commit)
            self._on_commit(commit, event)
            _log.info(
                "%s: %s committed as %d.%d (%d put, %d removed)",
                request.step,
                type(request.change).__name__,
                *commit.position,
                len(commit.puts),
                len(commit.removes),
            )
        if not request.answer.done():
            request.answer.set_result(commit.step.answer)


def _commit_of(step: JobStep, staged: Staged) -> Commit:
    answer = msgspec.json.encode({"position": staged.position, "result": _plain(staged.result)})
    return staged.commit(StepAnswer(step.job, step.attempt, step.step, step.settles, step.lock_file, answer))


def _fail(request: _Request, error: GanetiError) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
        request.answer.exception()  # the sender may be gone: then nobody else retrieves it


def _plain(result: Any) -> Any:
    """Configuration objects answer in the layout of `config.data`."""
    if isinstance(result, ConfigObject):
        return result.to_plain()
    if isinstance(result, list | tuple):
        return [_plain(item) for item in result]
    if isinstance(result, dict):
        return {key: _plain(value) for key, value in result.items()}
    return result
