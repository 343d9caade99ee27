# SPDX-License-Identifier: BSD-2-Clause
"""What one commit is: the unit of durability, of the change stream and of publication."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ganeti.model.configuration import name_of
from ganeti.model.objects import ConfigObject

Position = tuple[int, int]
"""(epoch, serial); a later commit has a greater position."""

ObjectKey = tuple[str, str]
"""(kind, uuid)."""


class PublishedMark(NamedTuple):
    """A state that `config.data` was written with: no older one lies there, unless the machine lost power."""

    position: Position
    digest: str
    synced: Position = (0, 0)
    """As of which `config.data` is durable: even after a loss of power no older state lies there."""


class Put(NamedTuple):
    """One object as it is from now on; *data* is its JSON fragment, the same bytes everywhere."""

    kind: str
    uuid: str
    obj: ConfigObject
    data: bytes

    @property
    def name(self) -> str | None:
        return name_of(self.obj)

    @property
    def primary_node(self) -> str | None:
        """The node an instance belongs to, for readers that look instances up by it."""
        return getattr(self.obj, "primary_node", None)


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """Which step of which job a commit was, and what it was answered."""

    job: int
    attempt: int
    step: int
    settles: bool
    lock_file: str
    answer: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """One accepted change. *whole* means that it replaces everything, so the stream cannot carry it."""

    position: Position
    time_s: float
    puts: tuple[Put, ...] = ()
    removes: tuple[ObjectKey, ...] = ()
    step: StepAnswer | None = None
    whole: bool = False
    header: Mapping[str, object] | None = None
    """Top-level keys of `config.data`, with *whole*."""
    imported_digest: str = ""
    """Fingerprint of the `config.data` this commit was read from, with *whole*: it is not imported again."""
    digest: str = ""
    """Fingerprint of the `config.data` that holds this commit."""
    published: PublishedMark | None = None
    """What was published when this was committed, where that is known."""

    @property
    def changes_objects(self) -> bool:
        return bool(self.puts or self.removes or self.whole)


def fragment(obj: ConfigObject) -> bytes:
    """Give the JSON of one object as it stands in `config.data`."""
    return msgspec.json.encode(obj.to_plain())


def make_put(kind: str, uuid: str, obj: ConfigObject) -> Put:
    return Put(kind, uuid, obj, fragment(obj))
