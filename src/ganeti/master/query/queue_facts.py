# SPDX-License-Identifier: BSD-2-Clause
"""What `why` may ask about the queue and the locks, to explain a job: protocols, so that a test can write them down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ganeti.master.locks.owners import Owner
from ganeti.master.queue.dependencies import Dependency
from ganeti.master.queue.filters import Admission
from ganeti.master.queue.state import Phase
from ganeti.model.locks import EXCLUSIVE
from ganeti.model.view import ConfigView
from ganeti.wire.job_file import JobFile


class Held(NamedTuple):
    """*owner* keeps *held* in *state*, so that *lock* cannot be had as *wanted*."""

    lock: str
    wanted: str
    held: str
    owner: Owner
    state: str
    since_s: float | None


class Ahead(NamedTuple):
    """A request that is served first, and over which lock."""

    lock: str
    owner: Owner
    priority: int


@dataclass(frozen=True)
class LockWait:
    """A waiting lock request and what is in its way (`explainLocks`, `listLocksWaitingStatus`)."""

    holders: Sequence[Held] = ()
    ahead: Sequence[Ahead] = ()
    request: Mapping[str, str] = field(default_factory=dict)
    """What is asked for; empty when nothing waits."""

    @property
    def wanted(self) -> dict[str, str]:
        """The locks that cannot be had, as they are wanted."""
        names = [hit.lock for hit in self.holders] + [other.lock for other in self.ahead]
        return {name: self.request.get(name, EXCLUSIVE) for name in names} or dict(self.request)


class Unwritable(NamedTuple):
    """Files of the queue cannot be written."""

    directory: str
    reason: str
    since_s: float


class UnfinishedJob(Protocol):
    """A job as the queue machine has it."""

    @property
    def file(self) -> JobFile: ...
    @property
    def phase(self) -> Phase: ...
    @property
    def since_s(self) -> float:
        """When it came into its phase."""

    @property
    def depends(self) -> Sequence[Dependency]: ...
    @property
    def held_by(self) -> str | None:
        """A sentence, when a filter rule or a rate limit keeps it back."""

    @property
    def holds(self) -> bool:
        """WConfD has granted its locks, and there was no slot yet."""

    @property
    def blockers(self) -> Sequence[int | str]:
        """Who was in the way of its request when it was last asked for."""


class QueueFacts(Protocol):
    """What the reasoning may ask. Everything may change between two questions that are awaited."""

    @property
    def now_s(self) -> float: ...
    @property
    def view(self) -> ConfigView: ...
    @property
    def admission(self) -> Admission:
        """The filter rules."""

    @property
    def slots(self) -> Sequence[int]:
        """Jobs that have, or are about to get, a process."""

    @property
    def most_running(self) -> int: ...
    @property
    def held_back(self) -> bool:
        """No job is started now."""

    @property
    def unwritable(self) -> Unwritable | None:
        """The master daemon cannot write what it decides."""

    def stuck(self, job: UnfinishedJob) -> Unwritable | None:
        """The job's process waits until it can write what it has done."""

    def unfinished(self, job_id: int) -> UnfinishedJob | None: ...
    def ended(self, job_id: int) -> JobFile | None:
        """The file of a job that has ended, archived or not."""

    def ready_order(self) -> Sequence[int]:
        """Jobs that only wait for a slot, the next one first."""

    def waiting_owner(self, job: UnfinishedJob) -> Owner:
        """In whose name a job waits for locks."""

    async def lock_wait(self, owner: Owner) -> LockWait | None:
        """None if WConfD does not answer."""
