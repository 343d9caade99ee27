# SPDX-License-Identifier: BSD-2-Clause
"""Fields of locks (rapi, section 4)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ganeti.master.locks.owners import Owner
from ganeti.master.query.fields import OR_DASH, OTHER, WAITERS, Field, Locks, Resource, table
from ganeti.model.locks import EXCLUSIVE, RELEASE, lock_order


@dataclass
class LockRow:
    name: str
    mode: str | None = None
    owners: list[str] = field(default_factory=list)
    pending: list[tuple[str, list[str]]] = field(default_factory=list)


def lock_rows(
    held: Sequence[tuple[str, Sequence[tuple[Owner, str]]]],
    waiting: Sequence[tuple[int, Owner, dict[str, str]]],
) -> list[LockRow]:
    """One row per lock that somebody holds or waits for, in the order of the locks.

    *waiting* is in the order in which requests are served; neighbours that want the same mode stand together.
    """
    rows: dict[str, LockRow] = {}
    for name, holders in held:
        mode = EXCLUSIVE if any(state == EXCLUSIVE for _, state in holders) else (holders[0][1] if holders else None)
        rows[name] = LockRow(name, mode, [_owner(owner) for owner, _ in holders])
    for _, owner, request in waiting:
        for name, state in request.items():
            if state == RELEASE:
                continue
            row = rows.setdefault(name, LockRow(name))
            if not row.pending or row.pending[-1][0] != state:
                row.pending.append((state, []))
            row.pending[-1][1].append(_owner(owner))
    return [rows[name] for name in sorted(rows, key=lock_order)]


def _owner(owner: Owner) -> str:
    return str(owner.name)


async def _rows(locks: Locks) -> list[LockRow]:
    return lock_rows(await locks.all_locks(), await locks.waiting_locks())


LOCKS = Resource(
    "lock",
    "name",
    table(
        [
            Field("name", "Name", OTHER, "Name of the lock", lambda row: row.name),
            Field(
                "mode",
                "Mode",
                OTHER,
                "exclusive or shared while somebody holds it",
                lambda row: row.mode,
                shown=OR_DASH,
            ),
            Field("owner", "Owner", OTHER, "Jobs that hold it", lambda row: row.owners or None, shown=OR_DASH),
            Field(
                "pending", "Pending", OTHER, "Jobs that wait for it, by mode", lambda row: row.pending, shown=WAITERS
            ),
        ]
    ),
    "Lock",
    rows_of_locks=_rows,
    columns="name mode owner pending",
)
