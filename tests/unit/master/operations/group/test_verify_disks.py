# SPDX-License-Identifier: BSD-2-Clause
"""The disks of a group are looked at: what is lost, what is behind, which nodes do not say."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import disk_status
from tests.fakes.paired_disks import PairedDisks
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import NodeUnreachableError
from ganeti.master.operation import SubmitJobs
from ganeti.master.operations.cluster.verify_disks import VerifyClusterDisks
from ganeti.master.operations.group.verify_disks import VerifyGroupDisks
from ganeti.model.traits import Catalogue

Holes = set[tuple[str, str]]
"""Nodes, and instances whose disk is lost there."""


@pytest.fixture
def ctx() -> FakeContext:
    traits = catalogue()
    return FakeContext(configuration(), Catalogue(traits.templates | {"pair": PairedDisks.traits}, traits.hypervisors))


def with_instance(ctx: FakeContext, name: str, node: str = "uuid-node1", **more: Any) -> None:
    add_instance(ctx.config.view(), name, node, **more)


def with_mirror(ctx: FakeContext, name: str) -> None:
    config = ctx.config.config
    instance = add_instance(config, name, "uuid-node1", template="pair")
    [disk] = config.instance_disks(instance)
    config.put("disks", disk.uuid, replace(disk, nodes=["uuid-node1", "uuid-node2"]))


def find(ctx: FakeContext, holes: Holes = frozenset(), **status: Any) -> Any:  # type: ignore[assignment]
    ctx.nodes.handlers["blockdev_getdimensions"] = lambda node, disks: [
        None if any(hole == node and name in disk.logical_id[-1] for hole, name in holes) else (64, None)
        for disk in disks
    ]
    ctx.nodes.handlers["blockdev_find_each"] = lambda node, disks: [{"status": disk_status(**status)} for _ in disks]
    return run(VerifyGroupDisks(group_name="default"), ctx)


def test_nothing_is_wrong(ctx: FakeContext) -> None:
    with_instance(ctx, "web1")
    with_mirror(ctx, "db1")
    assert find(ctx) == ({}, [], {})


def test_lost_disks_are_told_with_their_node(ctx: FakeContext) -> None:
    with_instance(ctx, "web1")
    with_mirror(ctx, "db1")
    faults, closed, lost = find(ctx, {("node1", "web1"), ("node2", "db1")}, is_degraded=True)
    assert (faults, closed) == ({}, [])
    assert {name: [node for node, _ in disks] for name, disks in lost.items()} == {"web1": ["node1"], "db1": ["node2"]}
    assert lost["web1"][0][1].startswith("/")


def test_a_copy_that_is_behind_asks_for_its_disks_to_be_opened(ctx: FakeContext) -> None:
    with_mirror(ctx, "db1")
    assert find(ctx, is_degraded=True) == ({}, ["db1"], {})
    assert find(ctx, is_degraded=True, sync_percent=30.0) == ({}, [], {}), "it is on its way"


def test_the_configuration_hears_of_a_newer_copy(ctx: FakeContext) -> None:
    """Who fails over after the primary is lost too learns that the other copy is older."""
    with_mirror(ctx, "db1")
    [found] = ctx.config.view().disks()
    disk = found.uuid
    ctx.config.config.put("disks", disk, replace(found, generation=3))
    find(ctx, is_degraded=True, generation=7)
    assert ctx.config.view().disk(disk).generation == 7
    find(ctx, generation=5)
    assert ctx.config.view().disk(disk).generation == 7


def test_disks_that_should_be_closed_are_not_looked_at(ctx: FakeContext) -> None:
    with_instance(ctx, "web1", admin_state="down")
    assert find(ctx, {("node1", "web1")}) == ({}, [], {})


def test_a_node_that_does_not_say_it_and_one_that_is_offline(ctx: FakeContext) -> None:
    with_instance(ctx, "web1")
    with_instance(ctx, "web2", "uuid-node2")
    config = ctx.config.config
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), offline=True))
    ctx.nodes.handlers["blockdev_getdimensions"] = NodeUnreachableError("no route")
    faults, closed, lost = run(VerifyGroupDisks(group_name="default"), ctx)
    assert (list(faults), closed, lost) == (["node1"], [], {})
    assert "no route" in faults["node1"]


def test_each_node_is_asked_once_for_what_it_holds_and_once_how_far_copies_are(ctx: FakeContext) -> None:
    for number in range(5):
        with_mirror(ctx, f"db{number}")
    assert find(ctx, is_degraded=True) == ({}, [f"db{number}" for number in range(5)], {})
    assert sorted(line for line in ctx.story if "blockdev" in line) == [
        *("node1 blockdev_find_each", "node1 blockdev_getdimensions", "node2 blockdev_getdimensions")
    ]


def test_a_disk_that_cannot_be_looked_at_is_a_fault_of_its_node(ctx: FakeContext) -> None:
    with_mirror(ctx, "db1")
    find(ctx)
    ctx.nodes.handlers["blockdev_find_each"] = lambda node, disks: [{"fault": "the metadata is damaged"} for _ in disks]
    faults, closed, lost = run(VerifyGroupDisks(group_name="default"), ctx)
    assert (faults, closed, lost) == ({"node1": "Node node1: the metadata is damaged"}, [], {})


def test_without_strictness_no_instance_is_waited_for(ctx: FakeContext) -> None:
    with_instance(ctx, "web1")
    view = ctx.config.view()
    strict = VerifyGroupDisks(group_name="default").locks(view)
    loose = VerifyGroupDisks(group_name="default", is_strict=False).locks(view)
    assert strict.shared - loose.shared == {"instance/web1"}
    assert not strict.exclusive


@pytest.mark.parametrize("group", [None, "default"])
def test_one_job_a_group(ctx: FakeContext, group: str | None) -> None:
    answer = run(VerifyClusterDisks(group_name=group, is_strict=False), ctx)
    assert isinstance(answer, SubmitJobs)
    [[job], *others] = answer.jobs
    assert isinstance(job, VerifyGroupDisks)
    assert not job.is_strict
    assert len(others) == (0 if group else len(ctx.config.view().groups()) - 1)
