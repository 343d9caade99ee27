# SPDX-License-Identifier: BSD-2-Clause
"""Reservations of room: who is too late, what ends them, what a restart remembers."""

from __future__ import annotations

import pytest

from ganeti.base.errors import LockError
from ganeti.master.locks.owners import Owner
from ganeti.master.reservation_table import ReservationTable
from ganeti.model.reservations import Reservation

ONE, TWO = Owner(1, "/locks/job_1"), Owner(2, "/locks/job_2")


def room(instance: str = "web1", *nodes: str) -> Reservation:
    return Reservation(instance=instance, nodes=list(nodes or ("n1",)), memory_mib=64)


def held(table: ReservationTable) -> list[tuple[int | str, str, list[str]]]:
    return [(owner.name, reservation.instance, reservation.nodes) for owner, reservation in table.all()]


def test_who_has_not_seen_the_last_reservation_on_a_node_gets_none() -> None:
    table = ReservationTable()
    assert table.make(ONE, [room("a", "n1", "n2")], 0) is None
    assert table.make(TWO, [room("b", "n3"), room("c", "n2")], 0) == "n2"
    assert held(table) == [(1, "a", ["n1", "n2"])], "all or nothing"
    assert table.make(TWO, [room("b", "n3")], 0) is None, "another node is another matter"
    assert table.make(TWO, [room("c", "n2")], table.serial) is None


def test_a_reservation_that_has_ended_still_counts_as_not_seen() -> None:
    """It ended because the configuration shows it, which the asker has not seen either."""
    table = ReservationTable()
    table.make(ONE, [room("a", "n1")], 0)
    assert table.fulfil("a", "n1")
    assert table.make(TWO, [room("b", "n1")], 0) == "n1"


def test_a_new_reservation_for_an_instance_takes_the_place_of_the_old_one() -> None:
    table = ReservationTable()
    table.make(ONE, [room("a", "n1")], 0)
    table.make(ONE, [room("a", "n2")], table.serial)
    assert held(table) == [(1, "a", ["n2"])]


def test_only_the_primary_that_was_reserved_fulfils() -> None:
    table = ReservationTable()
    table.make(ONE, [room("a", "n2"), room("b", "n2")], 0)
    assert not table.fulfil("a", "n1"), "it is still where it was"
    assert not table.fulfil("c", "n2")
    assert table.fulfil("a", "n2")
    assert held(table) == [(1, "b", ["n2"])]
    assert table.fulfil("b", "n2") and not table.drop(ONE)


def test_the_dead_hold_nothing() -> None:
    table = ReservationTable()
    table.make(ONE, [room("a")], 0)
    table.make(TWO, [room("b")], 1)
    assert table.drop_dead(lambda path: path == TWO.lock_file) == [ONE]
    assert held(table) == [(2, "b", ["n1"])]


def test_a_restart_remembers_what_is_held_and_trusts_no_older_sight() -> None:
    table = ReservationTable()
    table.make(ONE, [room("a", "n1")], 0)
    table.make(TWO, [room("b", "n2")], 1)
    table.fulfil("b", "n2")
    again = ReservationTable.from_plain(table.to_plain())
    assert held(again) == [(1, "a", ["n1"])] and again.serial == 2
    assert again.make(TWO, [room("c", "n2")], 1) == "n2", "nobody knows any more what was reserved where"
    assert again.make(TWO, [room("c", "n2")], 2) is None


@pytest.mark.parametrize("plain", [None, {}, {"version": 2}, {"version": 1, "serial": 1, "held": [[[1, "x", 0], {}]]}])
def test_what_cannot_be_read_is_said(plain: object) -> None:
    with pytest.raises(LockError):
        ReservationTable.from_plain(plain)
