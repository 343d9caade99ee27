# SPDX-License-Identifier: BSD-2-Clause
"""Majorities of master candidates."""

import pytest

from ganeti.master.config.vote import ANOTHER, Verdict, count_votes, explain, vote_of
from ganeti.model.node_calls.replica import CopyAnswer


@pytest.mark.parametrize(
    ("votes", "verdict"),
    [
        ({}, Verdict.ELECTED),
        ({"b": "a"}, Verdict.ELECTED),
        ({"b": None}, Verdict.OPEN),
        ({"b": "b"}, Verdict.OPEN),
        ({"b": "a", "c": None}, Verdict.ELECTED),
        ({"b": None, "c": None}, Verdict.OPEN),
        ({"b": "b", "c": "b"}, Verdict.REJECTED),
        ({"b": "b", "c": None, "d": None}, Verdict.OPEN),
        ({"b": "b", "c": "b", "d": "a", "e": "b"}, Verdict.REJECTED),
    ],
)
def test_verdicts(votes, verdict):
    assert count_votes({"a": "a", **votes}, "a") is verdict


def test_silence_of_the_own_node_daemon_is_no_vote():
    assert count_votes({"a": None, "b": "a", "c": None}, "a") is Verdict.OPEN
    assert count_votes({"a": None, "b": "a", "c": "a"}, "a") is Verdict.ELECTED


NAMES = {"A": "a", "B": "b"}


@pytest.mark.parametrize(
    ("answer", "vote"),
    [
        ({"names": "a"}, "a"),
        ({"names": "b"}, "b"),
        ({"names": ""}, None),
        ({"names": "a", "refused": "damaged"}, None),
        ({"names": "a", "promised": 3, "holder": "B"}, "a"),
        ({"names": "a", "promised": 4, "holder": "B"}, "b"),
        ({"names": "a", "promised": 4, "holder": "B", "refused": "clock"}, "b"),
        ({"names": "a", "promised": 4, "holder": None}, ANOTHER),
        ({"names": "a", "promised": 4, "holder": "C"}, ANOTHER),
        ({"names": "b", "promised": 3, "holder": "A"}, "a"),
        ({"names": "b", "promised": 4, "holder": "A"}, "a"),
        ({"names": "b", "promised": 2, "holder": "A"}, "b"),
    ],
)
def test_a_promise_to_a_later_epoch_is_stronger_than_ssconf(answer, vote):
    assert vote_of(CopyAnswer(**answer), "D", "A", 3, NAMES) == vote


@pytest.mark.parametrize(
    ("answer", "vote"),
    [
        ({"names": "b"}, "a"),
        ({"names": "b", "promised": 2, "holder": "B"}, "a"),
        ({"names": "b", "promised": 3, "holder": "B"}, "b"),
        ({"names": "b", "promised": 4, "holder": "B"}, "b"),
        ({"names": "b", "promised": 2, "holder": "B", "refused": "clock"}, None),
        ({"names": "c", "promised": 2, "holder": "B"}, "c"),
    ],
)
def test_a_former_master_that_slept_through_the_change_is_not_against_it(answer, vote):
    """Seed 2202 of the simulator: of two candidates left, each waited for the other for good."""
    assert vote_of(CopyAnswer(**answer), "B", "A", 3, NAMES) == vote


def test_the_votes_in_words():
    assert explain({"b": "b", "c": None, "d": "a"}, "a") == "b names b; no answer from c"
    assert explain({"b": "a"}, "a") == "all name a"
