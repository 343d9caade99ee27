# SPDX-License-Identifier: BSD-2-Clause
"""Renaming an instance: its files first, then the name, then the system on its disks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest
from tests.fakes.sample_cluster import SHARED_DIR, add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, ExecutionError, PrerequisiteError
from ganeti.master.operations.instance.change.rename import GiveInstanceAnotherName
from ganeti.ports.context import UndoNodeCall


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    add_instance(context.config.view(), "web1", admin_state="down")
    add_instance(context.config.view(), "web2", template="none")
    context.nodes.handlers["blockdev_getdimensions"] = lambda name, disks: [
        (64, None) if "/web1/" in disk.logical_id[1] else None for disk in disks
    ]
    return context


def rename(ctx: FakeContext, name: str = "db1", **parameters: Any) -> Any:
    return run(GiveInstanceAnotherName(instance_name="web1", new_name=name, **parameters), ctx)


def path(ctx: FakeContext) -> str:
    view = ctx.config.view()
    [disk] = view.instance_disks(view.instance("uuid-web1"))
    return str(disk.logical_id[1])


def test_files_then_name_then_the_system_on_them(ctx: FakeContext) -> None:
    told: list[tuple[str, str]] = []
    ctx.nodes.handlers["instance_run_rename"] = lambda name, instance, old_name, **_: told.append(
        (old_name, instance.name)
    )
    file_name = path(ctx).rpartition("/")[2]
    assert rename(ctx) == "db1"
    assert ctx.story == [
        "node1 instance_info",
        "node1 blockdev_getdimensions",
        "undo: give disk 0 of web1 its former name on node1",
        "node1 blockdev_rename",
        "commit RenameInstance settles",
        "undo: close the disks of db1",
        "node1 instance_disks_assemble",
        "node1 instance_run_rename",
        "node1 script_output",
        "node1 instance_disks_shutdown",
    ]
    assert ctx.config.view().find_instance("db1").uuid == "uuid-web1"
    assert path(ctx) == f"{SHARED_DIR}/db1/{file_name}"
    assert told == [("web1", "db1")]


def test_the_undo_gives_the_file_its_former_name(ctx: FakeContext) -> None:
    before = path(ctx)
    ctx.nodes.handlers["blockdev_rename"] = BlockDeviceError("Disk cannot be renamed: no space")
    with pytest.raises(BlockDeviceError, match="no space"):
        rename(ctx)
    [record] = ctx.records
    assert isinstance(record, UndoNodeCall)
    assert record.call == "blockdev_rename"
    assert record.arguments["disk"].logical_id[1] == before.replace("/web1/", "/db1/")
    assert record.arguments["logical_id"][1] == before == path(ctx)


def mirrored(ctx: FakeContext) -> None:
    """web1 has a copy of its disk on node2, too."""
    common = ctx.catalogue.template("common")
    two = dataclasses.replace(common, name="two", shared=False, node_count=2)
    ctx.catalogue = dataclasses.replace(ctx.catalogue, templates={**ctx.catalogue.templates, "two": two})
    config = ctx.config.config
    [disk] = config.instance_disks(config.find_instance("web1"))
    config.put("disks", disk.uuid, replace(disk, dev_type="two", nodes=["uuid-node1", "uuid-node2"]))


def test_both_copies_of_a_disk_move(ctx: FakeContext) -> None:
    mirrored(ctx)
    rename(ctx)
    assert [line for line in ctx.story if "former name" in line or "blockdev_rename" in line] == [
        "undo: give disk 0 of web1 its former name on node1",
        "node1 blockdev_rename",
        "undo: give disk 0 of web1 its former name on node2",
        "node2 blockdev_rename",
    ]


def test_a_copy_that_cannot_move_stops_it(ctx: FakeContext) -> None:
    mirrored(ctx)
    own = ctx.nodes.handlers["blockdev_getdimensions"]
    assert callable(own)
    ctx.nodes.handlers["blockdev_getdimensions"] = lambda name, disks: (
        own(name, disks) if name == "node1" else [None] * len(disks)
    )
    with pytest.raises(PrerequisiteError, match="Disk 0 of web1 is not on node2"):
        rename(ctx)
    config = ctx.config.config
    config.put("nodes", "uuid-node2", replace(config.node("uuid-node2"), offline=True, master_candidate=False))
    with pytest.raises(PrerequisiteError, match="Node node2 is marked offline: its copies"):
        rename(ctx)
    assert not ctx.records and "/web1/" in path(ctx)


def test_a_failed_script_is_told_and_the_name_stays(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_run_rename"] = ExecutionError("OS rename script of noop failed for db1: status 1")
    assert rename(ctx) == "db1"
    assert any("has its new name, but its installed system does not know it: OS rename" in line for line in ctx.lines)
    assert ctx.story[-1] == "node1 instance_disks_shutdown"


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("web2", {}, "Instance 'web2' is already in the cluster: choose another name"),
        ("-db", {}, "is not a valid instance name"),
        ("db1", {"ip_check": True}, "add --name-check"),
    ],
)
def test_what_cannot_be_its_name_is_refused(
    ctx: FakeContext, name: str, parameters: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(PrerequisiteError, match=sentence):
        rename(ctx, name, **parameters)
    assert not [line for line in ctx.story if line.startswith("commit")]


def test_an_address_that_answers_is_refused(ctx: FakeContext) -> None:
    ctx.nodes.handlers["node_verify"] = lambda name, checks: checks
    with pytest.raises(PrerequisiteError, match=r"IP 10\.77\.0\.9 of instance db1 is already in use"):
        rename(ctx, name_check=True, ip_check=True)
    rename(ctx, name_check=True)


def test_one_that_runs_is_refused(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest()
    with pytest.raises(PrerequisiteError, match="web1 runs, so it cannot be renamed: shut it down first"):
        rename(ctx)
    config = ctx.config.view()
    config.put("instances", "uuid-web1", replace(config.find_instance("web1"), admin_state="up"))
    ctx.nodes.handlers.pop("instance_info")
    with pytest.raises(PrerequisiteError, match="web1 should be running, so it cannot be renamed"):
        rename(ctx)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ([None, None], "Disk 0 of web1 is not on node1"),
        ([(64, None), (64, None)], "There is a file .*/db1/.* on node1 already: move it away"),
    ],
)
def test_files_that_cannot_move_stop_it_before_anything_does(ctx: FakeContext, sizes: Any, sentence: str) -> None:
    ctx.nodes.handlers["blockdev_getdimensions"] = lambda name, disks: sizes
    with pytest.raises(PrerequisiteError, match=sentence):
        rename(ctx)
    with pytest.raises(PrerequisiteError, match=sentence):
        rename(ctx, dry_run=True)
    assert not ctx.records


def test_the_name_that_it_has_tells_the_system_again(ctx: FakeContext) -> None:
    assert rename(ctx, "WEB1") == "web1"
    assert "node1 blockdev_rename" not in ctx.story
    assert "node1 instance_run_rename" in ctx.story


def test_one_that_is_only_reserved_changes_its_name(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("instances", "uuid-web1", replace(config.find_instance("web1"), forthcoming=True))
    assert rename(ctx) == "db1"
    assert "/db1/" in path(ctx)
    assert ctx.story == ["commit RenameInstance settles"]
