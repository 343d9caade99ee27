# SPDX-License-Identifier: BSD-2-Clause
"""Every scenario tells its story, and violates nothing.

Where a story has changed for a reason, `python -m ganeti_simulation --golden --plan FILE…` writes the new one: read it.
"""

from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[1] / "scenarios").glob("*.plan"))


@pytest.fixture(scope="module")
def all_compared(compared):
    return compared(FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_tells_its_story(all_compared, path):
    assert all_compared.faults_of(path) == []


def test_there_are_scenarios():
    assert len(FILES) >= 10


def test_a_scenario_that_tells_something_else_is_found(compared, tmp_path):
    text = next(path for path in FILES if path.stem == "graceful_failover").read_text()
    told = next(line for line in text.splitlines() if "is in-sync now" in line)
    changed = tmp_path / "changed.plan"
    changed.write_text(text.replace(told, told.replace("in-sync", "lost")))
    faults = compared([changed]).faults_of(changed)
    assert len(faults) == 2
    assert "no longer told" in faults[0] and "told now" in faults[1]


def test_a_story_is_written_and_then_holds(compared, simulate, tmp_path):
    plan = tmp_path / "one.plan"
    plan.write_text("# What it shows\nnodes 3\nseed 1\nfor 10\n2 user sets limit 9\n")
    assert simulate("--golden", "--plan", plan).status == 0
    text = plan.read_text()
    assert text.startswith("# What it shows\n") and "\n---\nuser sets limit 9\n" in text
    assert compared([plan]).faults_of(plan) == []
    simulate("--golden", "--plan", plan)
    assert plan.read_text() == text


def test_a_story_in_which_no_job_runs_any_more_is_not_written(simulate, tmp_path):
    """So it is where the simulator itself is broken: nothing is violated, as nothing happens."""
    plan = tmp_path / "one.plan"
    steps = "nodes 3\nseed 1\nfor 10\n1 node1 loses power\n2 user sets limit 9\n"
    told = "user sets limit 9\n  user: user sets limit 9: job 1 ended with success\n"
    plan.write_text(f"{steps}---\n{told}")
    ran = simulate("--golden", "--plan", plan)
    assert ran.status == 1, ran
    assert "no job runs any more" in ran.out and "1 of 1 scenarios failed" in ran.out
    assert plan.read_text() == f"{steps}---\n{told}"
    plan.write_text(steps)
    ran = simulate("--golden", "--plan", plan)
    assert ran.status == 0 and "1 written: read what has changed" in ran.out, ran
    assert "nobody takes jobs" in plan.read_text()
