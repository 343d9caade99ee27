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
