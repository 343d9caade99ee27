# SPDX-License-Identifier: BSD-2-Clause
"""Job filters on real daemons: rules count at once for queued jobs, leave running ones alone, and outlive LuxiD."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.master_daemons import Master, running_master

from ganeti.wire.job_file import FINAL_STATUSES, JobFile, seconds

pytestmark = pytest.mark.daemons

ABOUT_DELAYS = '--predicates=[["opcode", ["==", "OP_ID", "OP_TEST_DELAY"]]]'
ABOUT_NEW_JOBS = '--predicates=[["jobid", [">", "id", "watermark"]]]'
PROGRAM = "import sys; sys.argv[0] = 'gnt-filter'; from ganeti.cli.main import run; sys.exit(run('gnt-filter'))"
UUID = "00000001-0000-4000-8000-000000000000"


ENDLESS_S = 3600.0


def delay(duration_s: float = 0.01, reason: str | None = None) -> dict[str, Any]:
    said = {} if reason is None else {"reason": [["gnt:user", reason, 1]]}
    return {"OP_ID": "OP_TEST_DELAY", "duration": duration_s, "no_locks": True, **said}


UNTOUCHED = {"OP_ID": "OP_TEST_DUMMY"}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with running_master(tmp_path_factory.mktemp("cluster")) as master:
        yield master


@pytest.fixture
def master(running):
    """The daemons, for a test that may leave rules and jobs behind."""
    yield running
    for job_id, job_status in running.luxi("QueryJobs", None, ["id", "status"]):
        if job_status not in FINAL_STATUSES:
            running.luxi("CancelJob", job_id, True)
            running.wait(job_id)
    for (uuid,) in running.luxi("QueryFilters", None, ["uuid"]):
        running.luxi("DeleteFilter", uuid)


def gnt_filter(master: Master, *words: str, status: int = 0) -> str:
    """Run gnt-filter; gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], env=master.environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.strip() if status == 0 else done.stderr


def restart_luxid(master: Master) -> None:
    master.kill("luxid", signal.SIGKILL)
    master.start("luxid")


def submit_all(master: Master, jobs: list[dict[str, Any]]) -> list[int]:
    answers = master.luxi("SubmitManyJobs", [[opcode] for opcode in jobs])
    assert all(ok for ok, _ in answers), answers
    return [job_id for _, job_id in answers]


def status(master: Master, job_id: int) -> str:
    found: str = master.luxi("QueryJobs", [job_id], ["status"])[0][0]
    return found


def other_jobs_go_by(master: Master) -> None:
    """A job that no rule is about runs: whatever could have started before it has started."""
    master.wait(master.submit(UNTOUCHED))


def until_running(master: Master, job_id: int) -> None:
    master.until(lambda: status(master, job_id) == "running", f"job {job_id} runs")


def endless(master: Master, reason: str | None = None) -> int:
    """Give a job that runs until `end` ends it."""
    job_id = master.submit(delay(ENDLESS_S, reason))
    until_running(master, job_id)
    return job_id


def end(master: Master, job_id: int) -> JobFile:
    """End a running job; gives its file."""
    ok, told = master.luxi("CancelJob", job_id, True)
    assert ok, told
    return master.wait(job_id)


def most_at_once(files: list[JobFile]) -> int:
    """How many of these jobs had a process at a time, by what their files say."""
    moments = [(seconds(file.start_timestamp), 1) for file in files] + [
        (seconds(file.end_timestamp), -1) for file in files
    ]
    most = now = 0
    for _, change in sorted(moments, key=lambda moment: (moment[0] or 0.0, moment[1])):
        now += change
        most = max(most, now)
    return most


class TestRules:
    def test_they_are_added_shown_replaced_and_deleted(self, master):
        newest = master.submit(UNTOUCHED)
        uuid = gnt_filter(master, "add", "--priority=3", "--reason=why", ABOUT_DELAYS, "--action=RATE_LIMIT 2")
        told = gnt_filter(master, "info", uuid)
        assert f"UUID: {uuid}\n  Watermark: {newest}\n  Priority: 3\n  Predicates: [['opcode'," in told
        assert "Action: ['RATE_LIMIT', 2]\n" in told and "['gnt:user', 'why', " in told
        newest = master.submit(UNTOUCHED)
        assert gnt_filter(master, "replace", "--action=ACCEPT", uuid) == uuid
        row = gnt_filter(
            master, "list", "--no-headers", "--separator=|", "-o", "uuid,watermark,priority,predicates,action"
        )
        assert row == f"{uuid}|{newest}|0|[]|ACCEPT"
        assert gnt_filter(master, "replace", "--action=PAUSE", UUID) == UUID
        assert [line.split()[0] for line in gnt_filter(master, "list", "--no-headers").splitlines()] == [UUID, uuid]
        for each in (uuid, UUID):
            assert gnt_filter(master, "delete", each) == ""
        assert gnt_filter(master, "list") == "UUID Watermark Priority Predicates Action ReasonTrail"
        assert "no filter rule" in gnt_filter(master, "delete", uuid, status=1)

    def test_what_is_refused_changes_nothing(self, master):
        uuid = gnt_filter(master, "add", "--action=ACCEPT")
        for words, sentence in (
            (("--action=WAIT",), "is not an action"),
            (("--action=RATE_LIMIT 0",), "1 or more"),
            (("--priority=-1",), "0 or more"),
            (('--predicates=[["jobid", ["=~", "id", "1"]]]',), "cannot be used"),
        ):
            assert sentence in gnt_filter(master, "add", *words, status=1)
            assert sentence in gnt_filter(master, "replace", *words, uuid, status=1)
        assert gnt_filter(master, "list", "--no-headers", "-o", "uuid,action") == f"{uuid} ACCEPT"

    def test_they_outlive_every_daemon_and_stand_in_the_file(self, master):
        uuid = gnt_filter(master, "add", "--action=ACCEPT")
        assert uuid in Path(master.paths.config_file).read_text()
        restart_luxid(master)
        assert gnt_filter(master, "list", "--no-headers", "-o", "uuid") == uuid
        other = gnt_filter(master, "add", "--priority=1", "--action=ACCEPT")
        for name in ("luxid", "wconfd"):
            master.kill(name, signal.SIGKILL)
        for name in ("wconfd", "luxid"):
            master.start(name)
        assert gnt_filter(master, "list", "--no-headers", "-o", "uuid").split() == [uuid, other]
        gnt_filter(master, "delete", other)
        assert gnt_filter(master, "list", "--no-headers", "-o", "uuid") == uuid

    @pytest.mark.parametrize("moment", ["commit-staged", "commit-durable"])
    def test_a_change_is_made_once_although_the_configuration_daemon_dies_in_it(self, master, moment):
        master.kill("wconfd")
        master.start("wconfd", GANETI_PAUSE_AT=moment)
        with ThreadPoolExecutor(1) as thread:
            made = thread.submit(gnt_filter, master, "add", "--action=ACCEPT")
            pid = master.daemons["wconfd"].pid
            master.until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "it stops")
            master.kill("wconfd", signal.SIGKILL)
            master.start("wconfd")
            uuid = made.result()
        assert gnt_filter(master, "list", "--no-headers", "-o", "uuid") == uuid


class TestJobs:
    def test_paused_jobs_stay_queued_until_the_rule_goes(self, master):
        uuid = gnt_filter(master, "add", ABOUT_DELAYS, "--action=PAUSE")
        paused = master.submit(delay())
        other_jobs_go_by(master)
        assert status(master, paused) == "queued"
        restart_luxid(master)
        other_jobs_go_by(master)
        assert status(master, paused) == "queued"
        gnt_filter(master, "delete", uuid)
        assert master.wait(paused).status == "success"

    def test_a_rule_may_be_about_jobs_after_it_only(self, master):
        blocking = gnt_filter(master, "add", ABOUT_DELAYS, "--action=PAUSE")
        before = master.submit(delay())
        gnt_filter(master, "add", ABOUT_NEW_JOBS, "--action=PAUSE")
        gnt_filter(master, "delete", blocking)
        after = master.submit(UNTOUCHED)
        assert master.wait(before).status == "success"
        assert status(master, after) == "queued"

    def test_rejected_jobs_are_cancelled_at_once_queued_ones_too(self, master):
        uuid = gnt_filter(master, "add", ABOUT_DELAYS, "--action=PAUSE")
        queued = submit_all(master, [delay(), delay(), UNTOUCHED])
        assert master.wait(queued.pop()).status == "success"
        assert [status(master, job_id) for job_id in queued] == ["queued", "queued"]
        gnt_filter(master, "replace", ABOUT_DELAYS, "--action=REJECT", uuid)
        assert [master.wait(job_id).status for job_id in queued] == ["canceled", "canceled"]
        assert master.wait(master.submit(delay())).status == "canceled"
        gnt_filter(master, "delete", uuid)
        assert master.wait(master.submit(delay())).status == "success"

    @pytest.mark.parametrize("action", ["PAUSE", "REJECT"])
    def test_running_jobs_are_left_alone(self, master, action):
        running = endless(master)
        gnt_filter(master, "add", ABOUT_DELAYS, f"--action={action}")
        other_jobs_go_by(master)
        assert status(master, running) == "running"
        restart_luxid(master)
        other_jobs_go_by(master)
        assert status(master, running) == "running" and master.job_pids()

    def test_an_accept_that_comes_first_lets_jobs_through(self, master):
        gnt_filter(master, "add", "--priority=2", "--action=PAUSE")
        gnt_filter(master, "add", "--priority=1", ABOUT_DELAYS, "--action=ACCEPT")
        kept = master.submit(UNTOUCHED)
        assert master.wait(master.submit(delay())).status == "success"
        assert status(master, kept) == "queued"

    def test_a_rate_limit_lets_so_many_run_at_a_time(self, master):
        uuid = gnt_filter(master, "add", ABOUT_DELAYS, "--action=RATE_LIMIT 1")
        one = [master.wait(job_id) for job_id in submit_all(master, [delay(0.1)] * 4)]
        assert [file.status for file in one] == ["success"] * 4 and most_at_once(one) == 1
        gnt_filter(master, "replace", ABOUT_DELAYS, "--action=RATE_LIMIT 2", uuid)
        kept = [endless(master), endless(master)]
        more = master.submit(delay())
        other_jobs_go_by(master)
        assert status(master, more) == "queued"
        files = [end(master, kept[0]), master.wait(more), end(master, kept[1])]
        assert files[1].status == "success" and most_at_once(files) == 2

    def test_who_runs_already_counts_for_the_limit_after_a_restart_too(self, master):
        running = endless(master)
        gnt_filter(master, "add", ABOUT_DELAYS, "--action=RATE_LIMIT 1")
        waiting = master.submit(delay())
        for _ in range(2):
            other_jobs_go_by(master)
            assert status(master, waiting) == "queued"
            restart_luxid(master)
        assert most_at_once([end(master, running), master.wait(waiting)]) == 1

    def test_deleting_a_rate_limit_releases_who_waits(self, master):
        uuid = gnt_filter(master, "add", ABOUT_DELAYS, "--action=RATE_LIMIT 1")
        first = endless(master)
        others = submit_all(master, [delay(), delay()])
        other_jobs_go_by(master)
        assert [status(master, job_id) for job_id in others] == ["queued", "queued"]
        gnt_filter(master, "delete", uuid)
        assert [master.wait(job_id).status for job_id in others] == ["success", "success"]
        assert status(master, first) == "running"

    def test_a_reason_limits_the_jobs_of_its_key(self, master):
        first = endless(master, "rate-limit:1:backup")
        same, other = submit_all(master, [delay(0.01, f"rate-limit:1:{key}") for key in ("backup", "restore")])
        assert master.wait(other).status == "success"
        assert status(master, same) == "queued"
        restart_luxid(master)
        other_jobs_go_by(master)
        assert status(master, same) == "queued"
        files = [end(master, first), master.wait(same)]
        assert files[1].status == "success" and most_at_once(files) == 1
