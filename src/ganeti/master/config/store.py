# SPDX-License-Identifier: BSD-2-Clause
"""What WConfD asks of whatever keeps its commits durable (D6).

All calls block and come from one thread at a time; all raise `ConfigurationError` with a sentence when the disk or the
stored data is at fault. What `commit` has returned from survives the death of the machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ganeti.master.config.records import Commit, Position, StepAnswer
from ganeti.model.configuration import Configuration


@dataclass
class Loaded:
    """Everything a start needs."""

    config: Configuration
    fragments: dict[tuple[str, str], bytes]
    mtime_s: float
    steps: list[StepAnswer] = field(default_factory=list)
    stream_start: Position = (0, 0)
    events: list[tuple[Position, bytes]] = field(default_factory=list)
    published: tuple[str, ...] = ()
    """Hashes of the `config.data` this store has published, or was about to."""


class ConfigStore(Protocol):
    def load(self) -> Loaded | None:
        """Read everything; None if nothing was ever committed."""
        ...

    def commit(self, commits: Sequence[Commit]) -> None:
        """Make the commits durable, all or none, in one transaction."""
        ...

    def remember_published(self, hashes: Sequence[str]) -> None:
        """Keep the hashes that a `config.data` written by this store may have; before it is written."""
        ...

    def forget_steps(self, answers: Sequence[StepAnswer]) -> None:
        """Drop answers nobody will ask for again."""
        ...

    def close(self) -> None: ...
