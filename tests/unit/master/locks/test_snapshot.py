# SPDX-License-Identifier: BSD-2-Clause
"""The saved lock table."""

import json

import pytest

from ganeti.base.errors import LockError
from ganeti.master.locks.owners import Owner
from ganeti.master.locks.snapshot import from_plain, to_plain
from ganeti.master.locks.table import LockTable
from ganeti.master.locks.times import Times

HOLDER, WAITER = Owner(1, "/run/1", 10), Owner(2, "/run/2", 20)


@pytest.fixture
def saved():
    table = LockTable()
    table.update(HOLDER, {"node/x": "exclusive"})
    table.update_waiting(WAITER, -10, {"instance/[lockset]": "shared", "node/x": "shared"})
    times = Times()
    times.note(table.take_effects(), 5.0)
    return json.loads(json.dumps(to_plain(table, times)))


def test_goes_through_json(saved):
    table, times = from_plain(saved)
    assert (times.held, times.waiting) == ({HOLDER: {"node/x": 5.0}}, {WAITER: 5.0})
    assert table.held(HOLDER) == {"node/x": "exclusive"}
    assert table.owners()[0].pid == 10
    assert [(pending.priority, pending.owner) for pending in table.waiting()] == [(-10, WAITER)]
    assert [pending.owner for pending in table.free(HOLDER).granted] == [WAITER]


def test_arrivals_go_on_after_a_restart(saved):
    table = from_plain(saved).table
    late = Owner(3, "/run/3")
    table.update_waiting(late, -10, {"node/x": "exclusive"})
    assert [pending.owner for pending in table.waiting()] == [WAITER, late]


def spoil(saved, path, value):
    *way, last = path
    place = saved
    for step in way:
        place = place[step]
    place[last] = value
    return saved


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["version"], 1),
        (["held"], None),
        (["held", 0, 0], ["?"]),
        (["held", 0, 1], {"node/x": "strong"}),
        (["held", 0, 2], {"node/x": "noon"}),
        (["held", 0, 1], {"node/x": "shared"}),  # then nobody would have had to wait
        (["held"], [[[1, "/a", 1], {"node/x": "exclusive"}, {}], [[2, "/b", 1], {"node/x": "exclusive"}, {}]]),
        (["arrivals"], 0),
        (["waiting", 0], [0]),
    ],
)
def test_a_spoilt_file_is_refused(saved, path, value):
    with pytest.raises(LockError, match="saved locks"):
        from_plain(spoil(saved, path, value))
