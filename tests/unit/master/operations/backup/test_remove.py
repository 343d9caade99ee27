# SPDX-License-Identifier: BSD-2-Clause
"""Removing exports: wherever they are kept, whether the instance is there or not."""

import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master.operations.backup.remove import RemoveExport


def context(**kept: list[str]) -> FakeContext:
    ctx = FakeContext(configuration(), catalogue())
    ctx.nodes.handlers["export_list"] = lambda name, **_: kept.get(name, [])
    ctx.nodes.handlers["export_remove"] = lambda node, /, **_: True
    return ctx


def test_every_node_that_keeps_one_is_asked_to_remove_it() -> None:
    ctx = context(node1=["gone.example.com"], node2=["other.example.com"], node3=["gone.example.com"])
    run(RemoveExport(instance_name="gone.example.com"), ctx)
    assert [line for line in ctx.story if line.endswith("export_remove")] == [
        "node1 export_remove",
        "node3 export_remove",
    ]


def test_nothing_found_is_said_and_so_is_a_node_that_is_silent() -> None:
    ctx = context()
    ctx.nodes.dead = {"node2"}
    run(RemoveExport(instance_name="gone.example.com"), ctx)
    assert "may be left on node node2" in ctx.lines[0]
    assert ctx.lines[1].startswith("No node keeps an export of gone.example.com")


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(PrerequisiteError, match="is not a valid instance name"):
        run(RemoveExport(instance_name="../x"), context())
