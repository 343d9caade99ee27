# SPDX-License-Identifier: BSD-2-Clause
"""The lock table as plain JSON values, so that it outlives a restart of its daemon (``locks.data``)."""

from typing import Any

from ganeti.base.errors import LockError
from ganeti.master.locks.names import read_request
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.table import LockTable
from ganeti.master.locks.waiting import Pending

VERSION = 1


def to_plain(table: LockTable) -> dict[str, Any]:
    """``held``: owner and its locks; ``waiting``: priority, rank, arrival, owner and request, in serving order."""
    return {
        "version": VERSION,
        "arrivals": table.arrivals,
        "held": [[owner.to_wire(), held] for owner in table.owners() if (held := table.held(owner))],
        "waiting": [
            [pending.priority, pending.rank, pending.arrival, pending.owner.to_wire(), list(pending.request.items())]
            for pending in table.waiting()
        ],
    }


def from_plain(data: Any) -> LockTable:
    """Read what `to_plain` gave; raises `LockError` if it is no lock table, or one that breaks an invariant."""
    try:
        if data["version"] != VERSION:
            raise LockError(f"version {data['version']} instead of {VERSION}")
        held = {Owner.from_wire(owner): read_request(locks.items(), release=False) for owner, locks in data["held"]}
        waiting = [
            Pending(Owner.from_wire(owner), int(priority), int(rank), int(arrival), read_request(request))
            for priority, rank, arrival, owner, request in data["waiting"]
        ]
        return LockTable.restored(held, waiting, int(data["arrivals"]))
    except (LockError, KeyError, TypeError, ValueError, AttributeError, AssertionError) as err:
        raise LockError(f"The saved locks cannot be read ({err}): remove the file once no job runs") from err
