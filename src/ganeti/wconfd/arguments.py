# SPDX-License-Identifier: BSD-2-Clause
"""How the arguments of WConfD's calls are read: strictly, and with a clear error for the one who sent them.

The types at the end are those of the parameters of calls.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from ganeti.base.errors import GanetiError, LockError
from ganeti.base.registry import find
from ganeti.calls.serving import Reads
from ganeti.master.config.records import Position
from ganeti.master.declaring_modules import CHANGES
from ganeti.master.locks.names import read_level, read_request
from ganeti.master.locks.owners import Owner
from ganeti.model.locks import Level
from ganeti.model.reservations import Reservation
from ganeti.ports.config import Change
from ganeti.system.livelock import is_alive
from ganeti.wconfd.commits import JobStep

_LARGEST_NUMBER = 2**62


def read_living(client: Any) -> Owner:
    """Read who asks for locks; a request that a dead process has left in its socket is refused (S2.28)."""
    owner = Owner.from_wire(client)
    if not is_alive(owner.lock_file):
        raise no_locks_for(owner)
    return owner


def no_locks_for(owner: Owner) -> LockError:
    return LockError(f"{owner} gets no locks: nobody holds its lock file {owner.lock_file}")


def read_locks(request: Any) -> dict[str, str]:
    if not isinstance(request, list) or not all(isinstance(element, list) for element in request):
        raise LockError("A lock request must be a list of [lock, state]")
    return read_request(request)


def read_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise LockError("The locks to keep must be a list of names")
    return names


def read_file_names(names: Any) -> list[str]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise GanetiError(f"The files of the queue must be a list of names, not {names!r}")
    return names


def read_job_ids(ids: Any) -> list[int]:
    if not isinstance(ids, list):
        raise GanetiError(f"The archived jobs must be a list of job ids, not {ids!r}")
    return [read_number(job_id, "job id") for job_id in ids]


def read_number(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST_NUMBER:
        raise GanetiError(f"The {what} must be a whole number, not {value!r}")
    return value


def read_seconds(value: Any, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise GanetiError(f"The {what} must be a number of seconds, not {value!r}")
    return float(value)


def read_position(value: Any) -> Position:
    match value:
        case [int() as epoch, int() as serial]:
            return epoch, serial
    raise GanetiError(f"{value!r} is not a position: write [epoch, serial]")


def read_lock_file(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value):
        raise GanetiError(f"The lock file must be a path, or null for all that happens, not {value!r}")
    return value


def read_step(owner: Any, step: Any, settles: Any) -> JobStep:
    match owner, settles:
        case [job, str() as lock_file, attempt], bool():
            numbers = read_number(job, "job id"), read_number(attempt, "attempt"), read_number(step, "step")
            return JobStep(*numbers, lock_file, settles)
    raise GanetiError("A commit needs [job id, lock file, attempt], step, change name, fields, settles (true or false)")


def read_change(name: Any, fields: Any) -> Change:
    """Decode a change strictly; raises `GanetiError` naming the field."""
    cls = find(Change.registry, CHANGES, name) if isinstance(name, str) else None
    if cls is None:
        raise GanetiError(f"There is no change of the configuration called {name!r}")
    if not isinstance(fields, dict):
        raise GanetiError(f"The fields of the change {name} must be an object")
    unknown = sorted(set(fields) - set(cls.__struct_fields__))
    if unknown:
        raise GanetiError(f"The change {name} has no field '{unknown[0]}'")
    try:
        return msgspec.convert(fields, cls)
    except msgspec.ValidationError as err:
        raise GanetiError(f"The change {name} cannot be read: {err}") from err


def read_reservations(value: Any) -> list[Reservation]:
    try:
        return msgspec.convert(value, list[Reservation])
    except msgspec.ValidationError as err:
        raise GanetiError(f"The reservations cannot be read: {err}") from err


def _clients(value: Any) -> list[Owner]:
    if not isinstance(value, list):
        raise GanetiError("withdrawLocks takes a list of clients")
    return list(map(Owner.from_wire, value))


def _questions(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise GanetiError("askLocks takes a list of [client, priority, request]")
    return value


def _number(what: str) -> Reads:
    return Reads(lambda value: read_number(value, what))


Client = Annotated[Owner, Reads(Owner.from_wire)]
Clients = Annotated[list[Owner], Reads(_clients)]
Former = Annotated[Owner | None, Reads(lambda value: None if value is None else Owner.from_wire(value))]
Living = Annotated[Owner, Reads(read_living)]
Locks = Annotated[dict[str, str], Reads(read_locks)]
LockLevel = Annotated[Level, Reads(read_level)]
LockNames = Annotated[list[str], Reads(read_names)]
LockFile = Annotated[str | None, Reads(read_lock_file)]
LockQuestions = Annotated[list[Any], Reads(_questions)]
Priority = Annotated[int, _number("priority")]
Count = Annotated[int, _number("count")]
Serial = Annotated[int, _number("serial number of the reservations seen")]
JobId = Annotated[int, _number("job id")]
Timeout = Annotated[float, Reads(lambda value: read_seconds(value, "timeout"))]
After = Annotated[Position, Reads(read_position)]
FileNames = Annotated[Sequence[str], Reads(read_file_names)]
JobIds = Annotated[list[int], Reads(read_job_ids)]
WantedReservations = Annotated[list[Reservation], Reads(read_reservations)]
