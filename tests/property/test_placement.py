# SPDX-License-Identifier: BSD-2-Clause
"""Laws of placement over random allocator messages: no answer breaks a rule, and every other node has a reason."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganeti.placement.definition import score as definition
from ganeti.placement.dispatch import place
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.reading import read_cluster, read_request
from ganeti.placement.request.terms import Allocate, NoFit, Options, Placement, Relocate


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


@pytest.mark.requirement("S5.31")
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
    promise = replace(request.instance, name="promised", primary=nodes[0], secondary=nodes[1])
    promised, expected = ClusterState(replace(cluster, promised=[promise])), ClusterState(cluster)
    expected.add_instance(
        replace(request.instance, name="promised"), *(promised.node_number[name] for name in first.nodes)
    )
    for node in promised.everyone():
        assert repr(definition.metrics_of(promised.view(node))) == repr(definition.metrics_of(expected.view(node)))
    second = place(cluster, request, reservations=[promise], options=Options(capacity_checks=False))
    assert second == place(replace(cluster, promised=[promise]), request, options=Options(capacity_checks=False))


@pytest.mark.parametrize("kind", messages.KINDS)
def test_the_same_question_has_the_same_answer(kind: str) -> None:
    found = message(7, kind, "allocate")
    answers = [place(read_cluster(found), read_request(found["request"])) for _ in range(2)]
    assert answers[0] == answers[1]
