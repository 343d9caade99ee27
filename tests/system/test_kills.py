# SPDX-License-Identifier: BSD-2-Clause
"""A job is killed at every recorded step of create, migrate, failover and remove: afterwards it is done, or clean.

Jobs are made to stop themselves at each of their steps (`runtime/pause_points.py`); the test lets them go on until the
step it wants and kills there. What a successor does is let through, or, with GANETI_CAMPAIGN, killed once as well.
"""

from __future__ import annotations

import os
import signal

import pytest
from tests.system.fake_bed import MASTER, FakeBed

from ganeti.tools.testbed import bed, cluster
from ganeti.wire.job_file import FINAL_STATUSES

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
STEPS = range(1, 60)
PAUSES = ",".join(
    ["job-before-locks", "job-after-locks", "job-before-end", "job-after-end"]
    + [f"job-{what}-{step}" for step in STEPS for what in ("step", "settling", "committed")]
)
NAME = "inst1"
ADD = ("gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=8m", "-o", "noop+default", NAME)


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory):
    layout = bed.up(tmp_path_factory.mktemp("kills").resolve(), 3, "fake", watcher_interval_s=3600)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        found.run("daemon-util", "stop", "ganeti-luxid")
        found.run("env", f"GANETI_PAUSE_AT={PAUSES}", "daemon-util", "start", "ganeti-luxid")
        yield found
    finally:
        bed.down(layout)


def finish(fake_bed: FakeBed, job: int) -> str:
    """Let a job and its successors go on to the end; gives its status."""

    def final() -> bool:
        fake_bed.let_go_on()
        return fake_bed.job_status(job) in FINAL_STATUSES and not list(fake_bed.stopped())

    fake_bed.wait(final, f"the end of job {job}, now {fake_bed.job_status(job)}")
    return fake_bed.job_status(job)


def carry_out(fake_bed: FakeBed, *words: str) -> None:
    assert finish(fake_bed, fake_bed.submit(*words)) == "success"


def next_stop(fake_bed: FakeBed, job: int) -> int | None:
    """Wait until a process has stopped itself; None when the job has ended instead."""
    found: list[int] = []

    def stopped_or_ended() -> bool:
        found[:] = list(fake_bed.stopped())
        return bool(found) or fake_bed.job_status(job) in FINAL_STATUSES

    fake_bed.wait(stopped_or_ended, f"the next stop of job {job}")
    return found[0] if found else None


def kill_at(fake_bed: FakeBed, job: int, stop: int) -> bool:
    """Let the job pass *stop* - 1 of its stops, and kill it at the next; False when it ended before."""
    for left in reversed(range(stop)):
        pid = next_stop(fake_bed, job)
        if pid is None:
            return False
        os.kill(pid, signal.SIGCONT if left else signal.SIGKILL)
    return True


def have_running_instance(fake_bed: FakeBed) -> None:
    instances = fake_bed.config()["instances"].values()
    if not instances:
        carry_out(fake_bed, *ADD)
    elif next(iter(instances))["admin_state"] != "up":
        carry_out(fake_bed, "gnt-instance", "startup", NAME)


def have_no_instance(fake_bed: FakeBed) -> None:
    if fake_bed.config()["instances"]:
        carry_out(fake_bed, "gnt-instance", "remove", "-f", NAME)


@pytest.mark.parametrize(
    ("words", "prepare"),
    [
        (ADD, have_no_instance),
        (("gnt-instance", "migrate", "-f", NAME), have_running_instance),
        (("gnt-instance", "failover", "-f", NAME), have_running_instance),
        (("gnt-instance", "remove", "-f", NAME), have_running_instance),
    ],
    ids=["add", "migrate", "failover", "remove"],
)
def test_killed_at_every_step(fake_bed, words, prepare):
    stop, outcomes = 0, []
    while True:
        stop += 1
        prepare(fake_bed)
        fake_bed.check()
        before = fake_bed.config()["instances"]
        job = fake_bed.submit(*words)
        if not kill_at(fake_bed, job, stop):
            break
        if os.environ.get("GANETI_CAMPAIGN"):
            kill_at(fake_bed, job, 2)
        status = finish(fake_bed, job)
        outcomes.append(status)
        fake_bed.check()
        if words[1] in ("migrate", "failover"):
            assert set(fake_bed.config()["instances"]) == set(before), "the instance was lost"
    assert stop > 8, "the job has fewer steps than it is known to have"
    assert set(outcomes) <= {"error", "success"}
    assert "error" in outcomes
    assert fake_bed.run("tail", "-n", "1", "/var/log/ganeti/luxi-daemon.log", node=MASTER)
