# SPDX-License-Identifier: BSD-2-Clause
"""Guests that come and go are told once each."""

from ganeti.mond.guest_changes import GuestChanges
from ganeti.node.hypervisors.interface import Sighting


def test_what_is_different_is_told_once() -> None:
    changes = GuestChanges()
    web1, web2 = Sighting(name="web1", started_s=100.0), Sighting(name="web2", started_s=200.0)
    assert list(changes.seen([web1])) == [("web1", "guest web1 runs as the monitoring begins")]
    assert list(changes.seen([Sighting(name="web1", started_s=100.4)])) == []
    assert list(changes.seen([web1, web2])) == [("web2", "guest web2 runs")]
    again = Sighting(name="web1", started_s=300.0)
    assert list(changes.seen([again, web2])) == [("web1", "guest web1 was started again: it is another process")]
    assert list(changes.seen([again])) == [("web2", "guest web2 runs no longer")]


def test_one_that_should_run_and_was_never_seen_has_ended_when_two_looks_miss_it() -> None:
    """It began and died between two looks. Told once; until it is seen, or is not to run, nothing more is said."""
    changes, web1 = GuestChanges(), Sighting(name="web1", started_s=100.0)
    told = []
    for wanted in ((), ("web1",), None, ("web1",), ("web1",), (), ("web1",), ("web1",)):
        assert list(changes.seen([], wanted)) == []
        told.append(changes.ended)
    assert told == [None, [], [], ["web1"], [], [], [], ["web1"]]
    assert list(changes.seen([web1], ("web1",))) == [("web1", "guest web1 runs")]
    assert changes.ended == [] and changes.have_begun
    assert list(changes.seen([], ("web1",))) == [("web1", "guest web1 runs no longer")]
    assert changes.ended == ["web1"] and not changes.have_begun
    for _ in range(2):
        list(changes.seen([], ("web1",)))
        assert changes.ended == []


def test_where_nobody_says_what_should_run_nothing_is_missed() -> None:
    changes = GuestChanges()
    for _ in range(3):
        assert list(changes.seen([])) == []
    assert changes.ended == []
