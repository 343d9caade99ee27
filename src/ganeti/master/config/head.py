# SPDX-License-Identifier: BSD-2-Clause
"""The newest state of the configuration, and how a change gets into it.

`stage` applies a change and checks what it touched; `revert` takes staged changes back, last first, when they could not
be made durable. Invariant: between calls, objects and indexes agree and the invariants hold; a change that is
refused leaves no trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import ConfigVerifyError
from ganeti.master.config.indexes import Indexes
from ganeti.master.config.invariants import index_all, problems_of
from ganeti.master.config.records import Commit, ObjectKey, Position, Put, StepAnswer, make_put
from ganeti.model.configuration import Configuration, Draft, name_of
from ganeti.model.objects import ConfigObject
from ganeti.ports.config import Change


@dataclass(frozen=True, slots=True)
class Staged:
    """A change in the head and not yet on disk."""

    puts: tuple[Put, ...]
    removes: tuple[ObjectKey, ...]
    before: tuple[tuple[ObjectKey, ConfigObject | None], ...]
    position: Position
    position_before: Position
    time_s: float
    result: Any

    def commit(self, step: StepAnswer | None) -> Commit:
        return Commit(self.position, self.time_s, self.puts, self.removes, step)


class Head:
    """Objects and indexes in memory; one writer."""

    def __init__(self, config: Configuration, indexes: Indexes | None = None) -> None:
        self.config = config
        self.indexes = indexes if indexes is not None else index_all(config)

    @property
    def position(self) -> Position:
        return self.config.position

    def stage(self, change: Change, now_s: float) -> Staged:
        """Apply *change*. Raises what the change raises, or `ConfigVerifyError`; nothing has changed then."""
        draft = Draft(self.config, now_s)
        result = change.apply(draft)
        touched = {
            key: obj for key, obj in draft.touched.items() if obj is not None or self.config.get(*key) is not None
        }
        _refuse_taken_names(self.config, touched)
        before = tuple((key, self.config.get(*key)) for key in touched)
        puts = tuple(make_put(*key, obj) for key, obj in touched.items() if obj is not None)
        removes = tuple(key for key, obj in touched.items() if obj is None)
        for key, obj in touched.items():
            self._set(key, obj)
        problems = problems_of(self.config, self.indexes, touched)
        if problems:
            for key, old in reversed(before):
                self._set(key, old)
            raise ConfigVerifyError(f"The change {type(change).__name__} is refused: {'; '.join(problems)}", problems)
        position_before = self.position
        if touched:
            self.config.position = (position_before[0], position_before[1] + 1)
        return Staged(puts, removes, before, self.position, position_before, now_s, result)

    def revert(self, staged: Staged) -> None:
        """Take back the newest staged change."""
        for key, old in reversed(staged.before):
            self._set(key, old)
        self.config.position = staged.position_before

    def _set(self, key: ObjectKey, obj: ConfigObject | None) -> None:
        old = self.config.get(*key)
        if old is not None:
            self.indexes.remove(key, old)
        if obj is None:
            self.config.remove(*key)
        else:
            self.config.put(*key, obj)
            self.indexes.put(key, obj)


def _refuse_taken_names(config: Configuration, touched: Mapping[ObjectKey, ConfigObject | None]) -> None:
    """Two objects of a name cannot even be staged: the index of names holds one."""
    taken: dict[tuple[str, str], str] = {}
    for (kind, uuid), obj in touched.items():
        if obj is None or (name := name_of(obj)) is None:
            continue
        holder = config.uuid_by_name(kind, name)
        released = holder is None or holder == uuid or (kind, holder) in touched
        if not released or (kind, name) in taken:
            raise ConfigVerifyError(
                f"The name {name} is taken among {kind}: choose another one", [f"duplicate name {name} among {kind}"]
            )
        taken[kind, name] = uuid
