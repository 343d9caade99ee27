# SPDX-License-Identifier: BSD-2-Clause
"""The state over the kernel: what it says of nodes equals the definition, and changes are taken back exactly."""

import ctypes
import math
import random

import pytest
from tests.fakes.cluster_drawing import KINDS, draw

from ganeti.placement.definition import score as definition
from ganeti.placement.kernel import calls as kernel
from ganeti.placement.kernel.state import NOWHERE, ClusterState


def metrics(state: ClusterState, node: int) -> tuple[float, ...]:
    room = (ctypes.c_double * kernel.METRICS)()
    kernel.library().kernel_metrics(state.handle, node, room)
    return tuple(room)


def assert_as_defined(state: ClusterState) -> None:
    for node in state.everyone():
        defined = definition.metrics_of(state.view(node))
        found = metrics(state, node)
        assert len(found) == len(defined) and all(map(alike, found, defined)), (state.name_of(node), found, defined)


def alike(one: float, other: float) -> bool:
    """What `pytest.approx` says, in a hundredth of its time."""
    return math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12) or (one != one and other != other)


def picture(state: ClusterState) -> list[object]:
    nodes = [
        (state.listed(node), state.listed(node, secondary=True), metrics(state, node)) for node in state.everyone()
    ]
    return [repr(nodes), repr(state.score(state.everyone())), list(state.primary_of), list(state.secondary_of)]


def wander(state: ClusterState, dice: random.Random, count: int) -> None:
    for _ in range(count):
        number = dice.randrange(len(state.instances))
        primary, secondary = dice.sample(state.everyone(), 2)
        state.move(number, primary, secondary if state.secondary_of[number] != NOWHERE else NOWHERE)


@pytest.mark.parametrize("kind", KINDS)
def test_moves_are_taken_back_whatever_the_nesting(kind: str) -> None:
    dice = random.Random(kind)
    for seed in range(4):
        cluster = draw(seed, kind).cluster
        state = ClusterState(cluster)
        if not state.instances or len(state.nodes) < 2:
            continue
        assert_as_defined(state)
        marks, pictures = [], []
        for _ in range(30):
            action = dice.choice(("mark", "wander", "add", "rollback", "settle"))
            if action == "mark":
                marks.append(state.mark())
                pictures.append(picture(state))
            elif action == "wander":
                wander(state, dice, 3)
            elif action == "add" and marks:
                state.add_instance(dice.choice(cluster.instances), *dice.sample(state.everyone(), 2))
            elif action == "rollback" and marks:
                state.rollback(marks.pop())
                assert picture(state) == pictures.pop()
            elif action == "settle" and marks:
                state.settle(marks.pop())
                pictures.pop()
            assert_as_defined(state)
        while marks:
            state.rollback(marks.pop())
            assert picture(state) == pictures.pop()
