# SPDX-License-Identifier: BSD-2-Clause
"""What the engine that runs a job asks of the world around it; sockets and files in production (D3)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ganeti.master.queue.undo import Line, UndoLog
from ganeti.model.view import ConfigView
from ganeti.ports.context import JobIdentity, JobLogPort, OperationContext, UndoPort
from ganeti.wire.job_file import JobFile


class UndoStore(Protocol):
    """The job's undo log on disk."""

    @property
    def log(self) -> UndoLog: ...

    async def append(self, *lines: Line, durable: bool = True) -> None:
        """Add lines, all or none; then they are on disk here and, with *durable*, at every candidate in sync.

        The log itself has them at once, before anything is waited for.
        """
        ...

    def clear(self) -> None:
        """Drop what has become moot; records that were given up stay. The candidates hear of it later."""
        ...


class EngineWorld(Protocol):
    @property
    def undo(self) -> UndoStore: ...

    def now_s(self) -> float: ...

    async def save(self, job: JobFile) -> None:
        """Store the job file durably, now; if the job has changed anything, at every candidate in sync as well."""
        ...

    async def end(self, job: JobFile) -> bool:
        """As `save`, for the end of a job: False where only this disk has it, as the configuration daemon is away."""
        ...

    def save_soon(self, job: JobFile) -> None:
        """Store the job file before long; several changes become one write."""
        ...

    async def hand_back(self, job: JobFile) -> None:
        """As `save`; from then on the file is the queue's, and this process has no more to do with it."""
        ...

    def priority_message(self) -> int | None:
        """The priority somebody has left for this job, once."""
        ...

    async def may_continue(self) -> bool:
        """Between two opcodes: False if something better waits for this job's place. True if nobody can be asked."""
        ...

    def view(self) -> ConfigView: ...

    def context(
        self, identity: JobIdentity, log: JobLogPort, undo: UndoPort, stop_if_cancelled: Callable[[], None]
    ) -> OperationContext: ...

    def commits(self) -> int:
        """How many changes this process has committed so far."""
        ...

    async def claim_locks(self, priority: int, request: Sequence[tuple[str, str]]) -> bool:
        """Hold all of *request*, with what is held already, or none of it: False if somebody stands in the way.

        Never waits. The first claim of a process also gets what the queue holds in the job's name. Raises `LockError`.
        """
        ...

    async def free_locks(self, *, ending: bool = False) -> None:
        """Give up everything held or waited for; harmless when there is nothing.

        With *ending* nobody is waited for: the death of this process tells as well.
        """
        ...

    async def take_over(self) -> None:
        """As a successor: get the locks of those that died."""
        ...

    async def abort_attempt(self, node_uuid: str) -> None:
        """As a successor: end what earlier attempts still do on a node, and wait for that."""
        ...

    async def last_settled(self) -> tuple[int, int] | None:
        """(attempt, step) of the job's last commit that settled."""
        ...

    def position(self) -> list[int] | None:
        """Where the job's last commit stands."""
        ...

    async def submit_jobs(self, jobs: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Any]]:
        """Submit jobs made by this one; gives ``[[ok, id or error text], …]``."""
        ...

    def has_local_hooks(self, directory: str) -> bool: ...

    def note_fault(self, error: BaseException) -> None:
        """Log a fault of the program, with its traceback."""
        ...
