# SPDX-License-Identifier: BSD-2-Clause
"""The log of events: who continues where, and who cannot."""

import json

import pytest

from ganeti.base.errors import ParameterError
from ganeti.master.events.log import CONFIG, EVENT_KINDS, JOB, LOCK, NODE, EventLog, read_kinds
from ganeti.master.events.positions import EventPosition, read_event_position

MOST = 1_000_000


def told(log: EventLog, number: int, *kinds: str) -> list:
    """What a reader of *kinds* gets after *number*."""
    chunk = log.after(number, kinds, MOST)
    assert chunk is not None
    return [json.loads(line) for line in chunk.data.split(b"\x03")[:-1]]


def test_events_carry_their_kind_position_and_time():
    log = EventLog("life")
    log.append(JOB, 12.34567, {"what": "submitted", "id": 7})
    log.append(CONFIG, 13.0, {"put": []}, (2, 9))
    assert told(log, 0, *EVENT_KINDS) == [
        {"event": "job", "position": "life-1-0.0", "time": 12.346, "what": "submitted", "id": 7},
        {"event": "config", "position": "life-2-2.9", "time": 13.0, "put": []},
    ]
    assert log.position == EventPosition("life", 2, (2, 9))


def test_a_reader_gets_its_kinds_after_its_place():
    log = EventLog("life")
    for number in range(6):
        log.append(JOB if number % 2 else NODE, 0.0, {"n": number})
    assert [event["n"] for event in told(log, 2, JOB)] == [3, 5]
    assert told(log, 6, JOB) == []


def test_chunks_end_between_events_and_lead_on_without_a_gap():
    log = EventLog("life")
    for number in range(10):
        log.append(JOB, 0.0, {"n": number})
    number, seen = 0, []
    while number < log.number:
        chunk = log.after(number, (JOB,), 1)
        seen.append(json.loads(chunk.data[:-1])["n"])
        number = chunk.number
    assert seen == list(range(10))


def test_what_was_dropped_matters_to_its_kinds_only():
    log = EventLog("life", events_kept=3)
    log.append(LOCK, 0.0, {})
    for number in range(3):
        log.append(JOB, 0.0, {"n": number})
    assert log.after(0, (LOCK,), MOST) is None
    assert [event["n"] for event in told(log, 0, JOB)] == [0, 1, 2]
    log.append(JOB, 0.0, {"n": 3})
    assert log.after(1, (JOB,), MOST) is None
    assert [event["n"] for event in told(log, 2, JOB)] == [1, 2, 3]


def test_size_is_bounded_but_the_newest_event_always_kept():
    log = EventLog("life", bytes_kept=1000)
    for _ in range(50):
        log.append(JOB, 0.0, {"text": "x" * 50})
        assert log.size_bytes <= 1000
    log.append(JOB, 0.0, {"text": "x" * 5000})
    assert log.size_bytes > 5000 and len(told(log, log.number - 1, JOB)) == 1


def test_nobody_continues_across_a_time_in_which_nothing_was_recorded():
    log = EventLog("life")
    log.append(JOB, 0.0, {})
    number = log.number
    log.clear()
    assert not log.reaches(number, (JOB,)) and log.reaches(log.number, EVENT_KINDS)
    log.append(JOB, 0.0, {"n": 1})
    assert [event["n"] for event in told(log, log.number - 1, JOB)] == [1]


def test_losing_locks_leaves_the_others_alone():
    log = EventLog("life")
    log.append(JOB, 0.0, {"n": 1})
    log.lose([LOCK])
    log.append(JOB, 0.0, {"n": 2})
    assert [event["n"] for event in told(log, 0, JOB)] == [1, 2]
    assert log.after(1, (JOB, LOCK), MOST) is None and log.after(2, (JOB, LOCK), MOST) is not None


def test_a_place_in_the_future_is_none():
    assert not EventLog("life").reaches(1, (JOB,))


def test_positions_come_back_as_they_went():
    position = EventPosition("0a1b", 12, (3, 4))
    assert read_event_position(str(position)) == position


@pytest.mark.parametrize(
    "text", ["", "a-1", "a-1-2", "a-1-2.3 ", "a--1-2.3", "A-1-2.3", 7, ["a-1-2.3"], "a-١-2.3", "a" * 99]
)
def test_what_is_no_position_is_refused(text):
    with pytest.raises(ParameterError, match="not a position"):
        read_event_position(text)


@pytest.mark.parametrize("kinds", [[], ["bogus"], "job", [["job"]], [None], {"job": 1}])
def test_what_are_no_kinds_is_refused(kinds):
    with pytest.raises(ParameterError, match="config, job, lock, node"):
        read_kinds(kinds)


def test_null_means_all_kinds():
    assert read_kinds(None) == set(EVENT_KINDS)
