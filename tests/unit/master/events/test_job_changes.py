# SPDX-License-Identifier: BSD-2-Clause
"""What is told of a job's changes: each difference once."""

from typing import Any

from ganeti.master.events.job_changes import JobChanges, job_rows
from ganeti.wire.job_file import JobFile, OpcodeEntry


def job(*statuses: str, job_id: int = 7, priority: int = 0, log: list[Any] | None = None) -> JobFile:
    ops = [OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"}, status=status, priority=priority) for status in statuses]
    if log is not None:
        ops[-1].log = log
    return JobFile(id=job_id, ops=ops)


def entry(serial: int) -> list[Any]:
    return [serial, [1, 0], "message", f"text {serial}"]


def test_the_life_of_a_job():
    changes = JobChanges()
    changes.adopt([], 6)
    assert changes.changed(job("queued"), 7) == [
        {"what": "submitted", "id": 7, "status": "queued", "priority": 0, "summary": ["TEST_DELAY"]}
    ]
    assert changes.changed(job("queued"), 7) == []
    assert changes.changed(job("waiting"), 7) == [{"what": "status", "id": 7, "status": "waiting", "was": "queued"}]
    assert changes.changed(job("waiting", priority=-10), 7) == [
        {"what": "priority", "id": 7, "priority": -10, "was": 0}
    ]
    told = changes.changed(job("running", priority=-10, log=[entry(1), entry(2)]), 7)
    assert [event["what"] for event in told] == ["log", "log", "status"]
    assert told[0] == {"what": "log", "id": 7, "serial": 1, "type": "message", "text": "text 1"}
    told = changes.changed(job("success", priority=-10, log=[entry(1), entry(2), entry(3)]), 7)
    assert [(event["what"], event.get("serial")) for event in told] == [("log", 3), ("status", None)]
    assert changes.changed(job("success"), 7) == []
    assert changes.changed(None, 7) == [{"what": "archived", "id": 7}]


def test_log_messages_of_several_opcodes_are_told_once_each():
    changes = JobChanges()
    file = job("success", "running")
    file.ops[0].log, file.ops[1].log = [entry(1), entry(2)], [entry(3)]
    changes.adopt([file], 7)
    file.ops[1].log = [entry(3), entry(4), entry(5)]
    assert [event["serial"] for event in changes.changed(file, 7)] == [4, 5]


def test_a_job_refused_at_once_is_told_whole():
    changes = JobChanges()
    changes.adopt([], 6)
    assert [event["what"] for event in changes.changed(job("error"), 7)] == ["submitted", "status"]
    assert changes.changed(job("error"), 7) == []


def test_a_job_that_ended_before_is_not_news():
    changes = JobChanges()
    changes.adopt([], 7)
    assert changes.changed(job("success"), 7) == []


def test_an_adopted_job_is_told_from_where_it_was():
    changes = JobChanges()
    changes.adopt([job("running", log=[entry(1)])], 7)
    assert changes.changed(job("running", log=[entry(1)]), 7) == []
    assert changes.changed(job("success", log=[entry(1)]), 7) == [
        {"what": "status", "id": 7, "status": "success", "was": "running"}
    ]


def test_a_job_handed_back_is_queued_again():
    changes = JobChanges()
    changes.adopt([job("waiting")], 7)
    assert changes.changed(job("queued"), 7) == [{"what": "status", "id": 7, "status": "queued", "was": "waiting"}]


def test_rows_of_a_snapshot_are_in_order():
    assert job_rows([job("running", job_id=9, priority=10)], {3: "success"}) == [
        [3, "success", None, None],
        [9, "running", ["TEST_DELAY"], 10],
    ]
