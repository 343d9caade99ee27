# SPDX-License-Identifier: BSD-2-Clause
"""A job is killed at its recorded steps of create, migrate, failover and remove: afterwards it is done, or clean.

At every third of them, beginning where a seed says, and of other changes (`killed_changes.py`) at one; at all of both
with GANETI_CAMPAIGN. Other changes that were not made are asked for again, and are made.

Jobs are made to stop themselves at each of their steps (`system/pause_points.py`); the test lets them go on until the
step it wants and kills there. What a successor does is let through, or, with GANETI_CAMPAIGN, killed once as well.
"""

from __future__ import annotations

import itertools
import json
import os
import random

import pytest
from tests.system import killed_changes
from tests.system.fake_bed import MASTER, FakeBed
from tests.system.killed_changes import CASES, Case
from tests.system.killing import (
    ADD,
    NAME,
    all_ended,
    finish,
    finish_all,
    have_no_instance,
    have_running_instance,
    kill_at,
    kill_one_at,
    make_jobs_stop,
)

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
CAMPAIGN = bool(os.environ.get("GANETI_CAMPAIGN"))
EVERY = 1 if CAMPAIGN else 3
SAMPLES = 1
SEED = 2026
LEAST_STEPS = 8
"""Each of the four operations is known to have as many."""


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory):
    layout = bed.up(tmp_path_factory.mktemp("kills").resolve(), 3, "fake", watcher_interval_s=3600)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        make_jobs_stop(found)
        yield found
    finally:
        bed.down(layout)


def check_words(bed: FakeBed, job: int, before: set[str]) -> None:
    """What the result of a job that died says is so."""
    told = str(json.loads((bed.data(MASTER) / f"queue/job-{job}").read_text())["ops"][0]["result"])

    def there() -> set[str]:
        return {instance["name"] for instance in bed.config()["instances"].values()}

    if "is there" in told:
        bed.wait(lambda: bool(there()), f"config.data is published as the result says: {told}")
    if "there is no instance" in told:
        bed.wait(lambda: not there(), f"config.data is published as the result says: {told}")
    if "nothing to undo" in told or "changed nothing" in told or "; its steps were undone" in told:
        assert there() == before, told


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
def test_killed_at_its_steps(fake_bed, words, prepare):
    first, outcomes = random.Random(f"{SEED} {words[1]}").randint(1, EVERY), []
    for stop in itertools.count(first, EVERY):
        prepare(fake_bed)
        fake_bed.check()
        before = fake_bed.config()["instances"]
        job = fake_bed.submit(*words)
        if not kill_at(fake_bed, job, stop):
            break
        if CAMPAIGN:
            kill_at(fake_bed, job, 2)
        status = finish(fake_bed, job)
        outcomes.append(status)
        check_words(fake_bed, job, {instance["name"] for instance in before.values()})
        fake_bed.check()
        if words[1] in ("migrate", "failover"):
            assert set(fake_bed.config()["instances"]) == set(before), "the instance was lost"
    assert stop - EVERY >= LEAST_STEPS, "the job has fewer steps than it is known to have"
    assert set(outcomes) <= {"error", "success"}
    assert "error" in outcomes
    assert fake_bed.run("tail", "-n", "1", "/var/log/ganeti/luxi-daemon.log", node=MASTER)


def check_change(bed: FakeBed, case: Case, *, made: bool) -> None:
    """Nothing is half made, locked or left over, and `gnt-cluster verify` finds nothing."""
    bed.check()
    killed_changes.check_leftovers(bed, may_be_larger=case.may_be_larger and not made)
    killed_changes.verify(bed)


def killed_once(bed: FakeBed, case: Case, stop: int) -> bool:
    """One killed change, and what must hold afterwards; False when the job had ended before."""
    case.prepare(bed)
    before = killed_changes.state(bed)
    job = bed.submit(*case.words(bed))
    killed = kill_one_at(bed, job, stop)
    if killed and CAMPAIGN and not all_ended(bed, job):
        kill_one_at(bed, job, 2)
    finish_all(bed, job)
    now = killed_changes.state(bed)
    made = now != before and case.is_made(before, now)
    assert made or now == before, f"half made at stop {stop}: {before} has become {now}"
    if made or not case.lacks_files:
        check_change(bed, case, made=made)
    if not made:
        again = bed.submit(*case.words(bed))
        finish_all(bed, again)
        assert bed.job_status(again) == "success", f"stop {stop}: the second try failed"
        now = killed_changes.state(bed)
        assert now == before if case.is_no_change else case.is_made(before, now), (stop, before, now)
        check_change(bed, case, made=True)
    return killed


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_killed_changes(fake_bed, case):
    if CAMPAIGN:
        stop = 1
        while killed_once(fake_bed, case, stop):
            stop += 1
        assert stop >= case.stops, "the job has fewer steps than it is known to have"
    else:
        stops = random.Random(f"{SEED} {case.name}").sample(range(1, case.stops + 1), SAMPLES)
        assert all([killed_once(fake_bed, case, stop) for stop in stops]), stops
    case.put_away(fake_bed)
