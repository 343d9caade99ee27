# SPDX-License-Identifier: BSD-2-Clause
"""The test of the test: each rule broken on purpose is found by its plan, which is clean while the rule is kept."""

import ast
import importlib
import inspect
import re
from operator import attrgetter
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


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_what_is_replaced_exists(name):
    """A name that went away would be set all the same, and break nothing."""
    for path, modules in _replaced(MUTATIONS[name]).items():
        assert any(_has(module, path) for module in modules), f"{path} is in none of {', '.join(modules)}"


def _replaced(mutation):
    """Paths of attributes that a mutation sets, by the modules it is applied to."""
    replaced = {}
    for module, patch in mutation.patches.items():
        assignments = list(_assignments(ast.parse(inspect.getsource(patch)).body[0]))
        aliases = {node.targets[0].id: node.value for node in assignments if isinstance(node.targets[0], ast.Name)}
        for node in assignments:
            if isinstance(node.targets[0], ast.Attribute):
                path = _path(node.targets[0], aliases)
                replaced.setdefault(path, []).append(module)
    return replaced


def _assignments(node):
    """Those of a patch itself: what its inner functions assign is set later, on instances."""
    for statement in [*node.body, *getattr(node, "orelse", [])]:
        if isinstance(statement, ast.If):
            yield from _assignments(statement)
        elif isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Tuple):
            yield statement


def _path(node, aliases):
    owner = node.value
    if isinstance(owner, ast.Attribute):
        return f"{_path(owner, aliases)}.{node.attr}"
    if owner.id == "module":
        return node.attr
    return f"{_path(aliases[owner.id], aliases)}.{node.attr}"


def _has(module, path):
    try:
        attrgetter(path)(importlib.import_module(module))
    except AttributeError:
        return False
    return True


def test_there_is_a_plan_and_a_line_in_the_table_for_each():
    assert [path.stem for path in FILES] == sorted(MUTATIONS)
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", TABLE.read_text(), re.MULTILINE)) == sorted(MUTATIONS)
