# SPDX-License-Identifier: BSD-2-Clause
"""The test of the test: each rule broken on purpose is found by its plan, which is clean while the rule is kept."""

import re
from pathlib import Path

import pytest

from ganeti_simulation.facades.mutations import MUTATIONS

PLANS = Path(__file__).parent / "mutations"
FILES = sorted(PLANS.glob("*.plan"))
_OTHER_SEEDS = 20
_AT_ONCE = 4
TABLE = Path(__file__).parents[2] / "docs" / "simulator.md"


@pytest.fixture(scope="module")
def unbroken(compared):
    return compared(FILES)


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_broken_rule_is_found(simulate, name, tmp_path):
    ran = simulate("--check", "--mutation", name, "--plan", PLANS / f"{name}.plan")
    plans = _with_other_seeds(name, tmp_path)
    while (
        ran.status == 0 and plans
    ):  # other code draws other delays: the plan must show it with one of a few seeds then
        ran = simulate("--check", "--mutation", name, "--plan", *plans[:_AT_ONCE])
        del plans[:_AT_ONCE]
    assert ran.status == 1, ran
    assert "VIOLATION" in ran.out, ran
    assert "the simulation itself" not in ran.out, ran


def _with_other_seeds(name, directory):
    text = (PLANS / f"{name}.plan").read_text()
    plans = [directory / f"{name}-{seed}.plan" for seed in range(1, _OTHER_SEEDS + 1)]
    for seed, plan in enumerate(plans, 1):
        plan.write_text(re.sub(r"^seed .*$", f"seed {seed}", text, flags=re.MULTILINE))
    return plans


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_plan_is_clean_while_the_rule_is_kept(unbroken, path):
    assert unbroken.faults_of(path) == []


def test_there_is_a_plan_and_a_line_in_the_table_for_each():
    assert [path.stem for path in FILES] == sorted(MUTATIONS)
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", TABLE.read_text(), re.MULTILINE)) == sorted(MUTATIONS)
