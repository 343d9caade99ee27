# SPDX-License-Identifier: BSD-2-Clause
"""The lock table as plain JSON values, so that it outlives a restart of its daemon (``locks.data``).

Whole (`to_plain`, `from_plain`), or as the records of what has changed since (`effects_to_plain`, `redo`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ganeti.base.errors import LockError
from ganeti.master.locks.effects import Effect, EndsWaiting, HandsOver, Holds, Waits
from ganeti.master.locks.names import read_request
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.table import LockTable
from ganeti.master.locks.times import Times
from ganeti.master.locks.waiting import Pending

VERSION = 2
_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, AssertionError, IndexError)


class Saved(NamedTuple):
    """What is kept: the table, and since when."""

    table: LockTable
    times: Times


def to_plain(table: LockTable, times: Times) -> dict[str, Any]:
    """``held``: owner, its locks, their times; ``waiting``: priority, rank, arrival, owner, request, time, in serving
    order.
    """
    return {
        "version": VERSION,
        "arrivals": table.arrivals,
        "held": [[owner.to_wire(), held, times.held.get(owner, {})] for owner, held in table.all_held()],
        "waiting": [[*_plain_pending(pending), times.waiting.get(pending.owner)] for pending in table.waiting()],
    }


def from_plain(data: Any) -> Saved:
    """Read what `to_plain` gave; raises `LockError` if it is no lock table, or one that breaks an invariant."""
    try:
        if data["version"] != VERSION:
            raise LockError(f"version {data['version']} instead of {VERSION}")
        times = Times()
        held = {}
        for owner_data, locks, since in data["held"]:
            owner = Owner.from_wire(owner_data)
            held[owner] = read_request(locks.items(), release=False)
            times.held[owner] = {lock: float(since[lock]) for lock in held[owner] if lock in since}
        waiting = [_read_pending(entry[:-1]) for entry in data["waiting"]]
        for pending, entry in zip(waiting, data["waiting"], strict=True):
            if entry[-1] is not None:
                times.waiting[pending.owner] = float(entry[-1])
        return Saved(LockTable.restored(held, waiting, int(data["arrivals"])), times)
    except (LockError, *_UNREADABLE) as err:
        raise LockError(f"The saved locks cannot be read ({err})") from err


def effects_to_plain(effects: Iterable[Effect]) -> list[Any]:
    """One small list for each effect, its first element says which."""
    return [_plain_effect(effect) for effect in effects]


def redo(saved: Saved, time_s: Any, effects: Any) -> None:
    """Do to a saved table what `effects_to_plain` tells, which happened at *time_s*; raises `LockError`."""
    try:
        for plain in effects:
            effect = _read_effect(saved.table, plain)
            saved.table.redo(effect)
            saved.times.note([effect], float(time_s))
    except (LockError, *_UNREADABLE) as err:
        raise LockError(f"A change of the saved locks cannot be read ({err})") from err


def _plain_effect(effect: Effect) -> list[Any]:
    match effect:
        case Holds(owner, now, freed):
            return ["holds", owner.to_wire(), now, list(freed)]
        case Waits(pending):
            return ["waits", *_plain_pending(pending)]
        case EndsWaiting(pending, granted):
            return ["ends", pending.owner.to_wire(), granted]
        case HandsOver(old, new):
            return ["hands", old.to_wire(), new.to_wire()]


def _read_effect(table: LockTable, plain: Any) -> Effect:
    match plain:
        case ["holds", owner_data, dict() as now, list() as freed]:
            owner = Owner.from_wire(owner_data)
            held = table.held(owner)
            return Holds(owner, read_request(now.items(), release=False), {lock: held[lock] for lock in freed})
        case ["waits", *pending]:
            return Waits(_read_pending(pending))
        case ["ends", owner_data, bool() as granted]:
            waiting = table.pending(Owner.from_wire(owner_data))
            assert waiting is not None, f"{owner_data} does not wait"
            return EndsWaiting(waiting, granted)
        case ["hands", old_data, new_data]:
            old = Owner.from_wire(old_data)
            return HandsOver(old, Owner.from_wire(new_data), table.held(old))
    raise ValueError(f"{plain!r} is no change of locks")


def _plain_pending(pending: Pending) -> list[Any]:
    request = [[lock, state] for lock, state in pending.request.items()]
    return [pending.priority, pending.rank, pending.arrival, pending.owner.to_wire(), request]


def _read_pending(data: Any) -> Pending:
    priority, rank, arrival, owner, request = data
    return Pending(Owner.from_wire(owner), int(priority), int(rank), int(arrival), read_request(request))
