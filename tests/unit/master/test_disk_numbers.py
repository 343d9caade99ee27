# SPDX-License-Identifier: BSD-2-Clause
"""Ports and minors: given by the commit that enters a disk, given back when it leaves, held while a copy moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.errors import ReservationError
from ganeti.master import disk_numbers
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import Disk

GOLDEN = Path(__file__).resolve().parents[2] / "golden/config/config-3.1.json"


@pytest.fixture
def draft() -> Draft:
    """A cluster of 3.1 with one mirrored disk: port 11000, minor 0 on both nodes."""
    return Draft(Configuration.from_plain(json.loads(GOLDEN.read_text())), 1.0)


def nodes(draft: Draft) -> list[str]:
    return stored(draft).nodes


def stored(draft: Draft) -> Disk:
    (disk,) = [disk for disk in draft.disks() if disk.dev_type == "drbd"]
    return disk


def new(draft: Draft, uuid: str, *numbers: Any) -> Disk:
    first, second = nodes(draft)
    logical_id = [first, second, *(numbers or (None, None, None)), "secret"]
    return Disk(uuid=uuid, dev_type="other", nodes=[first, second], logical_id=logical_id)


def test_a_disk_gets_the_lowest_minors_that_nobody_has(draft: Draft) -> None:
    first, second = nodes(draft)
    for uuid in ("a", "b"):
        disk_numbers.enter_disk(draft, new(draft, uuid))
    assert [draft.disk(uuid).logical_id[3:5] for uuid in ("a", "b")] == [[1, 1], [2, 2]]
    assert len({draft.disk(uuid).logical_id[2] for uuid in ("a", "b")} | {11000}) == 3
    disk_numbers.forget_disk(draft, "a")
    disk_numbers.forget_disk(draft, "a")
    disk_numbers.enter_disk(draft, new(draft, "c", 12000, None, 7))
    assert draft.disk("c").logical_id == [first, second, 12000, 1, 7, "secret"]
    assert sorted(disk_numbers.minors_by_node(draft)[second]) == [0, 2, 7]


def test_a_port_is_given_back_with_its_disk(draft: Draft) -> None:
    disk_numbers.enter_disk(draft, new(draft, "a"))
    port = draft.disk("a").logical_id[2]
    assert port not in draft.cluster.tcpudp_port_pool
    disk_numbers.forget_disk(draft, "a")
    assert port in draft.cluster.tcpudp_port_pool


def test_there_are_as_many_ports_as_there_are(draft: Draft) -> None:
    taken = set()
    with pytest.raises(ReservationError, match="All network ports from 11000 to 32767 are in use"):
        while len(taken) < 30_000:
            taken.add(disk_numbers.take_port(draft))
    assert max(taken) == disk_numbers.LAST_PORT and 11000 not in taken


def test_numbers_that_a_disk_has_stay_whatever_a_change_was_planned_on(draft: Draft) -> None:
    disk_numbers.enter_disk(draft, new(draft, "a"))
    given = draft.disk("a").logical_id
    assert disk_numbers.numbered(draft, new(draft, "a")).logical_id == given


@pytest.mark.parametrize("stays", [0, 1])
def test_a_node_that_stays_keeps_its_place_and_its_minor(draft: Draft, stays: int) -> None:
    disk, third = stored(draft), "third"
    kept = nodes(draft)[stays]
    moved = disk_numbers.on_nodes(disk, [kept, third])
    place = {stays: kept, 1 - stays: third}
    assert moved.logical_id[:2] == [place[0], place[1]]
    assert moved.nodes == [kept, third] and all(child.nodes == moved.nodes for child in moved.children)
    held = disk_numbers.stand_in(moved, "held")
    assert held is not None and held.forthcoming and held.children == []
    disk_numbers.enter_disk(draft, held)
    final = disk_numbers.with_numbers_of(moved, draft.disk("held"))
    assert None not in final.logical_id and final.logical_id[3 + stays] == 0 and final.logical_id[2] != 11000
    disk_numbers.exchange_numbers(draft, final, "held")
    assert draft.get("disks", "held") is None and stored(draft).logical_id == final.logical_id
    assert 11000 in draft.cluster.tcpudp_port_pool


def test_a_disk_that_grows_has_a_larger_part_for_its_data(draft: Draft) -> None:
    grown = disk_numbers.resized(stored(draft), 2048)
    assert (grown.size, [part.size for part in grown.children]) == (2048, [2048, 128])
