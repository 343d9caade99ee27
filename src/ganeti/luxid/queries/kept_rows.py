# SPDX-License-Identifier: BSD-2-Clause
"""Rows of long lists as they were written last: a list asked for again is joined from them, not made anew.

Invariant: a row is used for as long as the stored objects that it is made of are the very ones in the configuration,
and what all rows inherit is equal. Stored objects are never changed in place, so nobody needs to say what a commit
changes in which row. Where a change makes all rows stale, they are written anew in idle time (`renewed`).
"""

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any

import msgspec

from ganeti.base.natural import natural_key
from ganeti.luxid.queries.slices import values
from ganeti.master.query.fields import Field, MadeOf, QueryWorld
from ganeti.master.query.filters import passes
from ganeti.master.three_valued import Predicate
from ganeti.model.traits import Catalogue
from ganeti.model.view import ConfigView

_LISTS = 2
"""So many choices of fields are kept: a program asks for the same again and again."""
_MOST_BYTES = 16 * 1024 * 1024
"""Of one list."""

_Kept = tuple[bytes, tuple[Any, ...]]
"""A row's JSON, and the objects of its own that it is made of."""
_Moment = tuple[ConfigView, tuple[int, int]]
"""A copy of the configuration and its position: a copy may be replaced by another that is as old."""


class KeptRows:
    """The lists of one resource."""

    def __init__(self, made_of: MadeOf, catalogue: Catalogue, view: Callable[[], ConfigView]) -> None:
        self._made_of = made_of
        self._catalogue = catalogue
        self._view = view
        self._lists: dict[tuple[str, ...], _List] = {}

    def forget(self) -> None:
        self._lists.clear()

    def __len__(self) -> int:
        """How many rows there are now."""
        return sum(1 for _ in self._view().uuids(self._made_of.kind))

    def pieces(self, fields: Sequence[Field], predicate: Predicate | None) -> Iterator[bytes | None]:
        """JSON of each row in natural order, None for one that *predicate* does not want.

        The configuration may move on between two rows: each is true at its moment.
        """
        names = tuple(field.name for field in fields)
        found = self._lists.pop(names, None) or _List(self._made_of, self._catalogue, fields)
        self._lists[names] = found
        while len(self._lists) > _LISTS:
            del self._lists[next(iter(self._lists))]
        if predicate is None and found.is_whole(self._view()):
            yield from found.written()
            return
        getters = [field.get for field in fields]
        since = _moment(self._view())
        uuids = self._in_order(self._view())
        for uuid in uuids:
            view = self._view()
            obj = view.get(self._made_of.kind, uuid)
            yield None if obj is None else found.piece(view, obj, getters, predicate)
        found.end(uuids, since if predicate is None else None)

    def is_stale(self) -> bool:
        """Whether a list that was asked for lately has lost all its rows to a change of what they inherit."""
        shared = self._made_of.shared(self._view()) if self._lists else ()
        return any(found.shared != shared for found in self._lists.values())

    def renewed(self) -> Iterator[bytes | None]:
        """Write the stale lists anew, a row at each step."""
        for fields in [found.fields for found in self._lists.values()]:
            yield from self.pieces(fields, None)

    def _in_order(self, view: ConfigView) -> list[str]:
        return [obj.uuid for obj in sorted(view.all(self._made_of.kind), key=lambda obj: natural_key(obj.name))]


class _List:
    """The rows of one choice of fields."""

    def __init__(self, made_of: MadeOf, catalogue: Catalogue, fields: Sequence[Field]) -> None:
        self.fields = fields
        self._made_of = made_of
        self._catalogue = catalogue
        self._kept: dict[str, _Kept] = {}
        self._moment: _Moment | None = None
        self._since: _Moment | None = None
        """When the first row of a list was made of which all rows are kept, in their order."""
        self.shared: tuple[Any, ...] = ()
        """The values that the kept rows inherit."""
        self._world: QueryWorld

    def is_whole(self, view: ConfigView) -> bool:
        """Whether the rows that are kept are the whole list, and nothing at all has changed."""
        return self._since is not None and self._since == _moment(view)

    def written(self) -> list[bytes]:
        return [written for written, _ in self._kept.values()]

    def piece(self, view: ConfigView, obj: Any, getters: Sequence[Any], predicate: Predicate | None) -> bytes | None:
        if self._moment != _moment(view):
            self._look(view)
        if predicate is not None and not passes(predicate, self._made_of.row(obj, self._world)):
            return None
        own = self._made_of.own(obj, view)
        kept = self._kept.get(obj.uuid)
        if kept is not None and _same(kept[1], own):
            return kept[0]
        written = msgspec.json.encode(values(self._made_of.row(obj, self._world), getters))
        self._kept[obj.uuid] = written, own
        return written

    def _look(self, view: ConfigView) -> None:
        """Forget all rows where something has changed that any of them may show."""
        shared = self._made_of.shared(view)
        if shared != self.shared:
            self._kept.clear()
            self.shared = shared
        self._moment, self._since = _moment(view), None
        self._world = QueryWorld(view, self._catalogue)

    def end(self, uuids: Sequence[str], since: _Moment | None) -> None:
        """Keep the rows in the order of *uuids*, all looked at *since*; none of a list that takes too much memory."""
        self._kept = {uuid: kept for uuid in uuids if (kept := self._kept.get(uuid)) is not None}
        if sum(len(written) for written, _ in self._kept.values()) > _MOST_BYTES:
            self._kept.clear()
        self._since = since if len(self._kept) == len(uuids) else None


def _moment(view: ConfigView) -> _Moment:
    return view, view.position


def _same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return len(before) == len(now) and all(map(is_, before, now))
