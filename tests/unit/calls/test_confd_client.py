# SPDX-License-Identifier: BSD-2-Clause
"""A ConfD asked over UDP: by its protocol, again where datagrams are lost, and not for ever."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from tests.fakes.confd import KEY_FILE, FakeConfd

from ganeti.calls import confd_client
from ganeti.calls.confd_client import ConfdClient, SilentError, place_of, volumes_by_confd
from ganeti.node.collectors.owners import Owned
from ganeti.wire.confd import Kind

VOLUMES = {("xenvg", "one.disk0"): "one.x", ("xenvg", "two.disk0_data"): "two.x", ("xenvg", "two.disk0_meta"): "two.x"}


@pytest.fixture
def confd(request: pytest.FixtureRequest) -> Iterator[FakeConfd]:
    found = FakeConfd(**getattr(request, "param", {}))
    yield found
    found.close()


def client(confd: FakeConfd, expiry_s: float = 30.0) -> ConfdClient:
    return ConfdClient([("127.0.0.1", confd.port)], KEY_FILE, expiry_s)


@pytest.mark.parametrize("confd", [{}, {"key": KEY_FILE.strip()}, {"lies": True}, {"lost": 3}], indirect=True, ids=str)
def test_volumes_have_the_owners_that_confd_tells(confd: FakeConfd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confd_client, "_AGAIN_S", 0.05)
    assert volumes_by_confd(client(confd), "node1.x") == Owned(volumes=VOLUMES)


def test_who_is_not_known_has_no_volumes(confd: FakeConfd) -> None:
    assert volumes_by_confd(client(confd), "node2.x") is None
    confd.answers[Kind.NODE_INSTANCES, "node2.x"] = [[], []]
    assert volumes_by_confd(client(confd), "node2.x") == Owned()


@pytest.mark.parametrize("nonsense", [None, 5, "x", {}, [1], [[], 5]])
def test_nonsense_names_nobody(confd: FakeConfd, nonsense: Any) -> None:
    confd.answers[Kind.NODE_INSTANCES, "node1.x"] = nonsense
    assert volumes_by_confd(client(confd), "node1.x") is None
    confd.answers |= {(Kind.NODE_INSTANCES, "node1.x"): [[{"name": "one.x"}, 5, {}, {"name": 5}], []]}
    confd.answers[Kind.INSTANCE_DISKS, "one.x"] = nonsense
    assert volumes_by_confd(client(confd), "node1.x") in (None, Owned())


@pytest.mark.parametrize("confd", [{"key": b"stranger"}], indirect=True)
def test_a_stranger_is_not_waited_for_forever(confd: FakeConfd) -> None:
    with pytest.raises(SilentError, match="no answer within"):
        (stranger := client(confd, 0.2)).ask(Kind.NODE_INSTANCES, "node1.x", stranger.deadline_s())
    assert volumes_by_confd(client(confd, 0.2), "node1.x") is None


@pytest.mark.parametrize(
    ("address", "port"), [("127.0.0.1", 1), ("127.0.0.1", 99999), ("127.0.0.1", -1), ("no such", 1)]
)
def test_nobody_there_is_soon_known(address: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says so as soon as the question is sent: no time passes until it would be repeated."""
    monkeypatch.setattr(confd_client, "_AGAIN_S", 40.0)
    begun_s = time.monotonic()
    assert volumes_by_confd(ConfdClient([(address, port)], KEY_FILE, expiry_s=80.0), "node1.x") is None
    assert time.monotonic() - begun_s < 35.0


def test_an_instance_that_vanished_takes_its_own_volumes_only(confd: FakeConfd) -> None:
    del confd.answers[Kind.INSTANCE_DISKS, "two.x"]
    assert volumes_by_confd(client(confd), "node1.x") == Owned(volumes={("xenvg", "one.disk0"): "one.x"})


def test_all_questions_have_one_time_together(confd: FakeConfd) -> None:
    """Three seconds pass with each look at the clock: enough for each question by itself, not for all three."""
    ticks = count(step=3.0)
    late = ConfdClient([("127.0.0.1", confd.port)], KEY_FILE, clock=lambda: next(ticks))
    assert volumes_by_confd(late, "node1.x") is None
    assert dict.fromkeys(confd.asked) == {(Kind.NODE_INSTANCES, "node1.x"): None, (Kind.INSTANCE_DISKS, "one.x"): None}


def test_where_confd_is() -> None:
    assert place_of(None, None) == ("127.0.0.1", 1814)
    assert place_of("10.0.0.1", "99") == ("10.0.0.1", 99)


@pytest.mark.requirement("S2.14", "S2.15")
def test_of_several_answers_the_newest_counts_and_one_is_enough():
    """A candidate that has no copy, one that is behind, one that loses what it is sent, and one that nobody reaches."""
    with ExitStack() as ending:
        behind, ahead, losing, empty = (
            FakeConfd(serial=3),
            FakeConfd(serial=9),
            FakeConfd(lost=99),
            FakeConfd(serial=99),
        )
        for each in (behind, ahead, losing, empty):
            ending.callback(each.close)
        behind.answers[Kind.MASTER, None], ahead.answers[Kind.MASTER, None] = "old", "new"
        ports = [each.port for each in (behind, losing, empty, ahead)]
        asking = ConfdClient([("127.0.0.1", port) for port in (1, *ports)], KEY_FILE)
        assert asking.ask(Kind.MASTER, None, asking.deadline_s()) == "new"
        alone = ConfdClient([("127.0.0.1", port) for port in (1, losing.port, behind.port)], KEY_FILE)
        assert alone.ask(Kind.MASTER, None, alone.deadline_s()) == "old"
