# SPDX-License-Identifier: BSD-2-Clause
"""Laws of placement over random clusters: arrays mean what the definition says, and no answer breaks a rule."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti.placement import checks, definition
from ganeti.placement.moves import any_targets, secondary_targets
from ganeti.placement.numpy_state import NOWHERE, ClusterState
from ganeti.placement.reading import read_cluster, read_request
from ganeti.placement.request import Allocate, NoFit, Options, Placement, Relocate, place
from ganeti.placement.score import score_of
from ganeti.placement.templates import traits_of
from ganeti.placement.trial import try_primary, try_secondary


def _generator() -> ModuleType:
    path = Path(__file__).parents[1] / "golden" / "iallocator" / "random_messages.py"
    spec = importlib.util.spec_from_file_location("random_messages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


messages = _generator()
SEEDS = st.integers(min_value=0, max_value=10**6)
KINDS = st.sampled_from(messages.KINDS)
FEW = settings(max_examples=25, deadline=None, derandomize=True)


def message(seed: int, kind: str, request: str, template: str = "") -> dict[str, Any]:
    found: dict[str, Any] = messages.build(seed, kind, request, template)
    return found


def allocation(seed: int, kind: str) -> tuple[ClusterState, Allocate]:
    found = message(seed, kind, "allocate")
    request = read_request(found["request"])
    assert isinstance(request, Allocate)
    return ClusterState(read_cluster(found)), request


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_array_score_is_the_defined_score(seed: int, kind: str) -> None:
    state, _ = allocation(seed, kind)
    views = [state.view(node) for node in range(len(state.nodes))]
    assert score_of(state, state.everyone()) == definition.score(views)


@FEW
@given(seed=SEEDS, kind=KINDS, forced=st.booleans())
def test_vector_checks_of_a_primary_are_the_defined_checks(seed: int, kind: str, forced: bool) -> None:
    state, request = allocation(seed, kind)
    trial = try_primary(state, request.instance, forced=forced)
    for node in range(len(state.nodes)):
        refusal = checks.refuse_primary(state.view(node), request.instance, forced=forced)
        assert trial.failures[node] == (refusal.mode if refusal else 0)


@FEW
@given(seed=SEEDS, kind=KINDS, forced=st.booleans())
def test_vector_checks_of_a_secondary_are_the_defined_checks(seed: int, kind: str, forced: bool) -> None:
    state, request = allocation(seed, kind)
    trial = try_secondary(state, request.instance, 0, forced=forced)
    for node in range(1, len(state.nodes)):
        refusal = checks.refuse_secondary(state.view(node), request.instance, 0, forced=forced)
        assert trial.failures[node] == (refusal.mode if refusal else 0)


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_tried_metrics_are_those_after_the_move(seed: int, kind: str) -> None:
    state, request = allocation(seed, kind)
    trial = try_primary(state, request.instance)
    for node in range(len(state.nodes)):
        after = state.with_instance(request.instance, node)
        np.testing.assert_array_equal(trial.metrics[:, node], after.metrics[:, node])


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_target_scores_are_those_after_the_move(seed: int, kind: str) -> None:
    state, _ = allocation(seed, kind)
    for number, instance in enumerate(state.instances):
        traits = traits_of(instance.template)
        assert traits is not None
        members = state.group_members(int(state.group_of[state.primary_of[number]]))
        make = secondary_targets if traits.has_secondary else any_targets
        hop = make(state, number, members.tolist())
        scores = hop.scores(members)
        for target, score in zip(hop.targets.tolist(), scores.tolist(), strict=True):
            after = [hop.state_on(target).view(node) for node in members.tolist()]
            assert score == definition.score(after)


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_moving_there_and_back_changes_nothing(seed: int, kind: str) -> None:
    state, _ = allocation(seed, kind)
    before = (state.columns.copy(), state.metrics.copy())
    for number in range(len(state.instances)):
        primary, secondary = state.primary_of[number], state.secondary_of[number]
        state.move(number, NOWHERE)
        state.move(number, primary, secondary)
    np.testing.assert_array_equal(state.columns, before[0])
    np.testing.assert_array_equal(state.metrics, before[1])


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_an_allocation_is_legal_and_every_other_node_has_a_reason(seed: int, kind: str) -> None:
    found = message(seed, kind, "allocate")
    request = read_request(found["request"])
    assert isinstance(request, Allocate)
    answer = place(read_cluster(found), request, options=Options(capacity_checks=False))
    assert isinstance(answer, Placement | NoFit)
    chosen = answer.nodes if isinstance(answer, Placement) else ()
    assert {refusal.node for refusal in answer.refusals} == set(found["nodes"]) - set(chosen)
    for name in chosen:
        node = found["nodes"][name]
        assert not node["offline"] and not node["drained"]
        assert found["nodegroups"][node["group"]]["name"] == answer.group
    if isinstance(answer, Placement):
        assert len(set(chosen)) == request.required_nodes
        assert request.group or found["nodegroups"][node["group"]]["alloc_policy"] != "unallocable"


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_what_fits_nowhere_fits_no_node(seed: int, kind: str) -> None:
    """Brute force: a refused allocation of one node is refused by the definition everywhere it may go."""
    state, request = allocation(seed, kind)
    found = message(seed, kind, "allocate")
    answer = place(read_cluster(found), request, options=Options(capacity_checks=False))
    if request.required_nodes != 1 or not isinstance(answer, NoFit) or request.group:
        return
    for number, node in enumerate(state.nodes):
        group = state.groups[int(state.group_of[number])]
        if node.unavailable or group.alloc_policy == "unallocable":
            continue
        assert next(r.mode for r in answer.refusals if r.node == node.name) is not None


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_a_relocation_leaves_the_node_and_stays_in_the_group(seed: int, kind: str) -> None:
    found = message(seed, kind, "relocate")
    request = read_request(found["request"])
    assert isinstance(request, Relocate)
    if request.name not in found["instances"]:
        return
    answer = place(read_cluster(found), request)
    if isinstance(answer, Placement):
        old = found["instances"][request.name]["nodes"]
        assert answer.nodes[0] not in old
        assert found["nodes"][answer.nodes[0]]["group"] == found["nodes"][old[0]]["group"]


@FEW
@given(seed=SEEDS, kind=KINDS)
def test_a_reservation_counts_like_its_instance(seed: int, kind: str) -> None:
    found = message(seed, kind, "allocate")
    cluster, request = read_cluster(found), read_request(found["request"])
    assert isinstance(request, Allocate)
    first = place(cluster, request, options=Options(capacity_checks=False))
    if not isinstance(first, Placement):
        return
    nodes = (*first.nodes, "")
    from dataclasses import replace

    promise = replace(request.instance, name="promised", primary=nodes[0], secondary=nodes[1])
    promised = ClusterState(replace(cluster, promised=[promise]))
    expected = ClusterState(cluster).with_instance(
        replace(request.instance, name="promised"), *(promised.node_number[name] for name in first.nodes)
    )
    np.testing.assert_array_equal(promised.columns, expected.columns)
    second = place(cluster, request, reservations=[promise], options=Options(capacity_checks=False))
    assert second == place(replace(cluster, promised=[promise]), request, options=Options(capacity_checks=False))


@pytest.mark.parametrize("kind", messages.KINDS)
def test_the_same_question_has_the_same_answer(kind: str) -> None:
    found = message(7, kind, "allocate")
    answers = [place(read_cluster(found), read_request(found["request"])) for _ in range(2)]
    assert answers[0] == answers[1]
