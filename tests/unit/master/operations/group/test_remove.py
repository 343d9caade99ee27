# SPDX-License-Identifier: BSD-2-Clause
"""OP_GROUP_REMOVE."""

from __future__ import annotations

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operation import decode
from ganeti.master.operations.group.remove import RemoveEmptyGroup
from ganeti.model.objects import NodeGroup


@pytest.fixture
def ctx() -> FakeContext:
    config = configuration()
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    return FakeContext(config, catalogue())


def remove(ctx: FakeContext, name: str) -> None:
    run(decode({"OP_ID": RemoveEmptyGroup.op_id, "group_name": name}), ctx)


def test_an_empty_group_is_removed(ctx: FakeContext) -> None:
    remove(ctx, "green")
    assert [group.name for group in ctx.config.view().groups()] == ["default"]


def test_a_group_with_nodes_stays(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match=r"'default' has nodes: .*gnt-group assign-nodes"):
        remove(ctx, "default")


def test_the_last_group_stays() -> None:
    config = configuration()
    for kind in ("instances", "disks", "nodes"):
        for uuid in list(config.uuids(kind)):
            config.remove(kind, uuid)
    with pytest.raises(PrerequisiteError, match="is the only one"):
        remove(FakeContext(config, catalogue()), "default")


def test_an_unknown_group_is_told(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="'red' not known"):
        remove(ctx, "red")
