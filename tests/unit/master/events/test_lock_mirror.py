# SPDX-License-Identifier: BSD-2-Clause
"""The copy of the lock table holds what the stream tells."""

import pytest

from ganeti.base.errors import TransportError
from ganeti.master.events.lock_mirror import LockMirror

ONE, TWO = [1, "/lock/1", 11], [2, "/lock/2", 22]


def test_it_follows_grants_waits_and_ends():
    mirror = LockMirror()
    mirror.load([["cluster/BGL", [[ONE, "shared"]]]], [[-10, TWO, [["cluster/BGL", "exclusive"]]]])
    assert mirror.state() == {
        "held": [["cluster/BGL", [[ONE, "shared"]]]],
        "waiting": [[-10, TWO, {"cluster/BGL": "exclusive"}]],
    }
    mirror.change("freed", ONE, {"cluster/BGL": "shared"})
    told = mirror.change("granted", TWO, {"cluster/BGL": "exclusive"})
    assert told == {"what": "granted", "client": TWO, "locks": {"cluster/BGL": "exclusive"}}
    mirror.change("waiting", ONE, {"node/n": "shared"}, 0)
    assert mirror.state() == {
        "held": [["cluster/BGL", [[TWO, "exclusive"]]]],
        "waiting": [[0, ONE, {"node/n": "shared"}]],
    }
    mirror.change("withdrawn", ONE, {"node/n": "shared"})
    mirror.change("freed", TWO, {"cluster/BGL": "exclusive"})
    assert mirror.state() == {"held": [], "waiting": []}


def test_it_knows_the_priority_of_those_who_begin_to_wait():
    mirror = LockMirror()
    told = mirror.change("waiting", ONE, {"node/n": "shared"}, -10)
    assert told == {"what": "waiting", "client": ONE, "locks": {"node/n": "shared"}, "priority": -10}
    assert mirror.state()["waiting"] == [[-10, ONE, {"node/n": "shared"}]]
    mirror.change("waiting", ONE, {"node/n": "shared"}, -20)
    assert mirror.state()["waiting"] == [[-20, ONE, {"node/n": "shared"}]], "it was moved"


def test_who_waits_may_be_granted_something_else():
    mirror = LockMirror()
    mirror.change("waiting", ONE, {"node/n": "shared"}, 0)
    mirror.change("granted", ONE, {"node/m": "shared"})
    assert mirror.state()["waiting"] == [[0, ONE, {"node/n": "shared"}]]


def test_what_is_told_twice_does_no_harm():
    mirror = LockMirror()
    for _ in range(2):
        mirror.change("granted", ONE, {"node/a": "shared"})
        mirror.change("waiting", TWO, {"node/a": "exclusive"}, 3)
    assert mirror.state() == {
        "held": [["node/a", [[ONE, "shared"]]]],
        "waiting": [[3, TWO, {"node/a": "exclusive"}]],
    }
    for _ in range(2):
        mirror.change("freed", ONE, {"node/a": "shared"})
        mirror.change("withdrawn", TWO, {})
    assert mirror.state() == {"held": [], "waiting": []}


def test_a_new_table_replaces_the_old_one():
    mirror = LockMirror()
    mirror.change("granted", ONE, {"node/a": "shared"})
    told = mirror.load([], [])
    assert told == {"what": "table", "held": [], "waiting": []} and mirror.state()["held"] == []


def test_an_unknown_change_is_refused():
    with pytest.raises(TransportError, match="same release"):
        LockMirror().change("stolen", ONE, {})
