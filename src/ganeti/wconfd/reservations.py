# SPDX-License-Identifier: BSD-2-Clause
"""Reservations of room at work in WConfD: kept in a file, so that a restart of the daemon breaks none (D13).

The file is in the run directory: no owner survives a loss of power. A question about what is reserved is answered
without dead owners, since their lock files are looked at then.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, LockError
from ganeti.calls.serving import serves
from ganeti.master.config.records import Commit, Position
from ganeti.master.locks.owners import Owner
from ganeti.master.reservation_table import ReservationTable
from ganeti.model.reservations import Reservation
from ganeti.system.files import read_if_there, write_atomically
from ganeti.system.livelock import is_alive
from ganeti.wconfd.arguments import Client, Living, Serial, WantedReservations

_log = logging.getLogger(__name__)
VOID: list[Any] = []


class ReservationService:
    """One table and its file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._table = _load(path)

    def make(self, owner: Owner, reservations: list[Reservation], seen: int) -> str | None:
        """See `ReservationTable.make`; raises `LockError` and reserves nothing if it cannot be written."""
        self._table.drop_dead(is_alive)
        refused = self._table.make(owner, reservations, seen)
        if refused is None:
            try:
                self._write()
            except OSError as err:
                self._table.drop(owner)
                raise LockError(
                    f"{self._path} cannot be written ({err.strerror}): see that its file system has room"
                ) from err
        return refused

    def drop(self, owner: Owner) -> None:
        if self._table.drop(owner):
            self._write_if_possible()

    def fulfil(self, commit: Commit) -> None:
        """What is in the configuration needs no reservation."""
        fulfilled = [
            self._table.fulfil(put.name, put.primary_node)
            for put in commit.puts
            if put.kind == "instances" and put.name and put.primary_node
        ]
        if any(fulfilled):
            self._write_if_possible()

    def state(self) -> dict[str, Any]:
        """What living owners hold, and how many reservations were ever made."""
        if self._table.drop_dead(is_alive):
            self._write_if_possible()
        held = [[owner.name, reservation] for owner, reservation in self._table.all()]
        return {"serial": self._table.serial, "held": held}

    def _write_if_possible(self) -> None:
        """A reservation too many in the file does no harm: it ends with its owner."""
        try:
            self._write()
        except OSError as err:
            _log.error("%s cannot be written: %s", self._path, err.strerror)

    def _write(self) -> None:
        write_atomically(self._path, msgspec.json.encode(self._table.to_plain()), mode=0o640, durable=False)


class ReservationCalls:
    """Room on nodes."""

    def __init__(self, reservations: ReservationService, position: Callable[[], Position]) -> None:
        self._reservations = reservations
        self._position = position

    @serves("reserveRoom")
    async def reserve_room(self, client: Living, reservations: WantedReservations, seen: Serial) -> Any:
        """Reserve, or name the node where somebody was quicker: ``{"taken": uuid or null}``."""
        return {"taken": self._reservations.make(client, reservations, seen)}

    @serves("listReservations")
    async def list_reservations(self) -> Any:
        return {"position": self._position(), **self._reservations.state()}

    @serves("dropAllReservations")
    async def drop_all_reservations(self, client: Client) -> Any:
        """3.1's name for the same: room is all that can be reserved."""
        return await self.give_up_room(client)

    @serves("giveUpRoom")
    async def give_up_room(self, client: Client) -> Any:
        self._reservations.drop(client)
        return VOID


def _load(path: str) -> ReservationTable:
    """A file that cannot be read is passed over: its jobs may at worst meet a node that is fuller than they think."""
    data = read_if_there(path)
    if data is None:
        return ReservationTable()
    try:
        return ReservationTable.from_plain(msgspec.json.decode(data))
    except (LockError, *UNREADABLE_JSON) as err:
        _log.warning("%s %s; it is passed over", path, err)
        return ReservationTable()
