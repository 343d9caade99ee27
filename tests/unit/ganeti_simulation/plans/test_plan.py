# SPDX-License-Identifier: BSD-2-Clause
"""Plans as text."""

import pytest

from ganeti_simulation.plans.drawing import draw_plan
from ganeti_simulation.plans.plan import Plan, PlanError, Step, parse


def test_a_plan_is_read():
    plan = parse(
        "# why\nnodes 5\ncandidates 4\nseed 7\nfor 12.5\n\n3 node1 loses power  # here\n4.25 user removes one\n"
    )
    assert plan == Plan(5, 7, 12.5, (Step(3.0, "node1 loses power"), Step(4.25, "user removes one")), 4)


@pytest.mark.parametrize("seed", range(1, 60))
def test_a_drawn_plan_is_read_as_it_was_written(seed):
    for nodes in (2, 3, 7):
        plan = draw_plan(seed, nodes)
        assert parse(str(plan)) == plan
        assert draw_plan(seed, nodes) == plan


def test_some_clusters_have_a_node_without_a_copy():
    assert {plan.candidates for plan in (draw_plan(seed, 5) for seed in range(60))} == {None, 4}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nodes x", "line 1: 'nodes x': nodes needs a number from 1 to 20"),
        ("seed 1\nfor nan", "line 2: 'for nan': for needs a number from 1 to 86400"),
        ("node1 loses power", "line 1: 'node1 loses power': write a second and what happens then"),
        ("nodes 2\ncandidates 3", "3 candidates are more than 2 nodes"),
    ],
)
def test_what_is_no_plan_is_named(text, sentence):
    with pytest.raises(PlanError) as caught:
        parse(text)
    assert str(caught.value) == sentence


def test_steps_are_left_out_by_their_place():
    plan = parse("1 a\n2 b\n3 c\n4 d\n")
    assert [step.what for step in plan.without(range(1, 3)).steps] == ["a", "d"]
