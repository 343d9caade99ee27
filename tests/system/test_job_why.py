# SPDX-License-Identifier: BSD-2-Clause
"""What people are told about the queue, on real daemons: gnt-job why, change-priority, cancel, and gnt-debug locks."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fakes.master_daemons import HOST, Master, serving

from ganeti.wire.job_file import FINAL_STATUSES

pytestmark = pytest.mark.daemons
SLOTS = 4
COMMAND = "import sys; from ganeti.cli.main import run; sys.exit(run(sys.argv.pop(1)))"
RULE_PREDICATE = ["opcode", ["==", "OP_ID", "OP_TEST_DUMMY"]]


def delay(**more: object) -> dict[str, object]:
    """A job that runs until it is killed."""
    return {"OP_ID": "OP_TEST_DELAY", "duration": 600, **more}


def locking(**more: object) -> dict[str, object]:
    """The same, holding the node's lock alone."""
    return delay(no_locks=False, on_nodes=[HOST], **more)


@contextmanager
def small_cluster(root: Path) -> Iterator[Master]:
    master = Master(root)
    path = Path(master.paths.config_file)
    config = json.loads(path.read_text())
    config["cluster"]["max_running_jobs"] = SLOTS
    path.write_text(json.dumps(config))
    with serving(master):
        yield master


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    with small_cluster(tmp_path_factory.mktemp("cluster")) as master:
        yield master


@pytest.fixture
def master(daemons):
    """With an empty queue, before and after."""
    yield daemons
    for uuid in [row[0] for row in daemons.luxi("QueryFilters", None, ["uuid"])]:
        daemons.luxi("DeleteFilter", uuid)
    unfinished = [row[0] for row in daemons.luxi("QueryJobs", None, ["id", "status"]) if row[1] not in FINAL_STATUSES]
    for job_id in reversed(unfinished):
        daemons.raw_luxi("CancelJob", job_id, True)
    for job_id in unfinished:
        daemons.wait(job_id)


def gnt(master: Master, line: str, expect: int = 0) -> str:
    """Run a command; gives standard output, and standard error where it should fail."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *line.split()],
        env=master.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == expect, (line, done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr if expect else done.stdout


def why(master: Master, job_id: int) -> list[str]:
    return gnt(master, f"gnt-job why {job_id}").splitlines()


def running(master: Master, opcode: dict[str, object]) -> int:
    job_id = master.submit(opcode)
    master.until(lambda: status(master, job_id) == "running", f"job {job_id} runs")
    return job_id


def status(master: Master, job_id: int) -> str:
    return master.luxi("QueryJobs", [job_id], ["status"])[0][0]


def pending(master: Master) -> str:
    """Who waits for the node's lock, as gnt-debug locks shows it."""
    listing = gnt(master, "gnt-debug locks --no-headers --separator=| -o name,pending")
    return next((line.split("|")[1] for line in listing.splitlines() if line.startswith("node/")), "-")


def parked(master: Master, *opcodes: dict[str, object]) -> list[int]:
    """Submit jobs whose requests wait; each is there before the next comes."""
    jobs = []
    for opcode in opcodes:
        jobs.append(job_id := master.submit(opcode))
        master.until(lambda wanted=job_id: str(wanted) in waiting_jobs(master), f"job {job_id} waits")
    return jobs


def waiting_jobs(master: Master) -> set[str]:
    rows = master.luxi("Query", "lock", ["pending"], None)["data"]
    return {job for ((_, requests),) in rows for _, jobs in requests for job in jobs}


def held_by_one(master: Master) -> tuple[int, list[int]]:
    """A job that holds the node's lock, and three that wait for it, the last with a better priority."""
    holder = running(master, locking())
    return holder, parked(master, locking(), locking(), locking(priority=-10))


def test_a_running_job(master):
    job_id = running(master, delay())
    (line,) = why(master, job_id)
    assert line.startswith(f"Job {job_id} (TEST_DELAY(600") and "has been running for" in line


def test_who_holds_the_lock_and_who_goes_first(master):
    holder, (first, second, urgent) = held_by_one(master)
    told = why(master, second)
    assert told[0].startswith(f"Job {second} (TEST_DELAY(600")
    assert told[0].endswith(f"it waits to lock node {HOST} (exclusive).")
    assert told[1] == "  Its priority is normal (0)."
    assert told[2].startswith(f"  Node {HOST} has been locked exclusively for ")
    assert f"by job {holder} (TEST_DELAY(600" in told[2] and ", which has been running for" in told[2]
    assert told[3].startswith(f"  Ahead of it for node {HOST} is job {urgent} (")
    assert ", which has the better priority, high (-10), and has been queued for " in told[3]
    assert told[4].startswith(f"  Ahead of it for node {HOST} is job {first} (") and "which asked first" in told[4]
    assert len(told) == 5
    assert len(why(master, urgent)) == 3
    assert status(master, second) == "queued"


def test_locks_show_those_who_wait_in_their_order(master):
    holder, (first, second, urgent) = held_by_one(master)
    assert pending(master) == f"exclusive:{urgent},{first},{second}"
    row = next(line for line in gnt(master, "gnt-debug locks").splitlines() if line.startswith("node/"))
    assert row.split()[1:3] == ["exclusive", str(holder)]


def test_a_better_priority_takes_a_waiting_job_to_the_front(master):
    _, (first, second, urgent) = held_by_one(master)
    said = gnt(master, f"gnt-job change-priority --priority -15 {second}")
    assert said == f"Priorities of pending opcodes for job {second} have been changed to -15\n"
    master.until(lambda: pending(master) == f"exclusive:{second},{urgent},{first}", "the request has moved")
    told = why(master, second)
    assert told[1].startswith("  Its priority is -15; it was normal (0) when it was submitted, and has risen since")
    assert len(told) == 3
    assert gnt(master, "gnt-job list --no-headers -o priority " + str(second)).strip() == "-15"


def test_priorities_of_all_in_a_state(master):
    _, waiting = held_by_one(master)
    assert gnt(master, "gnt-job change-priority --force --priority low --queued").count("changed to 10\n") == 3
    assert master.luxi("QueryJobs", waiting, ["priority"]) == [[10], [10], [10]]


@pytest.mark.parametrize(
    ("words", "exit_status", "says"),
    [
        ("change-priority --priority high 99999", 1, "Job 99999 not found in queue"),
        ("change-priority --priority highest {job}", 2, "'highest' is not possible"),
        ("change-priority --priority 20 {job}", 2, "'20' is not possible"),
        ("change-priority {job}", 1, "needs --priority"),
        ("change-priority --priority high {job} web1", 1, "'web1' is not a job id"),
        ("change-priority --priority high --queued", 13, "give -f to go on"),
        ("cancel {job} 0", 1, "'0' is not a job id"),
        ("cancel 99999", 1, "Job 99999 not found in queue"),
        ("why 99999", 1, "Job ID 99999 not found"),
        ("why x", 1, "'x' is not a job id"),
        ("autoarchive soon", 1, "'soon' is not a time"),
    ],
)
def test_wrong_words(master, words, exit_status, says):
    job_id = master.submit(delay(depends=[[running(master, delay()), []]]))
    said = gnt(master, "gnt-job " + words.format(job=job_id), exit_status)
    assert says in said and said.count("\n") == 1
    assert master.luxi("QueryJobs", [job_id], ["priority", "status"]) == [[0, "queued"]]


@pytest.mark.parametrize("argument", ["x", 0, -1, None, 1.5, [], "9" * 30])
def test_the_call_with_what_is_no_job_id(master, argument):
    ok, error = master.raw_luxi("ExplainJob", argument)
    assert not ok and error[0] == "ParameterError"


def test_a_waiting_job_is_cancelled(master):
    _, (first, second, urgent) = held_by_one(master)
    assert gnt(master, f"gnt-job cancel {first}") == f"Dequeued job {first}\n"
    master.until(lambda: pending(master) == f"exclusive:{urgent},{second}", "its request is gone")
    (line,) = why(master, first)
    assert "was canceled" in line and line.endswith("ago: Job canceled by request.")


def test_dependencies(master):
    holder, (first, *_) = held_by_one(master)
    last = master.submit(delay(depends=[[first, ["success"]]]))
    told = why(master, last)
    assert told[0].endswith("it waits for other jobs to end.")
    assert told[2].startswith(f"  It goes on when this one has ended with success: job {first} (")
    assert told[3].startswith(f"    Node {HOST} has been locked exclusively for ")
    assert f"by job {holder} (" in told[3]


def test_a_job_that_gave_its_place_back_between_two_opcodes(master):
    holder = running(master, locking())
    job_id = master.submit({"OP_ID": "OP_TEST_DUMMY"}, locking())
    master.until(lambda: str(job_id) in waiting_jobs(master), "the second opcode waits")
    told = why(master, job_id)
    assert told[0].startswith(f"Job {job_id} (TEST_DELAY(600")
    assert told[0].endswith(f"it waits to lock node {HOST} (exclusive).")
    assert told[2].startswith("  It has done 1 of its 2 opcodes and gave its place and its locks back")
    assert f"by job {holder} (" in told[3]
    assert master.luxi("QueryJobs", [job_id], ["status", "opstatus"]) == [["queued", ["success", "queued"]]]


def test_a_new_priority_for_what_a_running_job_has_still_to_do(master):
    job_id = master.submit(delay(), delay())
    master.until(lambda: status(master, job_id) == "running", "it runs")
    gnt(master, f"gnt-job change-priority --priority high {job_id}")
    master.until(
        lambda: master.luxi("QueryJobs", [job_id], ["oppriority"]) in ([[[0, -10]]], [[[-10, -10]]]), "it has been told"
    )
    assert why(master, job_id)[0].split(" has been running ")[1].startswith("opcode 1 of 2 for ")


def test_all_slots_are_taken(master):
    taken = [running(master, delay()) for _ in range(SLOTS)]
    first, second = master.submit(delay()), master.submit(delay())
    told = why(master, second)
    assert told[0].endswith(f"waits for a slot, as {SLOTS} jobs have a process and {SLOTS} may; 1 job goes before it.")
    assert [line.split()[1] for line in told[2:]] == [str(job_id) for job_id in taken]
    assert why(master, first)[0].endswith("it is next.")


def test_a_filter_rule_pauses(master):
    uuid = master.luxi("ReplaceFilter", None, 0, [RULE_PREDICATE], "PAUSE", [])
    job_id = master.submit({"OP_ID": "OP_TEST_DUMMY"})
    master.until(lambda: "kept back" in why(master, job_id)[0], "the rule holds")
    told = why(master, job_id)
    assert uuid in told[2] and "PAUSE" in told[2]
    assert told[3] == '  The rule reads: PAUSE for jobs with ["opcode",["==","OP_ID","OP_TEST_DUMMY"]].'


def test_a_rate_limit(master):
    reason = [["gnt:user", "rate-limit:1:backup", 1]]
    user = running(master, delay(reason=reason))
    job_id = master.submit(delay(reason=reason))
    told = why(master, job_id)
    assert "kept back" in told[0]
    assert "at most 1 job with the key 'backup'" in told[2]
    assert told[3].startswith(f"  The limit of 1 is used up by job {user} (")


def test_jobs_that_have_ended(master):
    job_id = master.submit({"OP_ID": "OP_TEST_DUMMY"})
    master.wait(job_id)
    assert " ended with success " in why(master, job_id)[0]
    assert gnt(master, "gnt-job autoarchive all").endswith("0 unchecked left\n")
    assert " ended with success " in why(master, job_id)[0]
    Path(master.files.archive_path(job_id)).write_text("{")
    assert f"Job file {job_id} is damaged" in gnt(master, f"gnt-job why {job_id}", 1)
    failed = master.submit({"OP_ID": "OP_TEST_DUMMY", "fail": True})
    master.wait(failed)
    assert " failed " in why(master, failed)[0]


def test_while_wconfd_is_away(tmp_path):
    with small_cluster(tmp_path / "cluster") as master:
        holder, (first, *_) = held_by_one(master)
        dependent = master.submit(delay(depends=[[first, []]]))
        master.kill("wconfd")
        told = why(master, dependent)
        assert told[2].endswith(f"ganeti-wconfd does not answer; the last in its way was job {holder}.")
        assert len(told) == 3
        master.start("wconfd")
        assert f"by job {holder} (" in why(master, first)[2]


def test_a_thousand_waiting_jobs_stay_readable(tmp_path):
    with small_cluster(tmp_path / "cluster") as master:
        look_at_a_thousand(master)


def look_at_a_thousand(master: Master) -> None:
    holder = running(master, locking())
    answers = master.luxi("SubmitManyJobs", [[locking()] for _ in range(1000)])
    jobs = [job_id for _, job_id in answers]
    master.until(lambda: len(waiting_jobs(master)) >= 1000, "all wait", 60.0)
    began_s = time.monotonic()
    assert pending(master) == "exclusive:" + ",".join(map(str, jobs))
    told = why(master, jobs[-1])
    assert time.monotonic() - began_s < 3.0
    assert f"by job {holder} (" in told[2]
    assert told[-1] == "  There are 994 more requests ahead of it: see 'gnt-debug locks'."
    assert len(told) < 12
