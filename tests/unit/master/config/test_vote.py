# SPDX-License-Identifier: BSD-2-Clause
"""Majorities of master candidates."""

import pytest

from ganeti.master.config.vote import Verdict, count_votes, explain


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
    assert count_votes(votes, "a") is verdict


def test_the_votes_in_words():
    assert explain({"b": "b", "c": None, "d": "a"}, "a") == "b names b; no answer from c"
    assert explain({"b": "a"}, "a") == "all name a"
