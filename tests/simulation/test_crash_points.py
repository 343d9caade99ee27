# SPDX-License-Identifier: BSD-2-Clause
"""Every operation, interrupted at a sample of its points, is done or clean; all points are played by the campaign."""

import os
import re

import pytest

from ganeti.master import operations
from ganeti.master.operation import REGISTRY
from ganeti_simulation.crashes.campaign import VICTIMS, crashes_of, verdict_of
from ganeti_simulation.crashes.cases import CASES, WITHOUT
from ganeti_simulation.crashes.points import Ending, Point

EVERY = "1" if os.environ.get("GANETI_CAMPAIGN") else "1999"
AT_ONCE = 1 if os.environ.get("GANETI_CAMPAIGN") else 80
"""So many cases are played by one process: to start one costs as much as four cases with a sample of their crashes."""


def test_every_operation_is_interrupted_or_named_with_a_reason():
    operations.load()
    played = {case.opcode["OP_ID"] for case in CASES if case.opcode is not None}
    assert played | set(WITHOUT) == set(REGISTRY)
    assert not played & set(WITHOUT)
    assert all(WITHOUT.values())


class Played:
    """What the command tells of each case."""

    def __init__(self, simulate):
        self._simulate = simulate
        self._told = {}

    def of(self, name):
        """The text that begins with the name of the case; its neighbours are played with it."""
        if name not in self._told:
            names = [case.name for case in CASES]
            begin = names.index(name) // AT_ONCE * AT_ONCE
            together = names[begin : begin + AT_ONCE]
            ran = self._simulate("--crash-points", *together, "--every", EVERY, "--jobs", 1)
            texts = re.split(r"^(?=\S)", ran.out, flags=re.MULTILINE)
            is_explained = ran.status == 0 or ran.out.count("; 0 violations\n") < len(together)
            for each in together:
                own = [text for text in texts if text.startswith(f"{each}: ")]
                self._told[each] = own[0] if len(own) == 1 and is_explained else f"not told as it should: {ran}"
        return self._told[name]


@pytest.fixture(scope="module")
def played(simulate):
    return Played(simulate)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_interrupted_operation_is_done_or_clean(played, case):
    told = played.of(case.name)
    assert re.fullmatch(rf"{case.name}: \d+ points, \d+ plays \(.*\): .*; 0 violations\n(  .*\n)*", told), told


@pytest.mark.parametrize("name", ["frobnicate", "create:x", "create:3:nobody"])
def test_what_cannot_be_interrupted_is_said_in_one_sentence(simulate, name):
    ran = simulate("--crash-points", name)
    assert (ran.status, ran.out) == (2, "")
    assert f"'{name}' is no operation to interrupt" in ran.err and ran.err.count("\n") == 1


def ending(state, statuses, **fields):
    return Ending(["a"], state, statuses, statuses[0] if statuses else None, **fields)


@pytest.mark.parametrize(
    ("state", "statuses", "verdict", "is_wrong"),
    [
        (["a"], ["error"], "clean", False),
        (["a"], [], "clean", False),
        (["a"], ["success", "error"], "clean", False),
        (["a", "b"], ["success"], "done", False),
        (["a", "b"], ["error"], "done although it failed", False),
        (["a"], ["success"], "clean", True),
        (["a", "half of b"], ["error"], "neither", True),
    ],
)
def test_what_is_left_is_judged(state, statuses, verdict, is_wrong):
    found, wrong = verdict_of(["a"], ["a", "b"], ending(state, statuses))
    assert (found, bool(wrong)) == (verdict, is_wrong)


@pytest.mark.parametrize(
    ("state", "result", "is_wrong"),
    [
        (["b"], "it died; there was nothing to undo", True),
        (["b"], "it died; its steps were undone, as its log says", True),
        (["b"], "it died; what it had committed stays, its later steps were undone, as its log says", False),
        (["a"], "it died; its steps were undone, as its log says", False),
        (['instances {"name": "one"}'], "it died; there is no instance one", True),
        (['instances {"name": "one"}'], "it died; instance one is there, marked up", False),
        (["a"], "it died; instance one is there, marked up", True),
        (["a"], "it died; there is no instance one", False),
    ],
)
def test_the_words_of_a_result_are_judged(state, result, is_wrong):
    _, wrong = verdict_of(["a"], state, ending(state, ["error"], result=result))
    assert bool(wrong) == is_wrong, wrong


def test_guests_of_a_machine_that_lost_power_do_not_count():
    lost = ending(["a"], ["success"], rebooted=["node2"])
    assert verdict_of(["a"], ["a", "guest b on node2"], lost) == ("done", [])
    assert verdict_of(["a"], ["a", "guest b on node3"], lost)[1]


def test_only_the_watcher_may_be_waited_for():
    up, down = (f'instances {{"admin_state": "{state}", "name": "b"}}' for state in ("up", "down"))
    before = ["guest b on node2", up]
    assert verdict_of(before, ["a"], ending([up], ["error"])) == ("clean once the watcher has been there", [])
    assert verdict_of(before, ["a"], ending([down], ["error"]))[1]
    assert verdict_of(before, ["a"], ending([down], ["error"]), stops_first=True) == ("stopped only", [])
    assert verdict_of(before, before, ending([up], ["success"]))[1]


def test_who_cannot_be_hit_is_not_hit():
    luxid = Point(0, "node1.example.com", "ganeti-luxid", "luxid-written", has_job=False)
    noded = Point(1, "node2.example.com", "ganeti-noded", "/test_delay arrives", has_job=True)
    hit = [each.victim for each in crashes_of([luxid], 1)]
    assert hit == ["ganeti-luxid", "ganeti-wconfd", "master", "master for good"]
    assert [each.victim for each in crashes_of([noded], 1)] == list(VICTIMS)
    samples = [list(crashes_of([luxid, noded], 5, first)) for first in range(5)]
    assert all(0 < len(sample) < len(VICTIMS) for sample in samples)
    assert sorted(crash.victim for sample in samples for crash in sample) == sorted([*hit, *VICTIMS])
