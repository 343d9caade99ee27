# SPDX-License-Identifier: BSD-2-Clause
"""Commits as they run: staged in memory, made durable together, then told to everyone (D6).

Requests that wait while the disk is busy form the next batch: one transaction and one fsync for all of them. Readers
see `form` and `stream`, which hold durable commits only. A batch that cannot be written is taken back whole.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from ganeti.base.errors import ConfigurationError, GanetiError
from ganeti.master.config.head import Head, Staged
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import Commit, PublishedMark, StepAnswer
from ganeti.master.config.steps import Steps
from ganeti.master.config.store import ConfigStore
from ganeti.master.config.stream import ChangeStream
from ganeti.model.objects import ConfigObject
from ganeti.ports.config import Change
from ganeti.runtime.pause_points import reach

_log = logging.getLogger(__name__)
_BATCH_COMMITS = 256

Answer = TypeVar("Answer")


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
    staged: Staged | None = None
    commit: Commit | None = None


class StoreThread:
    """The one thread in which the store works, so that the loop never waits for the disk."""

    def __init__(self, store: ConfigStore) -> None:
        self.store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")

    async def run(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def close(self) -> None:
        """Wait for what is being written, then close the store."""
        self._thread.submit(self.store.close)
        self._thread.shutdown()


class Committer:
    """The one writer of the configuration."""

    def __init__(
        self,
        head: Head,
        form: PublishedForm,
        stream: ChangeStream,
        steps: Steps,
        store: StoreThread,
        now_s: Callable[[], float],
        on_commit: Callable[[Commit, bytes | None], None],
    ) -> None:
        """*on_commit* is told each durable commit and its message for subscribers, in order."""
        self.form = form
        self.stream = stream
        self.steps = steps
        self.published: PublishedMark | None = None
        """What `config.data` has been written with, told by whoever writes it; kept with the next commit."""
        self._head = head
        self._store = store
        self._now_s = now_s
        self._on_commit = on_commit
        self._queue: asyncio.Queue[_Request] = asyncio.Queue()
        self._in_flight: dict[tuple[int, int, int], asyncio.Future[bytes]] = {}

    async def commit(self, step: JobStep, change: Change) -> bytes:
        """Commit *change*; gives the answer as JSON once it is durable.

        A step that was answered before gets the same answer. Raises what the change raises, `ConfigVerifyError`,
        `LockError` for a superseded attempt, or `ConfigurationError` if the disk is at fault; nothing has changed then.
        """
        known = self.steps.find(step.job, step.attempt, step.step)
        if known is not None:
            return known.answer
        key = (step.job, step.attempt, step.step)
        answer = self._in_flight.get(key)
        if answer is None:
            self.steps.refuse_superseded(step.job, step.attempt)
            answer = self._in_flight[key] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(lambda _: self._in_flight.pop(key, None))
            self._queue.put_nowait(_Request(step, change, answer))
        return await asyncio.shield(answer)

    async def run(self) -> None:
        """Serve the queue, until cancelled; a batch that has begun is finished."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _BATCH_COMMITS and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await asyncio.shield(asyncio.ensure_future(self._serve(batch)))
            if self._queue.empty() and self._store.store.wants_maintenance:
                await self._store.run(self._store.store.maintain)

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

    async def _serve(self, batch: list[_Request]) -> None:
        staged = [request for request in batch if self._stage(request)]
        commits = self._sign([request for request in staged if request.commit is not None])
        if not commits:
            return
        reach("commit-staged")
        try:
            await self._store.run(self._store.store.commit, commits)
        except Exception as err:
            self._take_back(staged, err)
            return
        reach("commit-durable")
        for request in staged:
            self._finish(request)
        reach("commit-told")

    def _sign(self, requests: list[_Request]) -> list[Commit]:
        """Give each commit the fingerprint of the configuration that holds it."""
        commits = [request.commit for request in requests if request.commit is not None]
        digests = self.form.fingerprint.after(commits)
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
        for request in reversed(staged):
            if request.staged is not None:
                self._head.revert(request.staged)
            _fail(request, error)

    def _stage(self, request: _Request) -> bool:
        step, name = request.step, type(request.change).__name__
        try:
            self.steps.refuse_superseded(step.job, step.attempt)
            request.staged = self._head.stage(request.change, self._now_s())
            request.commit = _commit_of(step, request.staged)
        except GanetiError as err:
            _log.info("%s: change %s refused: %s", step, name, err)
            _fail(request, err)
            return False
        except Exception as err:
            _log.exception("%s: change %s failed by a fault of its own", step, name)
            if request.staged is not None:
                self._head.revert(request.staged)
            _fail(request, GanetiError(f"The change {name} failed by a fault of its own: {type(err).__name__}: {err}"))
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
