# SPDX-License-Identifier: BSD-2-Clause
"""What WConfD asks of whatever keeps its commits durable (D6).

All calls block and come from one thread at a time; all raise `ConfigurationError` with a sentence when the disk or the
stored data is at fault. What `commit` has returned from survives the death of the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ganeti.master.config.records import Commit, Position, PublishedMark, StepAnswer
from ganeti.model.configuration import Configuration
from ganeti.model.membership import Kept


class StoredCommit(NamedTuple):
    """A commit as the change stream on disk has it; *event* is its message."""

    position: Position
    time_s: float
    digest: str
    event: bytes


@dataclass
class Loaded:
    """Everything a start needs."""

    config: Configuration
    fragments: dict[tuple[str, str], bytes]
    mtime_s: float
    steps: list[StepAnswer] = field(default_factory=list)
    stream_start: Position = (0, 0)
    start_digest: str = ""
    """Fingerprint of the configuration at `stream_start`; empty if that is not known."""
    events: list[tuple[Position, bytes]] = field(default_factory=list)
    published: tuple[str, ...] = ()
    """Fingerprints that the last `config.data` written from this store may have."""
    earlier: tuple[str, ...] = ()
    """Fingerprints of states before these: what lies on a disk that has lost power may be one of them."""
    commits: list[StoredCommit] = field(default_factory=list)
    """Those of `events`, with what followers need beside."""
    kept: Kept | None = None
    """Which copies are in sync; None if that was never written down."""
    boot: str = ""
    """The boot of the machine during which the store was last in use; empty if that came to an orderly end."""


class ConfigStore(Protocol):
    def load(self) -> Loaded | None:
        """Read everything; None if nothing was ever committed."""
        ...

    def commit(self, commits: Sequence[Commit]) -> None:
        """Make the commits durable, all or none, in one transaction."""
        ...

    @property
    def wants_maintenance(self) -> bool:
        """Whether there is something to do for `maintain`."""
        ...

    def maintain(self) -> None:
        """Do what commits have left to be done when nobody waits. Never raises: the commits stand."""
        ...

    def begin_use(self, boot: str) -> None:
        """Note durably, before anything is published, during which *boot* of the machine that is done."""
        ...

    def end_use(self, published: PublishedMark) -> None:
        """Note that `config.data` is durable as *published*."""
        ...

    def set_membership(self, kept: Kept) -> None:
        """Note durably which copies are in sync."""
        ...

    def begin_epoch(self, commit: Commit, kept: Kept) -> None:
        """Make the first commit of an epoch durable, and with it the membership it begins with."""
        ...

    def forget_steps(self, answers: Sequence[StepAnswer]) -> None:
        """Drop answers nobody will ask for again."""
        ...

    def close(self) -> None: ...
