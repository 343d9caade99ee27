# SPDX-License-Identifier: BSD-2-Clause
"""What an operation may ask of the world while it gathers facts and acts (D3)."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_calls.programs import Phase
from ganeti.model.reservations import Reservation, Reservations
from ganeti.model.traits import Catalogue
from ganeti.ports.config import Change, ConfigPort
from ganeti.ports.luxid import Client, LuxidPort
from ganeti.ports.nodes import NodesPort


class ClockPort(Protocol):
    def now_s(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class EntropyPort(Protocol):
    def uuid(self) -> str: ...

    def token(self, size_bytes: int) -> bytes:
        """Random bytes fit for secrets and addresses."""
        ...


class NamesPort(Protocol):
    async def resolve(self, name: str, family: int = 2) -> tuple[str, str]:
        """Give (full name, address); raises `ResolverError`. *family* is 2 for IPv4, 10 for IPv6."""
        ...


class JobLogPort(Protocol):
    """Lines a waiting command shows as they come; each is one sentence."""

    def info(self, text: str) -> None: ...

    def warning(self, text: str) -> None: ...

    def progress(self, text: str, done: float, total: float) -> None:
        """Say how far a step of known length is."""
        ...

    def step_told(self) -> None:
        """The step is over, and a line of its own has said so: no other is written."""
        ...

    def add(self, kind: str, value: object) -> None:
        """An entry of another log type of 3.1, for programs."""
        ...


@dataclass(frozen=True)
class UndoNodeCall:
    """Undo by a node call, for example removing a disk. Repeating it must do no harm.

    Where the node's answer is a dict with ``"settled": true``, the step turned out to be complete: *settled_change*
    is committed, *settled_call* carried out in the same way to complete it, and the records before this one stay as
    they are (a guest that has arrived is not sent back).
    """

    sentence: str
    node_uuid: str
    call: str
    arguments: dict[str, Any]
    settled_change: Change | None = None
    settled_call: "UndoNodeCall | None" = None
    forward: bool = False
    """It completes what was begun, where nothing can be taken back."""

    @classmethod
    def of(
        cls,
        sentence: str,
        node_uuid: str,
        request: NodeRequest[Any],
        *,
        settled_change: Change | None = None,
        settled_call: "UndoNodeCall | None" = None,
        forward: bool = False,
    ) -> "UndoNodeCall":
        """A record that asks *request*; it lies on disk as the call's name and arguments."""
        return cls(sentence, node_uuid, request.call, request.arguments(), settled_change, settled_call, forward)

    async def carry_out(self, nodes: NodesPort) -> Any:
        """Make the call; gives the node's answer as it came."""
        return await nodes.call(self.node_uuid, self.call, **self.arguments)


@dataclass(frozen=True)
class UndoChange:
    """Undo by a change of the configuration. Applying it twice, or to what never came to be, must do no harm."""

    sentence: str
    change: Change
    forward: bool = False
    """As in `UndoNodeCall`."""
    rest: UndoNodeCall | None = None
    """The step is complete with the change, whatever nodes answer then: this call follows, nothing before is undone."""


class UndoPort(Protocol):
    async def push(self, *records: UndoNodeCall | UndoChange) -> None:
        """Put records on disk *before* the step they undo, all or none; they are unwound last first."""
        ...


class LocksPort(Protocol):
    async def release(self, locks: list[str]) -> None:
        """Give up locks before the end of the operation."""
        ...

    async def downgrade(self, level: str) -> None:
        """Turn exclusive locks of a level into shared ones."""
        ...


class ReservationsPort(Protocol):
    """Room that is reserved for jobs until the configuration shows it (D13)."""

    async def current(self) -> Reservations:
        """All reservations of all jobs."""
        ...

    async def reserve(self, reservations: Sequence[Reservation], seen: int) -> str | None:
        """Reserve room for this job, in place of what it had for the same instances.

        Gives the uuid of a node, and reserves nothing, where somebody got a reservation there after the serial *seen*.
        """
        ...


@dataclass(frozen=True)
class JobIdentity:
    job_id: int
    attempt: int
    opcode_index: int
    priority: int


@dataclass(frozen=True)
class Switches:
    """What an administrator has switched beside the configuration."""

    drained: bool = False
    """The job queue takes no jobs."""
    watcher_pause: float | None = None
    """Until when (seconds since the epoch) the watcher does nothing."""


class Bell(Protocol):
    """A Unix socket of the master on which somebody outside ends a wait of this job, by connecting."""

    @property
    def path(self) -> str: ...

    async def rung(self, within_s: float) -> bool:
        """Wait until somebody has connected, or that long; gives whether somebody has."""
        ...


class MasterFilesPort(Protocol):
    """What lies on the master's disk beside the configuration."""

    def outstanding_undo(self) -> list[tuple[int, str, str]]:
        """What failed or dead jobs could not take back: (job id, what should have been done, why it was not)."""
        ...

    def damaged_jobs(self) -> list[tuple[int, str]]:
        """Jobs whose files could not be read and were set aside: (job id, path of the file)."""
        ...

    def switches(self) -> Switches: ...

    def hook_phases(self, path: str) -> list[Phase]:
        """The phases of one kind of hooks that have anything to run on the master itself."""
        ...

    def domain_secret(self) -> str:
        """What this cluster has in common with those it exchanges instances with; raises `PrerequisiteError`."""
        ...

    def bell(self, job: JobIdentity) -> AbstractAsyncContextManager[Bell]:
        """A bell for a step of this job; it is gone at the end."""
        ...


class OperationContext(Protocol):
    """Handed to `gather` and `execute`."""

    @property
    def config(self) -> ConfigPort: ...

    @property
    def nodes(self) -> NodesPort: ...

    @property
    def locks(self) -> LocksPort: ...

    @property
    def clock(self) -> ClockPort: ...

    @property
    def entropy(self) -> EntropyPort: ...

    @property
    def names(self) -> NamesPort: ...

    @property
    def log(self) -> JobLogPort: ...

    @property
    def undo(self) -> UndoPort: ...

    @property
    def luxid(self) -> LuxidPort: ...

    @property
    def client(self) -> Client:
        """The name under which this job asks."""
        ...

    @property
    def reservations(self) -> ReservationsPort: ...

    @property
    def catalogue(self) -> Catalogue: ...

    @property
    def job(self) -> JobIdentity: ...

    @property
    def master(self) -> MasterFilesPort: ...

    def stop_if_cancelled(self) -> None:
        """A long step calls this between its parts; raises `JobCanceled` where somebody has asked for that."""
        ...
