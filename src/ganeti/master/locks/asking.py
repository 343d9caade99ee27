# SPDX-License-Identifier: BSD-2-Clause
"""How jobs come to their locks without a process that waits: LuxiD asks in the job's name, the process claims (S2.6).

Both calls say the whole of what the owner is to hold, so that repeating one of them, or saying something else, is
harmless. They are made of calls of the table, some of which may have done their work when a later one is refused: the
change is given beside the error.
"""

from typing import Any

from ganeti.base.errors import LockError, LockOrderError
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.state import Request, wants_of
from ganeti.master.locks.table import Change, LockTable
from ganeti.master.locks.times import Times

Outcome = tuple[Change, LockError | None]


def ask(table: LockTable, owner: Owner, priority: int, request: Request) -> Outcome:
    """Let the owner hold exactly *request*, or wait for all of it at once, holding nothing meanwhile.

    What it waited for or held otherwise is given up first. The same request with another priority keeps its arrival.
    """
    pending, held = table.pending(owner), table.held(owner)
    if pending is not None and not held and dict(pending.request) == dict(request):
        if pending.priority == priority:
            return Change(table.in_the_way(pending)), None
        return table.change_priority(owner, priority), None
    if pending is None and held == wants_of(request):
        return Change(), None
    former = table.free(owner)
    try:
        return _together(former, table.update_waiting(owner, priority, request)), None
    except LockError as err:
        return former, err


def claim(table: LockTable, old: Owner | None, new: Owner, priority: int, request: Request) -> Outcome:
    """Let *new* hold *request* now, first of all with what *old* has been given for it; or say who is in the way.

    Never waits, and goes before nobody who waits with that priority or a better one. What was given to *old* and is
    not in the request is freed. Where that stands above what is still missing, all is freed and asked for in order.
    """
    if old is None:
        return _try(table, Change(), new, priority, request)
    if old != new and (table.held(new) or table.has_pending(new)):
        change = table.free(old)  # handed over before, and the answer was lost; what it asked for since is for nobody
    else:
        change = table.hand_over(old, new)
    change = _together(change, table.intersect(new, wants_of(request)))
    outcome = _try(table, change, new, priority, request)
    if not isinstance(outcome[1], LockOrderError):
        return outcome
    return _try(table, _together(change, table.free(new)), new, priority, request)


def _try(table: LockTable, former: Change, owner: Owner, priority: int, request: Request) -> Outcome:
    try:
        return _together(former, table.update(owner, request, priority)), None
    except LockError as err:
        return former, err


def _together(first: Change, second: Change) -> Change:
    weakened = tuple(dict.fromkeys(first.weakened + second.weakened))
    return second._replace(granted=first.granted + second.granted, weakened=weakened)


def explain(table: LockTable, times: Times, owner: Owner) -> dict[str, Any]:
    """Who is in the way of the owner's waiting request: the answer of ``explainLocks``."""
    pending = table.pending(owner)
    if pending is None:
        return {"holders": [], "ahead": [], "waiting_since_s": None}
    since_s = times.held_since
    return {
        "holders": [
            [lock, pending.wants[lock], held, holder.to_wire(), state, since_s(holder, held)]
            for lock, held, holder, state in table.obstacles(owner)
        ],
        "ahead": [[lock, other.owner.to_wire(), other.priority] for lock, other in table.all_ahead(owner)],
        "waiting_since_s": times.waiting.get(owner),
    }
