# SPDX-License-Identifier: BSD-2-Clause
"""Killing a job at a step: it stops itself at each (`system/pause_points.py`), and goes on until the one wanted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.system.fake_bed import MASTER, FakeBed

from ganeti.wire.job_file import FINAL_STATUSES

STEPS = range(1, 60)
PAUSES = ",".join(
    ["job-before-claim", "job-after-claim", "job-before-end", "job-after-end"]
    + [f"job-{what}-{step}" for step in STEPS for what in ("step", "settling", "committed")]
)
NAME = "inst1"
ADD = ("gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=8m", "-o", "noop+default", NAME)


def make_jobs_stop(bed: FakeBed) -> None:
    """From now on every job stops itself at every step."""
    bed.run("daemon-util", "stop", "ganeti-luxid")
    bed.run("env", f"GANETI_PAUSE_AT={PAUSES}", "daemon-util", "start", "ganeti-luxid")


def finish(bed: FakeBed, job: int) -> str:
    """Let a job and its successors go on to the end; gives its status."""

    def final() -> bool:
        bed.let_go_on()
        return bed.job_status(job) in FINAL_STATUSES and not list(bed.stopped())

    bed.wait(final, f"the end of job {job}, now {bed.job_status(job)}")
    return bed.job_status(job)


def carry_out(bed: FakeBed, *words: str) -> None:
    assert finish(bed, bed.submit(*words)) == "success"


def next_stop(bed: FakeBed, job: int) -> int | None:
    """Wait until a process has stopped itself; None when the job has ended instead."""
    found: list[int] = []

    def stopped_or_ended() -> bool:
        found[:] = list(bed.stopped())
        return bool(found) or bed.job_status(job) in FINAL_STATUSES

    bed.wait(stopped_or_ended, f"the next stop of job {job}")
    return found[0] if found else None


def all_ended(bed: FakeBed, job: int) -> bool:
    """Whether a job has ended, and all that were submitted since: its own among them."""
    numbers = [int(path.name.partition("-")[2]) for path in (bed.data(MASTER) / "queue").glob("job-*[0-9]")]
    return all(bed.job_status(number) in FINAL_STATUSES for number in numbers if number >= job)


def finish_all(bed: FakeBed, job: int) -> None:
    """Let a job, those it submits and their successors go on to the end."""

    def final() -> bool:
        bed.let_go_on()
        return all_ended(bed, job) and not list(bed.stopped())

    bed.wait(final, f"the end of job {job}, and of all since")


def kill_one_at(bed: FakeBed, job: int, stop: int) -> bool:
    """As `kill_at`, of the stops of a job and of those it submits; False when all have ended before."""
    return kill_nth(lambda: next_of_all(bed, job), stop)


def next_of_all(bed: FakeBed, job: int) -> int | None:
    """Wait until a process has stopped itself; None when the job, and all that were submitted since, have ended."""
    found: list[int] = []

    def stopped_or_ended() -> bool:
        found[:] = list(bed.stopped())[:1]
        return bool(found) or all_ended(bed, job)

    bed.wait(stopped_or_ended, f"the next stop of job {job} or of one it submits")
    return found[0] if found else None


def kill_at(bed: FakeBed, job: int, stop: int) -> bool:
    """Let the job pass *stop* - 1 of its stops, and kill it at the next; False when it ended before."""
    return kill_nth(lambda: next_stop(bed, job), stop)


def kill_nth(next_stopped: Callable[[], int | None], stop: int) -> bool:
    """Let *stop* - 1 stopped processes go on, and kill the next; False when there are not as many."""
    for left in reversed(range(stop)):
        pid = next_stopped()
        if pid is None:
            return False
        os.kill(pid, signal.SIGCONT if left else signal.SIGKILL)
    return True


def have_running_instance(bed: FakeBed, add: tuple[str, ...] = ADD) -> None:
    instances = bed.config()["instances"].values()
    if not instances:
        carry_out(bed, *add)
    elif next(iter(instances))["admin_state"] != "up":
        carry_out(bed, "gnt-instance", "startup", NAME)


def have_no_instance(bed: FakeBed) -> None:
    if bed.config()["instances"]:
        carry_out(bed, "gnt-instance", "remove", "-f", "--shutdown-timeout=0", NAME)
