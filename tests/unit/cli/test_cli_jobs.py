# SPDX-License-Identifier: BSD-2-Clause
"""Submitting and waiting: log lines, failures, restarts, interrupts, many jobs."""

import signal
import threading
import time

import pytest
from fake_master import Failed, Hangup, Turns

from ganeti.cli import jobs
from ganeti.cli.progress import log_lines

WHEN = 1795187548


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_log_lines_come_once_and_in_order(gnt, master):
    def change(job, fields, seen, serial, timeout):
        if seen == ["queued"]:
            return [["running"], [[1, [WHEN, 0], "message", "* one"]]]
        if serial == 1:
            texts = [2, [WHEN + 1, 5], "message-list", ["a\nb", "c"]]
            return [["running"], [texts, [3, [WHEN, 0], "delay-test", "x\x1b[2J"]]]
        return [["success"], []]

    master.job()
    master.answers["WaitForJobChange"] = change
    ran = gnt("gnt-debug delay 1")
    assert ran.out.splitlines() == [
        "Fri Nov 20 15:12:28 2026 * one",
        "Fri Nov 20 15:12:29 2026 a\\nb",
        "Fri Nov 20 15:12:29 2026 c",
        "Fri Nov 20 15:12:28 2026 x\\x1b[2J",
    ]
    assert [call[3] for call in master.calls("WaitForJobChange")] == [None, 1, 3]
    assert ran.status == 0


def test_progress_is_not_asked_for_where_nobody_watches(gnt, master):
    master.job()
    assert gnt("gnt-debug delay 1").out == ""
    assert master.calls("WaitForJobChange")[0][1] == ["status"]


def test_messages_keep_their_lines_but_steer_no_terminal():
    assert log_lines([1, [WHEN, 0], "message", "a\nb\x07"]) == ["Fri Nov 20 15:12:28 2026 a\nb\\x07"]


def test_submit_says_the_id_and_does_not_wait(gnt, master):
    master.answers["SubmitJob"] = 77
    told = gnt("gnt-debug delay --submit 1")
    assert (told.out, told.err) == ("", "JobID: 77\n")
    assert gnt("gnt-debug delay --submit --print-jobid 1").out == "77\n"
    assert not master.calls("WaitForJobChange")


def test_print_jobid_is_the_first_line_of_a_job_waited_for(gnt, master):
    master.job(log=([1, [WHEN, 0], "message", "x"],))
    assert gnt("gnt-debug delay --print-jobid 1").out.splitlines()[0] == "14"


def test_what_every_job_carries(gnt, master):
    master.job()
    gnt("gnt-debug delay --dry-run --priority high -d --reason", "because of rain", "1")
    [[opcode]] = master.calls("SubmitJob")[0]
    assert (opcode["dry_run"], opcode["priority"], opcode["debug_level"]) == (True, -10, 1)
    (user, text, first), (client, command, second) = opcode["reason"]
    assert (user, text, client, command) == ("gnt:user", "because of rain", "gnt:client:gnt-debug", "delay")
    assert abs(first / 1e9 - time.time()) < 60
    assert first == second


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ["OpPrereqError", ["No such node", "unknown_entity"]],
            "Failure: prerequisites not met for this operation:\n"
            "error type: unknown_entity, error details:\nNo such node\n",
        ),
        (["OpPrereqError", ["One only"]], "Failure: prerequisites not met for this operation:\nOne only\n"),
        (["OpExecError", ["Disk full"]], "Failure: command execution error:\nDisk full\n"),
        (
            ["HooksAbort", [[["node1", "10check", "no"], ["node2", "10check", ""]]]],
            "Failure: hooks execution failed:\n  node: node1, script: 10check, output: no\n"
            "  node: node2, script: 10check, output: (no output)\n",
        ),
        (["NewerError", ["what", 3]], "Failure: NewerError: what, 3\n"),
        ("odd", "Failure: odd\n"),
    ],
)
def test_failures_read_as_in_3_1(gnt, master, error, text):
    master.job(error, status="error")
    ran = gnt("gnt-debug delay 1")
    assert (ran.status, ran.err) == (1, text)


@pytest.mark.parametrize(
    "line",
    [
        "gnt-cluster verify --dry-run",
        "gnt-node restricted-command --dry-run check node1",
        "gnt-group evacuate --dry-run green",
    ],
)
def test_what_was_only_checked_has_no_result(gnt, master, line: str) -> None:
    nodes = [[[0, value] for value in ("node1", "10.0.0.1", "10.0.0.1", False, False, 22, "green")]]
    master.answers["Query"] = {"fields": [], "data": nodes}
    master.job(None)
    ran = gnt(line)
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert master.submitted()[0]["dry_run"] is True


@pytest.mark.parametrize("line", ["gnt-node volumes --dry-run", "gnt-node list-storage --dry-run -t file"])
def test_what_only_reads_reads_all_the_same(gnt, master, line: str) -> None:
    master.job([])
    assert gnt(line).status == 0
    assert "dry_run" not in master.submitted()[0]


def test_a_later_opcode_that_fails_says_so(gnt, master):
    with pytest.raises(jobs.ServerError) as caught:
        jobs.results_of(3, ["error", ["success", "error"], [None, ["OpExecError", ["no luck"]]]])
    assert caught.value.text == "Failure: command execution error:\npartial failure (opcode 1): no luck"


def test_a_cancelled_job_fails(gnt, master):
    master.job(None, status="canceled")
    ran = gnt("gnt-debug delay 1")
    assert (ran.status, ran.err) == (1, "Failure: the job was canceled: Job 14 was canceled\n")


def test_a_job_that_was_not_cancelled_by_hand_says_why(gnt, master):
    master.job(["JobCanceled", ["Job rejected by the filter rule U"]], status="canceled")
    told = "Failure: the job was canceled: Job 14 was canceled: Job rejected by the filter rule U\n"
    assert gnt("gnt-debug delay 1").err == told
    assert gnt("gnt-job watch 14").err == f"Job 14 failed: {told}"


@pytest.mark.parametrize("result", [["JobCanceled", ["Job canceled by request"]], "Job canceled by request", None])
def test_a_job_cancelled_by_hand_says_it_once(result):
    with pytest.raises(jobs.ServerError) as caught:
        jobs.results_of(3, ["canceled", ["success", "canceled"], [True, result]])
    assert caught.value.details == ["Job 3 was canceled"]


def test_a_partial_failure_is_told_without_its_class():
    refused = ["OpPrereqError", ["Instance 'a' not known: there are b, c", "unknown_entity"]]
    with pytest.raises(jobs.ServerError) as caught:
        jobs.results_of(3, ["error", ["success", "error"], [None, refused]])
    assert caught.value.text.endswith("partial failure (opcode 1): Instance 'a' not known: there are b, c")


def test_a_lost_job_fails(gnt, master):
    master.job()
    master.answers["QueryJobs"] = [[None, None, None]]
    assert "Job with id 14 lost" in gnt("gnt-debug delay 1").err


def test_a_refused_submission(gnt, master):
    master.answers["SubmitJob"] = Failed("JobQueueDrainError", "whatever")
    assert "marked for drain" in gnt("gnt-debug delay 1").err


def test_waiting_survives_a_restart_of_the_master_daemon(gnt, master):
    master.job()
    master.answers["WaitForJobChange"] = Turns([["running"], []], Hangup(), [["success"], []])
    assert gnt("gnt-debug delay 1").status == 0
    assert len(master.calls("WaitForJobChange")) == 3


def test_the_result_survives_a_restart_of_the_master_daemon(gnt, master):
    master.job()
    master.answers["QueryJobs"] = Turns(Hangup(), [["success", ["success"], [None]]])
    assert gnt("gnt-debug delay 1").status == 0


@pytest.fixture
def hours(monkeypatch):
    """A clock that runs ten seconds ahead each time somebody waits."""
    now = [0.0]

    def sleep(_):
        now[0] += 10

    monkeypatch.setattr(jobs.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(jobs.time, "sleep", sleep)


def test_who_waits_is_told_once_that_the_master_daemon_is_away(gnt, master, hours):
    master.job()
    master.answers["WaitForJobChange"] = Turns(Hangup(), Hangup(), Hangup(), [["success"], []])
    ran = gnt("gnt-debug delay 1")
    assert (ran.status, ran.err.count("\n")) == (0, 1)
    assert "The master daemon is away; job 14 is not lost" in ran.err


def test_who_gives_up_is_told_that_the_job_goes_on(gnt, master, hours):
    master.job()
    master.answers["WaitForJobChange"] = Hangup()
    ran = gnt("gnt-debug delay 1")
    assert ran.status == 1
    assert ran.err.endswith("job 14 is not lost: follow it with 'gnt-job watch 14' then\n")


def test_a_submission_is_never_repeated(gnt, master):
    master.answers["SubmitJob"] = Hangup()
    ran = gnt("gnt-debug delay 1")
    assert (ran.status, len(master.calls("SubmitJob"))) == (1, 1)
    assert "'gnt-job list' shows whether" in ran.err


def test_standing_jobs_are_explained_once(gnt, master):
    master.job()
    master.answers["WaitForJobChange"] = Turns(
        [["queued"], []], [["queued"], []], [["queued"], []], [["waiting"], []], [["waiting"], []], [["success"], []]
    )
    ran = gnt("gnt-debug delay 1")
    assert ran.err.splitlines() == [
        "Job 14 is waiting in queue",
        "'gnt-job why 14' says what for",
        "Job 14 is trying to acquire all necessary locks",
    ]
    timeouts = [call[4] for call in master.calls("WaitForJobChange")]
    assert timeouts[0] < 10
    assert max(timeouts) <= 89


@pytest.fixture
def interrupted(master):
    """Interrupt the command as soon as it waits for a job."""
    waiting, ended = threading.Event(), threading.Event()

    def change(*_):
        waiting.set()
        ended.wait(5)
        return Hangup()

    def interrupt():
        waiting.wait(5)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    master.job()
    master.answers["WaitForJobChange"] = change
    threading.Thread(target=interrupt).start()
    yield master
    ended.set()


def test_an_interrupt_says_that_the_job_goes_on(gnt, interrupted):
    ran = gnt("gnt-debug delay 1")
    assert ran.status == 1
    assert ran.err == (
        "Interrupted; job 14 goes on: follow it with 'gnt-job watch 14', end it with 'gnt-job cancel 14'\n"
    )


def test_an_interrupt_names_all_jobs_not_waited_for(gnt, interrupted):
    interrupted.answers["SubmitManyJobs"] = [[True, 3], [False, "queue full"], [True, 4]]
    ran = gnt("gnt-instance startup --force-multiple a b c")
    assert ran.err == ("Interrupted; 2 jobs go on: see 'gnt-job list 3 4', end them with 'gnt-job cancel 3 4'\n")


def test_many_jobs_are_submitted_together_and_waited_for(gnt, master):
    master.answers["SubmitManyJobs"] = [[True, 3], [False, "queue full"], [True, 4]]
    master.answers["WaitForJobChange"] = [["success"], []]
    master.answers["QueryJobs"] = lambda ids, _: [
        ["success", ["success"], [None]] if ids == [3] else ["error", ["error"], [["OpExecError", ["boom"]]]]
    ]
    ran = gnt("gnt-instance startup --force-multiple a b c")
    assert ran.status == 1
    assert ran.out.splitlines() == [
        "Submitted jobs 3, 4",
        "Waiting for job 3 for a ...",
        "Waiting for job 4 for c ...",
    ]
    assert ran.err.splitlines() == [
        "Failed to submit job for b: queue full",
        "Job 4 for c has failed: Failure: command execution error:",
        "boom",
    ]


def test_many_jobs_submitted_only(gnt, master):
    master.answers["SubmitManyJobs"] = [[True, 3], [True, 4]]
    assert gnt("gnt-instance startup --force-multiple --submit a b").out == "3: a\n4: b\n"
    assert gnt("gnt-instance startup --force-multiple --submit --print-jobid a b").out == "3\n4\n"
    master.answers["SubmitManyJobs"] = [[True, 3]]
    assert gnt("gnt-instance startup --submit a").out == "3: a\n"
