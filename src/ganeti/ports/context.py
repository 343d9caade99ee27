# SPDX-License-Identifier: BSD-2-Clause
"""What an operation may ask of the world while it gathers facts and acts (D3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ganeti.model.capacity import Capacity
from ganeti.model.promises import Promise, Promises
from ganeti.model.traits import Catalogue
from ganeti.ports.config import Change, ConfigPort
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


@dataclass(frozen=True)
class UndoNodeCall:
    """Undo by a node call, for example removing a disk. Repeating it must do no harm.

    Where the node's answer is a dict with ``"settled": true``, the step turned out to be complete: *settled_change*
    is committed, *settled_call* made to complete it, and the records before this one stay as they are (a guest that
    has arrived is not sent back).
    """

    sentence: str
    node_uuid: str
    call: str
    arguments: dict[str, Any]
    settled_change: Change | None = None
    settled_call: "UndoNodeCall | None" = None
    forward: bool = False
    """It completes what was begun, where nothing can be taken back."""


@dataclass(frozen=True)
class UndoChange:
    """Undo by a change of the configuration. Applying it twice, or to what never came to be, must do no harm."""

    sentence: str
    change: Change
    forward: bool = False
    """As in `UndoNodeCall`."""


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


class AllocatorPort(Protocol):
    """Allocators, and the room they promise to this job until the configuration shows it (D13)."""

    async def allocate(
        self, name: str, request: dict[str, Any], *, promise: bool = True, why: bool = False
    ) -> dict[str, Any]:
        """Ask the allocator *name* for a place; gives its response, whether it is a success or not.

        The built-in one adds ``reasons``, a line for each node, where nothing fits or *why* is asked, and has promised
        what it chose if *promise* is true. That of a program carries ``serial`` instead, that of the promises it was
        told of: what it chose is still to be promised. Raises `PrerequisiteError`.
        """
        ...

    async def describe(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Give the serial number of the promises, and the whole input of an allocator with *request*."""
        ...

    async def run(self, name: str, message: dict[str, Any]) -> str:
        """Run an allocator that is a program; gives what it printed. Raises `PrerequisiteError`."""
        ...

    async def known_capacity(self, questions: Mapping[str, dict[str, Any]], *, cached: bool) -> dict[str, Capacity]:
        """What LuxiD knows of how many more instances fit, by node group; less than all that is asked about.

        What is missing this job may have counted. Unless *cached*, nothing is known.
        """
        ...

    async def keep_capacity(self, counted: Mapping[str, Capacity]) -> None:
        """Let LuxiD keep what this job had counted of what was missing."""
        ...

    async def promised(self) -> Promises:
        """All promises of all jobs."""
        ...

    async def promise(self, promises: Sequence[Promise], seen: int) -> str | None:
        """Promise room to this job, in place of what it had for the same instances.

        Gives the uuid of a node, and promises nothing, where somebody got a promise there after the serial *seen*.
        """
        ...


class StatePort(Protocol):
    """The state of nodes and instances, which LuxiD keeps (S1.38)."""

    async def renew_group(self, uuid: str) -> dict[str, Any]:
        """Have what is known of a node group forgotten and its nodes asked; gives what they say (S1.54).

        Raises `GanetiError` where LuxiD cannot; a node that does not answer is no error.
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
    def allocator(self) -> AllocatorPort: ...

    @property
    def state(self) -> StatePort: ...

    @property
    def catalogue(self) -> Catalogue: ...

    @property
    def job(self) -> JobIdentity: ...

    def outstanding_undo(self) -> list[tuple[int, str, str]]:
        """What failed or dead jobs could not take back: (job id, what should have been done, why it was not)."""
        ...

    def damaged_jobs(self) -> list[tuple[int, str]]:
        """Jobs whose files could not be read and were set aside: (job id, path of the file)."""
        ...

    def switches(self) -> Switches: ...
