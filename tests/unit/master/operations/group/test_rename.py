# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_RENAME."""

from __future__ import annotations

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.group.rename import GiveGroupAnotherName
from ganeti.model.objects import NodeGroup


@pytest.fixture
def ctx() -> FakeContext:
    config = configuration()
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    return FakeContext(config, catalogue())


def rename(ctx: FakeContext, old: str, new: str) -> str:
    name: str = run(decode({"OP_ID": GiveGroupAnotherName.op_id, "group_name": old, "new_name": new}), ctx)
    return name


@pytest.mark.parametrize("old", ["green", "uuid-green"])
def test_only_its_name_changes(ctx: FakeContext, old: str) -> None:
    nodes = ctx.config.view().nodes()
    assert rename(ctx, old, "blue") == "blue"
    assert {group.uuid: group.name for group in ctx.config.view().groups()}["uuid-green"] == "blue"
    assert ctx.config.view().nodes() == nodes


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("green", "default", "'default' already"),
        ("green", "green", "'green' already"),
        ("red", "blue", "'red' not known"),
        ("green", "1b1d1b1d-1b1d-1b1d-1b1d-1b1d1b1d1b1d", "looks like a UUID"),
    ],
)
def test_what_cannot_be_is_refused(ctx: FakeContext, old: str, new: str, words: str) -> None:
    before = ctx.config.view().groups()
    with pytest.raises(PrerequisiteError, match=words):
        rename(ctx, old, new)
    assert ctx.config.view().groups() == before


def test_hooks_run_on_its_nodes(ctx: FakeContext) -> None:
    view = ctx.config.view()
    operation = decode({"OP_ID": GiveGroupAnotherName.op_id, "group_name": "default", "new_name": "blue"})
    hooks = operation.hooks(view, operation.check(view, None, ctx))
    assert hooks is not None
    assert hooks.env == {"OLD_NAME": "default", "NEW_NAME": "blue"}
    assert set(hooks.post_nodes) == {
        node.uuid for node in view.nodes() if node.group == view.find_group("default").uuid
    }
