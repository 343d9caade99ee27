# SPDX-License-Identifier: BSD-2-Clause
"""`OP_INSTANCE_QUERY_DATA`: few calls for many instances, and what is told where a node or a disk does not answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import NodeUnreachableError
from ganeti.master.operations.instance.query_data import QueryInstanceData
from ganeti.model.node_calls.disks import DiskStatus, FoundDisk

NAMES = [f"web{number}" for number in range(1, 6)]


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    for name in NAMES:
        add_instance(context.config.view(), name)
    context.nodes.handlers["all_instances_info"] = lambda node, hypervisors: [guest("web2")]
    context.nodes.handlers["instance_info"] = lambda node, instance: None
    context.nodes.handlers["blockdev_find_each"] = looked
    return context


def looked(node: str, disks: list[Any], **faults: str) -> list[FoundDisk]:
    return [FoundDisk(status=DiskStatus(dev_path=f"/dev/{disk.index}")) for disk in disks]


def data(ctx: FakeContext, *names: str, **parameters: Any) -> dict[str, Any]:
    found: dict[str, Any] = run(QueryInstanceData(instances=list(names), **parameters), ctx)
    return found


def test_many_instances_of_a_node_are_two_calls(ctx: FakeContext) -> None:
    found = data(ctx)
    assert {name: one["run_state"] for name, one in found.items()} == dict.fromkeys(NAMES, "down") | {"web2": "up"}
    assert [one["disks"][0]["pstatus"][0] for one in found.values()] == ["/dev/0"] * len(NAMES)
    assert sorted(ctx.story) == ["node1 all_instances_info", "node1 blockdev_find_each"]


def test_what_is_marked_offline_and_does_not_run_is_offline(ctx: FakeContext) -> None:
    config = ctx.config.view()
    for name in ("web1", "web2"):
        instance = config.find_instance(name)
        config.put("instances", instance.uuid, msgspec.structs.replace(instance, admin_state="offline"))
    found = data(ctx)
    assert (found["web1"]["run_state"], found["web2"]["run_state"]) == ("offline", "up")


def test_few_are_asked_for_by_name(ctx: FakeContext) -> None:
    assert list(data(ctx, "web3")) == ["web3"]
    assert sorted(ctx.story) == ["node1 blockdev_find_each", "node1 instance_info"]


def test_a_disk_that_cannot_be_looked_at_is_that_of_its_instance_alone(ctx: FakeContext) -> None:
    def answer(node: str, disks: list[Any]) -> list[FoundDisk]:
        return [FoundDisk(fault="provider x is not there"), *looked(node, disks[1:])]

    ctx.nodes.handlers["blockdev_find_each"] = answer
    found = data(ctx)
    assert (found["web1"]["disks"][0]["pstatus"], found["web1"]["run_state"]) == (None, "down")
    assert found["web2"]["run_state"] == "up"
    assert ctx.lines == ["No live data of the disks of web1: provider x is not there"]


def test_a_node_that_does_not_answer(ctx: FakeContext) -> None:
    ctx.nodes.handlers["all_instances_info"] = NodeUnreachableError("node1 is away")
    found = data(ctx).values()
    assert {one["disks"][0]["pstatus"] for one in found} == {None}
    assert {one["run_state"] for one in found} == {None}, "its guests may run"
    assert ctx.lines == [f"No live data of {name}: node1 is away" for name in NAMES]


def test_what_runs_on_an_offline_node_is_unknown(ctx: FakeContext) -> None:
    config = ctx.config.view()
    node = config.find_node("node1")
    config.put("nodes", node.uuid, msgspec.structs.replace(node, offline=True))
    assert data(ctx, "web1")["web1"]["run_state"] is None
    assert ctx.lines == ["No live data of web1: its primary node node1 is offline"]
    assert ctx.story == []


def test_static_asks_no_node(ctx: FakeContext) -> None:
    assert {one["run_state"] for one in data(ctx, static=True).values()} == {None}
    assert ctx.story == []


def test_a_disk_that_goes_while_nodes_are_asked_leaves_the_states_unknown(ctx: FakeContext) -> None:
    """Without locks another job may change the disks meanwhile."""

    def answer(node: str, disks: list[Any]) -> list[FoundDisk]:
        config = ctx.config.view()
        instance = next(each for each in config.instances() if each.name == "web1")
        config.put("instances", instance.uuid, msgspec.structs.replace(instance, disks=instance.disks[:-1]))
        return looked(node, disks)

    ctx.nodes.handlers["blockdev_find_each"] = answer
    before = len(data(ctx, "web1", static=True)["web1"]["disks"])
    assert len(data(ctx, "web1")["web1"]["disks"]) == before - 1
