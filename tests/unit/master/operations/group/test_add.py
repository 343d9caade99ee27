# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_ADD."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.group.add import AddGroup, MakeGroup
from ganeti.model.configuration import Draft
from ganeti.model.objects import NodeGroup


@pytest.fixture
def ctx() -> FakeContext:
    return FakeContext(configuration(), catalogue())


def add(ctx: FakeContext, name: str, **parameters: Any) -> None:
    run(decode({"OP_ID": MakeGroup.op_id, "group_name": name, **parameters}), ctx)


def test_a_group_is_made_without_nodes(ctx: FakeContext) -> None:
    add(ctx, "green")
    add(ctx, "blue", alloc_policy="unallocable")
    groups = {group.name: group for group in ctx.config.view().groups()}
    assert (groups["green"].alloc_policy, groups["blue"].alloc_policy) == ("preferred", "unallocable")
    assert not [node for node in ctx.config.view().nodes() if node.group in (groups["green"].uuid, groups["blue"].uuid)]


def test_what_the_group_hands_down_is_kept(ctx: FakeContext) -> None:
    add(
        ctx,
        "green",
        ndparams={"spindle_count": "2"},
        hv_state={"pretend": {"cpu_node": 1}},
        diskparams={"local": {}},
        ipolicy={"spindle-ratio": 8.0, "vcpu-ratio": "default"},
    )
    group = ctx.config.view().find_group("green")
    assert (group.ndparams, group.ipolicy) == ({"spindle_count": 2}, {"spindle-ratio": 8.0})
    assert (group.hv_state_static, group.disk_state_static) == ({"pretend": {"cpu_node": 1}}, None)
    with pytest.raises(PrerequisiteError, match="Unknown node parameter 'moon'"):
        add(ctx, "blue", ndparams={"moon": 1})


@pytest.mark.requirement("S1.66")
def test_a_new_group_may_be_counted_in_its_own_way(ctx: FakeContext) -> None:
    add(ctx, "green", capacity_params={"max_cpu_ratio": 2, "default_template": "local"})
    assert ctx.config.view().find_group("green").to_plain()["capacity_params"] == {
        "max_cpu_ratio": 2.0,
        "default_template": "local",
    }
    add(ctx, "blue")
    assert "capacity_params" not in ctx.config.view().find_group("blue").to_plain()
    with pytest.raises(PrerequisiteError, match="'paper' is not enabled"):
        add(ctx, "red", capacity_params={"default_template": "paper"})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("default", "'default' already"),
        ("1b1d1b1d-1b1d-1b1d-1b1d-1b1d1b1d1b1d", "looks like a UUID"),
        ("", "must not be empty"),
        ("x y", r"A node group cannot be called 'x y': use no spaces and none of the signs , / \|"),
        ("two\nlines", "control character"),
        ("x" * 300, "too long"),
    ],
)
def test_a_name_that_cannot_be_is_refused(ctx: FakeContext, name: str, words: str) -> None:
    before = ctx.config.view().groups()
    with pytest.raises(PrerequisiteError, match=words):
        add(ctx, name)
    assert ctx.config.view().groups() == before


def test_a_name_that_was_given_meanwhile_is_refused(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="'default' already"):
        AddGroup(group=NodeGroup(uuid="x", name="default")).apply(Draft(ctx.config.view(), 1.0))


def test_nothing_but_a_policy_that_there_is(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="alloc_policy"):
        add(ctx, "green", alloc_policy="sometimes")
