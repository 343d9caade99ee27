# SPDX-License-Identifier: BSD-2-Clause
"""gnt-job autoarchive, change-priority and why; and words that are wrong for commands about jobs."""

import pytest
from fake_master import Failed, Turns

from ganeti.cli import confirm
from ganeti.cli.commands import listing


def jobs_found(*numbers):
    return {"fields": [], "data": [[[0, number]] for number in numbers]}


@pytest.mark.parametrize(("age", "seconds"), [("all", -1), ("0", 0), ("90", 90), ("21d", 21 * 86400)])
def test_archiving_by_age(gnt, master, age, seconds):
    master.answers["AutoArchiveJobs"] = [3, 1]
    ran = gnt(f"gnt-job autoarchive {age}")
    assert (ran.status, ran.out, ran.err) == (0, "Archived 3 jobs, 1 unchecked left\n", "")
    assert [call[0] for call in master.calls("AutoArchiveJobs")] == [seconds]


@pytest.mark.parametrize("age", ["soon", "5x", "1.5d", "9" * 5000])
def test_archiving_by_no_age(gnt, master, age):
    ran = gnt(f"gnt-job autoarchive {age}")
    assert ran.status == 1
    assert ran.err.startswith("age: '") and ran.err.count("\n") == 1
    assert not master.requests


@pytest.mark.parametrize(
    ("word", "number"),
    [("low", 10), ("normal", 0), ("high", -10), ("-20", -20), ("19", 19), ("-0", 0), ("3", 3)],
)
def test_a_priority_is_a_word_or_a_number(gnt, master, word, number):
    master.answers["ChangeJobPriority"] = [True, "changed"]
    assert gnt(f"gnt-job change-priority --priority {word} 7").status == 0
    assert master.calls("ChangeJobPriority") == [[7, number]]


def test_change_priority_says_what_the_cluster_says(gnt, master):
    master.answers["ChangeJobPriority"] = Turns(
        [True, "Priorities of pending opcodes for job 1 have been changed to 10"], [False, "Job 2 not found in queue"]
    )
    master.answers["QueryJobs"] = [[None]]
    ran = gnt("gnt-job change-priority --priority low 1 2")
    assert ran.status == 1
    changed, missing = ran.out.splitlines()
    assert changed == "Priorities of pending opcodes for job 1 have been changed to 10"
    assert (missing, ran.err) == ("Job 2 not found in queue", "")


def test_change_priority_by_state_asks(gnt, master, monkeypatch):
    asked = []
    master.answers["Query"] = jobs_found(3, 4)
    master.answers["ChangeJobPriority"] = [True, "ok"]
    monkeypatch.setattr(confirm, "ask", asked.append)
    ran = gnt("gnt-job change-priority --priority high --queued")
    assert (ran.status, ran.out) == (13, "")
    assert "priority change will operate on 2 jobs" in asked[0] and "give -f" in ran.err
    assert not master.calls("ChangeJobPriority")
    assert gnt("gnt-job change-priority --priority high -f --queued").status == 0
    assert master.calls("ChangeJobPriority") == [[3, -10], [4, -10]]
    master.answers["Query"] = jobs_found()
    ran = gnt("gnt-job change-priority --priority high --pending")
    assert (ran.status, ran.out) == (1, "")
    assert "No jobs with the requested status" in ran.err


def test_who_cannot_cancel_a_running_job_is_told_what_becomes_of_it(gnt, master):
    master.answers["CancelJob"] = [False, "Job no longer waiting, can't cancel (informed it anyway)"]
    ran = gnt("gnt-job cancel 7")
    assert (ran.status, ran.out) == (1, "Job no longer waiting, can't cancel (informed it anyway)\n")
    assert ran.err.splitlines() == [
        "Job 7 goes no further than to the end of its current opcode; "
        "'gnt-job cancel --kill --yes-do-it 7' ends it at once",
    ]


@pytest.mark.parametrize(
    ("line", "row", "hints"),
    [
        ("gnt-job cancel 7", ["success"], ["Job 7 has ended: success"]),
        ("gnt-job change-priority --priority=low 7", ["canceled"], ["Job 7 has ended: canceled"]),
        ("gnt-job cancel 7", [None], []),
        ("gnt-job cancel 7", ["running"], []),
    ],
)
def test_a_job_that_has_ended_is_told_from_one_that_never_was(gnt, master, line, row, hints):
    master.answers["CancelJob"] = master.answers["ChangeJobPriority"] = [False, "Job 7 not found in queue"]
    master.answers["QueryJobs"] = [row]
    ran = gnt(line)
    assert (ran.status, ran.out, ran.err.splitlines()) == (1, "Job 7 not found in queue\n", hints)


def test_an_interrupt_instead_of_an_answer_changes_nothing(gnt, master, monkeypatch):
    def terminal(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(confirm, "open", terminal, raising=False)
    master.answers["Query"] = jobs_found(4)
    ran = gnt("gnt-job cancel --pending")
    assert (ran.status, ran.err, master.calls("CancelJob")) == (1, "\nInterrupted; nothing was done.\n", [])


def test_a_no_changes_nothing(gnt, master, monkeypatch):
    master.answers["Query"] = jobs_found(3)
    monkeypatch.setattr(confirm, "ask", lambda question: False)
    assert gnt("gnt-job change-priority --priority high --waiting").status == 13
    assert not master.calls("ChangeJobPriority")


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("gnt-job change-priority 1", 1, "needs --priority"),
        ("gnt-job change-priority --priority highest 1", 2, "'highest' is not possible"),
        ("gnt-job change-priority --priority 20 1", 2, "from -20 (first) to 19 (last)"),
        ("gnt-job change-priority --priority -21 1", 2, "from -20 (first) to 19 (last)"),
        ("gnt-job change-priority --priority 1.5 1", 2, "'1.5' is not possible"),
        ("gnt-job change-priority --priority - 1", 2, "'-' is not possible"),
        ("gnt-job change-priority --priority low", 1, "either job ids or one of --pending"),
        ("gnt-job change-priority --priority low --pending 1", 1, "either job ids or one of --pending"),
        ("gnt-job change-priority --priority low 1 web1", 1, "'web1' is not a job id"),
        ("gnt-job change-priority --priority low 0", 1, "'0' is not a job id"),
        ("gnt-job change-priority --priority low ²", 1, "'²' is not a job id"),
        ("gnt-job cancel 1 x", 1, "'x' is not a job id"),
        ("gnt-job why", 1, "takes at least 1 argument"),
        ("gnt-job why 1 two", 1, "'two' is not a job id"),
        ("gnt-job why " + "9" * 5000, 1, "is not a job id"),
        ("gnt-job info 0", 1, "'0' is not a job id"),
        ("gnt-debug locks --interval 1e18", 1, "at most 86400"),
    ],
)
def test_wrong_words_change_nothing(gnt, master, line, status, message):
    ran = gnt(line)
    assert (ran.status, ran.out) == (status, "")
    assert message in ran.err and ran.err.count("\n") == 1
    assert not master.requests


def test_why_prints_what_explains_below_what_it_explains(gnt, master):
    master.answers["ExplainJob"] = Turns([[0, "Job 3 waits."], [1, "Job 2 runs."]], [[0, "Job 4 runs."]])
    ran = gnt("gnt-job why 3 4")
    assert (ran.status, ran.out) == (0, "Job 3 waits.\n  Job 2 runs.\n\nJob 4 runs.\n")
    assert master.calls("ExplainJob") == [[3], [4]]


def test_why_of_an_unknown_job(gnt, master):
    master.answers["ExplainJob"] = Failed("JobLost", "Job 99 not found")
    ran = gnt("gnt-job why 99")
    assert (ran.status, ran.out, ran.err) == (1, "", "Job ID 99 not found\n")


def test_why_with_any_other_failure(gnt, master):
    master.answers["ExplainJob"] = Failed("LuxiError", "WConfD does not answer")
    ran = gnt("gnt-job why 3")
    assert (ran.status, ran.err) == (1, "Failure: WConfD does not answer\n")


def test_a_job_named_twice_is_shown_once(gnt, master):
    master.answers["QueryJobs"] = lambda ids, fields: [[None] * len(fields) for _ in dict.fromkeys(ids)]
    ran = gnt("gnt-job info 5 5")
    assert (ran.status, ran.out) == (0, "- Job ID 5 not found\n")


def test_locks_are_there_at_once_for_who_reads_along(gnt, master, monkeypatch):
    """A pipe is buffered: what was printed must not lie in it for an interval."""
    master.answers["Query"] = {"fields": [], "data": []}
    flushed = []
    monkeypatch.setattr(listing.sys.stdout, "flush", lambda: flushed.append(True))

    def sleep(seconds):
        assert flushed
        raise KeyboardInterrupt

    monkeypatch.setattr(listing.time, "sleep", sleep)
    ran = gnt("gnt-debug locks --interval 1")
    assert (ran.status, ran.err) == (0, ""), "an interrupt is how this ends"
