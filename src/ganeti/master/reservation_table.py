# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs have room reserved on which nodes. Pure; WConfD holds it (D13).

A reservation ends when the configuration shows what it was for, when its owner gives it up, or when its owner is dead:
whatever a dead job has left stands in the configuration or runs on a node by then.

Invariant: an owner has at most one reservation for an instance.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ganeti.base.errors import LockError
from ganeti.master.locks.owners import Owner
from ganeti.model.reservations import Reservation


class ReservationTable:
    """*serial* counts the reservations ever made."""

    def __init__(self) -> None:
        self.serial = 0
        self._held: dict[Owner, dict[str, Reservation]] = {}
        self._made_last: dict[str, int] = {}
        """By node: the number of the last reservation there."""
        self._read_at = 0
        """Reservations up to this number may have been made anywhere: the table was read from a file then."""

    def all(self) -> Iterator[tuple[Owner, Reservation]]:
        for owner, reservations in self._held.items():
            for reservation in reservations.values():
                yield owner, reservation

    def make(self, owner: Owner, reservations: Iterable[Reservation], seen: int) -> str | None:
        """Reserve all, in place of what the owner had for the same instances.

        Nothing is reserved where somebody got a reservation on one of the nodes after the asker had *seen* the table:
        gives that node's uuid then.
        """
        wanted = list(reservations)
        for reservation in wanted:
            for node in reservation.nodes:
                if self._made_last.get(node, self._read_at) > seen:
                    return node
        for reservation in wanted:
            self.serial += 1
            self._held.setdefault(owner, {})[reservation.instance] = reservation
            for node in reservation.nodes:
                self._made_last[node] = self.serial
        return None

    def drop(self, owner: Owner) -> bool:
        """Give up all of an owner's; False if there was nothing."""
        return self._held.pop(owner, None) is not None

    def drop_dead(self, is_alive: Callable[[str], bool]) -> list[Owner]:
        """Give up those of owners whose lock file nobody holds; gives these owners."""
        dead = [owner for owner in self._held if not is_alive(owner.lock_file)]
        for owner in dead:
            self.drop(owner)
        return dead

    def fulfil(self, instance: str, primary: str) -> bool:
        """The configuration has the instance on this node from now on; False if that was reserved for nobody."""
        kept = [owner for owner, reservations in self._held.items() if _is_for(reservations.get(instance), primary)]
        for owner in kept:
            del self._held[owner][instance]
            if not self._held[owner]:
                del self._held[owner]
        return bool(kept)

    def to_plain(self) -> dict[str, Any]:
        held = [[owner.to_wire(), msgspec.to_builtins(reservation)] for owner, reservation in self.all()]
        return {"version": 1, "serial": self.serial, "held": held}

    @classmethod
    def from_plain(cls, plain: Any) -> "ReservationTable":
        """Read what `to_plain` gave; raises `LockError`."""
        table = cls()
        try:
            if plain["version"] != 1:
                raise LockError(f"has version {plain['version']!r}, known is 1")
            for owner, reservation in plain["held"]:
                table.make(Owner.from_wire(owner), [msgspec.convert(reservation, Reservation)], table.serial)
            table.serial = table._read_at = max(table.serial, int(plain["serial"]))
            table._made_last.clear()
        except (KeyError, TypeError, ValueError) as err:
            raise LockError(f"cannot be understood ({type(err).__name__}: {err})") from err
        return table


def _is_for(reservation: Reservation | None, primary: str) -> bool:
    return reservation is not None and reservation.nodes[:1] == [primary]
