# SPDX-License-Identifier: BSD-2-Clause
"""Long lists made in slices, so that no list keeps other clients waiting.

A slice makes rows and writes them as JSON for as long as its time is; then everybody else has a turn. Nothing of a row
is kept but its bytes: neither memory nor the collector of garbage grows with the list.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from ganeti.master.query.fields import Field, Missing, Status
from ganeti.master.query.filters import passes
from ganeti.master.three_valued import Predicate
from ganeti.wire.framing import Pieces

_SLICE_S = 0.003
_NORMAL = int(Status.NORMAL)

Row = TypeVar("Row")


def _encoded(rows: list[Sequence[Any]]) -> bytes:
    return msgspec.json.encode(rows)[1:-1]


async def written(rows: Iterator[Sequence[Any] | None]) -> Pieces:
    """Give the JSON list of the rows, None being left out."""
    return await _in_slices(rows, _encoded)


async def joined(rows: Iterator[bytes | None]) -> Pieces:
    """The same of rows that are JSON already."""
    return await _in_slices(rows, b",".join)


async def in_idle_time(rows: Iterator[Any]) -> None:
    """Make the rows for later clients, in half of the time at most."""
    done = False
    while not done:
        _, done = _next_slice(rows)
        await asyncio.sleep(_SLICE_S)


async def _in_slices(rows: Iterator[Row | None], encoded: Callable[[list[Row]], bytes]) -> Pieces:
    pieces = [b"["]
    done = False
    while not done:
        part, done = _next_slice(rows)
        if part:
            pieces.append((b"," if len(pieces) > 1 else b"") + encoded(part))
        await asyncio.sleep(0)
    return Pieces([*pieces, b"]"])


def _next_slice(rows: Iterator[Row | None]) -> tuple[list[Row], bool]:
    """Give the rows of one slice of time, and whether there are no more."""
    part: list[Row] = []
    ends_s = time.monotonic() + _SLICE_S
    for row in rows:
        if row is not None:
            part.append(row)
        if time.monotonic() > ends_s:
            return part, False
    return part, True


async def passing(rows: Iterable[Row], predicate: Predicate) -> list[Row]:
    """The rows that the filter wants."""
    looked_at = (row if passes(predicate, row) else None for row in rows)
    found: list[Row] = []
    done = False
    while not done:
        part, done = _next_slice(looked_at)
        found += part
        await asyncio.sleep(0)
    return found


def of_objects(
    rows: list[Any], fields: Sequence[Field], predicate: Predicate | None, *, plain: bool = False
) -> Iterator[Sequence[Any] | None]:
    """[status, value] of each field of the *rows* that pass; each row is forgotten when it is done.

    *plain* gives values alone.
    """
    getters = [field.get for field in fields]
    rows.reverse()
    while rows:
        row = rows.pop()
        if predicate is not None and not passes(predicate, row):
            yield None
            continue
        cells = values(row, getters)
        yield [value for _, value in cells] if plain else cells


def values(row: Any, getters: Sequence[Callable[[Any], Any]]) -> list[tuple[int, Any]]:
    """[status, value] of each field."""
    return [
        (int(value.status), None) if isinstance(value, Missing) else (_NORMAL, value)
        for value in [get(row) for get in getters]
    ]
