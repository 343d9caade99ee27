# SPDX-License-Identifier: BSD-2-Clause
"""Moving an instance with the data of its disks: order of steps, what is copied, the way back, refusals."""

from __future__ import annotations

import base64
import dataclasses
import zlib
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import disk_status, guest, node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, HypervisorError, PrerequisiteError
from ganeti.master.operations.instance.moving.move import MoveInstance
from ganeti.model.objects import CLUSTER_KEY
from ganeti.ports.context import UndoNodeCall

MIB = 1024 * 1024
QUIET = (
    *("node_info", "all_instances_info", "instance_info", "bridges_exist", "blockdev_read", "compression_fault"),
    *("instance_snapshots", "blockdev_find_each", "hypervisor_validate_params"),
)


class Copying:
    """The source's disk, in pieces, and what has come to the target."""

    def __init__(self, pieces: dict[int, bytes], size: int) -> None:
        self.pieces = pieces
        self.size = size
        self.arrived: dict[int, bytes] = {}

    def read(self, name: str, *, disk: Any, offset: int, compression: str = "none") -> dict[str, Any]:
        assert name == "node1"
        at = min((each for each in self.pieces if each >= offset), default=self.size)
        data = self.pieces.get(at, b"")
        data = zlib.compress(data) if compression == "gzip" and data else data
        return {"offset": at, "data": base64.b64encode(data).decode(), "size": self.size}

    def write(self, name: str, *, disk: Any, offset: int, data: bytes, boot: str, compression: str = "none") -> int:
        assert (name, boot) == ("node2", "boot-7")
        self.arrived[offset] = zlib.decompress(data) if compression == "gzip" else data
        return offset + len(self.arrived[offset])


@pytest.fixture
def copying() -> Copying:
    return Copying({MIB: b"a" * 100, 3 * MIB: b"b" * 100}, 64 * MIB)


@pytest.fixture
def ctx(copying: Copying) -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    add_instance(context.config.view(), "web1", template="local")
    context.nodes.handlers.update(
        node_info=lambda name, **_: node_facts(storage_free_mib=100000),
        all_instances_info=lambda name, **_: [],
        compression_fault=lambda name, *, tool: "",
        blockdev_read=copying.read,
        blockdev_find_each=lambda name, disks: [{} for _ in disks],
        blockdev_copy_begin=lambda name, **_: "boot-7",
        blockdev_copy_write=copying.write,
    )
    return context


def move(ctx: FakeContext, **parameters: Any) -> None:
    run(MoveInstance(instance_name="web1", **{"target_node": "node2", **parameters}), ctx)


def steps(ctx: FakeContext) -> list[str]:
    return [line for line in ctx.story if not line.endswith(QUIET)]


def test_disks_that_are_on_the_target_already_are_left_alone(ctx: FakeContext) -> None:
    """They may be the only good ones: the undo of a copy that cannot begin would remove them."""
    ctx.nodes.handlers["blockdev_find_each"] = lambda name, disks: [{"status": disk_status()}]
    with pytest.raises(PrerequisiteError, match=r"copied to node2: /srv/disk0 is there.*move it away first"):
        move(ctx)
    assert steps(ctx) == [], "the guest runs on"


def test_a_dry_run_asks_the_target_and_does_nothing(ctx: FakeContext) -> None:
    move(ctx, dry_run=True)
    ctx.nodes.handlers["bridges_exist"] = lambda name, bridges: bridges
    with pytest.raises(PrerequisiteError, match="Missing bridges on node node2"):
        move(ctx, dry_run=True)
    assert not [line for line in ctx.story if line.startswith(("commit", "undo")) or "shutdown" in line]


def test_a_guest_that_would_not_start_on_the_target_runs_on(ctx: FakeContext) -> None:
    def lacks(name: str, starts: bool, **_: Any) -> None:
        assert (name, starts) == ("node2", True)
        raise HypervisorError("The file of cdrom_image_path, /srv/iso/a.iso, is not on this node")

    ctx.nodes.handlers["hypervisor_validate_params"] = lacks
    with pytest.raises(PrerequisiteError, match="is not on this node"):
        move(ctx)
    assert steps(ctx) == []


@pytest.mark.parametrize("in_image", [False, True])
def test_snapshots_that_are_not_copied_are_not_lost(ctx: FakeContext, in_image: bool) -> None:
    kept = {"name": "before", "created_s": 1.0, "in_image": in_image}
    ctx.nodes.handlers["instance_snapshots"] = lambda name, **_: [[kept]]
    if in_image:
        move(ctx)
        return
    with pytest.raises(PrerequisiteError, match=r"have snapshots \(before\), which are not copied to another node"):
        move(ctx)
    assert steps(ctx) == []


def test_an_instance_without_disks_moves_as_in_debians_ganeti(ctx: FakeContext) -> None:
    ctx.catalogue.templates["diskless"] = dataclasses.replace(ctx.catalogue.template("none"), name="diskless")
    add_instance(ctx.config.view(), "web2", template="none")
    run(MoveInstance(instance_name="web2", target_node="node2"), ctx)
    assert steps(ctx).index("node1 instance_shutdown") < steps(ctx).index("node2 instance_start")
    assert ctx.config.view().instance("uuid-web2").primary_node == "uuid-node2"
    with pytest.raises(PrerequisiteError, match="are not copied"):
        run(MoveInstance(instance_name="web2", target_node="node1", live=True), ctx)


def test_a_running_instance_step_by_step(ctx: FakeContext, copying: Copying) -> None:
    move(ctx)
    assert steps(ctx) == [
        "undo: start web1 on node1 again",
        "undo: open the disks of web1 on node1",
        "node1 instance_shutdown",
        "node1 instance_disks_shutdown",
        "undo: remove the copy of disk 0 of web1 from node2",
        "node2 blockdev_copy_begin",
        "node2 blockdev_copy_write",
        "node2 blockdev_copy_write",
        "node2 blockdev_copy_end",
        "undo: make node1 the primary node of web1 again",
        "undo: complete the move of web1",
        "commit SetPrimaryNode",
        "node1 instance_disks_remove",
        "undo: close the disks of web1",
        "undo: stop web1 on node2",
        "node2 instance_disks_assemble",
        "node2 instance_start",
        "commit SetPrimaryNode settles",
    ]
    assert copying.arrived == copying.pieces, "parts that are empty are left out"
    view = ctx.config.view()
    instance = view.find_instance("web1")
    assert view.node(instance.primary_node).name == "node2"
    assert [disk.nodes for disk in view.instance_disks(instance)] == [["uuid-node2"]]


def test_data_are_compressed_on_their_way_if_asked(ctx: FakeContext, copying: Copying) -> None:
    move(ctx, compress="gzip")
    assert copying.arrived == copying.pieces
    with pytest.raises(PrerequisiteError, match="Compression 'lzma' is not enabled in the cluster: use one of none, g"):
        move(ctx, target_node="node3", compress="lzma")


def test_a_tool_of_the_site_must_be_on_both_nodes(ctx: FakeContext) -> None:
    cluster = ctx.config.view().cluster
    ctx.config.view().put("cluster", CLUSTER_KEY, replace(cluster, compression_tools=["gzip", "lzma"]))
    ctx.nodes.handlers["compression_fault"] = lambda name, *, tool: f"{tool} is missing" if name == "node2" else ""
    with pytest.raises(PrerequisiteError, match="Compression lzma cannot be used on node node2: lzma is missing"):
        move(ctx, compress="lzma")
    assert not ctx.records


def test_what_completes_the_move_asks_the_target_first(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_disks_remove"] = BlockDeviceError("Disk cannot be removed: busy")
    with pytest.raises(BlockDeviceError, match="busy"):
        move(ctx)
    last = ctx.records[-1]
    assert isinstance(last, UndoNodeCall)
    assert (last.node_uuid, last.call, last.forward) == ("uuid-node2", "instance_disks_arrived", True)
    assert last.settled_change is not None
    assert last.settled_call is not None
    assert (last.settled_call.node_uuid, last.settled_call.call) == ("uuid-node1", "instance_disks_remove")


def test_what_completes_the_move_starts_the_guest_last(ctx: FakeContext) -> None:
    move(ctx)
    (record,) = [each for each in ctx.records if isinstance(each, UndoNodeCall) and each.forward]
    assert record.settled_call is not None and record.settled_call.settled_change is not None
    start = record.settled_call.settled_call
    assert start is not None and (start.node_uuid, start.call) == ("uuid-node2", "instance_start")
    assert start.arguments["instance"].primary_node_uuid == "uuid-node2"


def test_what_completes_the_move_of_a_stopped_instance_starts_nothing(ctx: FakeContext) -> None:
    add_instance(ctx.config.view(), "web1", template="local", admin_state="down")
    ctx.nodes.handlers["instance_info"] = lambda name, **_: None
    move(ctx)
    (record,) = [each for each in ctx.records if isinstance(each, UndoNodeCall) and each.forward]
    assert record.settled_call is not None and record.settled_call.settled_call is None
    assert steps(ctx)[-1] == "commit SetPrimaryNode settles"


def test_a_guest_that_does_not_start_stays_on_the_target(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_start"] = HypervisorError("Node node2: it does not start")
    with pytest.raises(HypervisorError, match="does not start"):
        move(ctx)
    assert steps(ctx)[-2:] == ["node2 instance_disks_shutdown", "commit SetPrimaryNode settles"]
    view = ctx.config.view()
    assert view.node(view.find_instance("web1").primary_node).name == "node2"


def test_a_copy_that_fails_is_taken_back(ctx: FakeContext) -> None:
    ctx.nodes.handlers["blockdev_copy_write"] = BlockDeviceError("Disk cannot be copied: no space")
    with pytest.raises(BlockDeviceError, match="no space"):
        move(ctx)
    undo = [record.call for record in ctx.records if isinstance(record, UndoNodeCall)]
    assert undo == ["instance_start", "instance_disks_assemble", "blockdev_remove"]
    assert not [line for line in ctx.story if line.startswith("commit")]


def test_one_that_cannot_be_stopped_moves_only_if_that_is_accepted(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_shutdown"] = HypervisorError("Node node1: it does not end")
    with pytest.raises(HypervisorError):
        move(ctx)
    move(ctx, ignore_consistency=True)
    assert any("its copy may be torn" in line for line in ctx.lines)


@pytest.mark.parametrize(
    ("template", "parameters", "sentence"),
    [
        ("common", {}, "disks of template common are not copied. Use gnt-instance migrate"),
        ("local", {"target_node": "node1"}, "is already on node node1"),
        ("local", {"target_node": "node3"}, "Target node node3 is drained"),
    ],
)
def test_refusals(ctx: FakeContext, template: str, parameters: dict[str, Any], sentence: str) -> None:
    config = ctx.config.view()
    add_instance(config, "web1", template=template)
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), drained=True))
    with pytest.raises(PrerequisiteError, match=sentence):
        move(ctx, **parameters)
    assert not ctx.records


def test_a_stopped_one_that_runs_all_the_same_is_refused(ctx: FakeContext) -> None:
    config = ctx.config.view()
    config.put("instances", "uuid-web1", replace(config.find_instance("web1"), admin_state="down"))
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest()
    with pytest.raises(PrerequisiteError, match="web1 runs, so it cannot be moved"):
        move(ctx)
    ctx.nodes.handlers.pop("instance_info")
    move(ctx)
    assert "node2 instance_start" not in ctx.story
