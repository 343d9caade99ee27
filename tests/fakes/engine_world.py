# SPDX-License-Identifier: BSD-2-Clause
"""The world of a job in memory: what the engine asked for, in order, can be read from `story`."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.context import FakeContext
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import GanetiError
from ganeti.master.queue.undo import Line, UndoLog, decode_lines, encode_line
from ganeti.ports.context import JobIdentity
from ganeti.wire.job_file import FINAL_STATUSES, JobFile, OpcodeEntry, decode, encode


class MemoryUndo:
    """An undo log whose bytes are kept as they would lie on disk."""

    def __init__(self, story: list[str]) -> None:
        self.log = UndoLog()
        self.raw = b""
        self._story = story

    async def append(self, *lines: Line, durable: bool = True) -> None:
        self.raw += b"".join(map(encode_line, lines))
        self.log = UndoLog(decode_lines(self.raw))
        self._story += [f"record: {line['sentence']}" for line in lines if "record" in line]

    def clear(self) -> None:
        if not self.log.given_up():
            self.raw = b""
            self.log = UndoLog()


class MemoryWorld:
    def __init__(self, *opcodes: dict[str, Any]) -> None:
        self.inner = FakeContext(configuration(), catalogue())
        self.story = self.inner.story
        self.undo = MemoryUndo(self.story)
        self.job = JobFile(id=1, ops=[OpcodeEntry(input=opcode) for opcode in opcodes])
        self.disk = b""
        self.settled: tuple[int, int] | None = None
        self.submitted: list[Any] = []
        self.refusal: GanetiError | None = None
        self.faults: list[BaseException] = []
        self.taken: set[str] = set()
        """Locks somebody else holds."""
        self.claimed: list[int] = []
        """Priorities of the claims that were granted."""
        self.messages: list[int] = []
        self.go_on = True
        self.copied = True

    @property
    def stored(self) -> JobFile:
        return decode(self.disk, 1)

    def now_s(self) -> float:
        return self.inner.now_s()

    async def save(self, job: JobFile) -> None:
        self.disk = encode(job)
        self.story.append(f"saved {job.status}" if job.status in FINAL_STATUSES else "saved")

    async def end(self, job: JobFile) -> bool:
        await self.save(job)
        return self.copied

    def save_soon(self, job: JobFile) -> None:
        self.disk = encode(job)

    def view(self) -> Any:
        return self.inner.config.view()

    def commits(self) -> int:
        return len(self.inner.config.settled)

    def context(self, identity: JobIdentity, log: Any, undo: Any, stop_if_cancelled: Any) -> Any:
        self.inner.log = log
        self.inner.undo = undo
        self.inner.job = identity
        return self.inner

    async def hand_back(self, job: JobFile) -> None:
        self.disk = encode(job)
        self.story.append("handed back")

    def priority_message(self) -> int | None:
        return self.messages.pop(0) if self.messages else None

    async def may_continue(self) -> bool:
        return self.go_on

    async def claim_locks(self, priority: int, request: Sequence[tuple[str, str]]) -> bool:
        if self.refusal is not None:
            raise self.refusal
        words = " ".join(f"{lock}:{state}" for lock, state in request)
        if any(lock in self.taken for lock, _ in request):
            self.story.append(f"refused {words}")
            return False
        self.story.append(f"locks {words}")
        self.claimed.append(priority)
        return True

    async def free_locks(self, *, ending: bool = False) -> None:
        self.story.append("free")

    async def take_over(self) -> None:
        self.story.append("take over")

    async def abort_attempt(self, node_uuid: str) -> None:
        self.story.append(f"abort on {node_uuid}")

    async def last_settled(self) -> tuple[int, int] | None:
        return self.settled

    def position(self) -> list[int] | None:
        return [1, 7]

    async def submit_jobs(self, jobs: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Any]]:
        self.submitted += jobs
        return [[True, 10 + number] for number in range(len(jobs))]

    def has_local_hooks(self, directory: str) -> bool:
        return False

    def note_fault(self, error: BaseException) -> None:
        self.faults.append(error)
