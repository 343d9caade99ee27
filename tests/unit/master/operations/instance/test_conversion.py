# SPDX-License-Identifier: BSD-2-Clause
"""Another disk template: in which order things happen, what is refused, what an instance without disks gets."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest, node_facts
from tests.fakes.sample_cluster import LOCAL_DIR, add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, HypervisorError, NodeUnreachableError, PrerequisiteError
from ganeti.master.operation import Operation, decode
from ganeti.master.operations.instance.change.set_params import ModifyInstanceOperation
from ganeti.master.operations.instance.disks.conversion import chosen_secondary
from ganeti.master.operations.instance.wanted.modification import ModifyInstance
from ganeti.model.node_calls.hotplug import DisksExchanged, MirrorProgress
from ganeti.model.objects import Disk, Instance
from ganeti.model.traits import Catalogue
from ganeti.ports.context import UndoNodeCall


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["node_info"] = lambda name, **_: node_facts(memory_free_mib=1000)
    context.nodes.handlers["instance_disks_remove"] = lambda name, **_: {"settled": True}
    context.nodes.handlers["instance_info"] = lambda name, **_: None
    add_instance(context.config.config, "web1", admin_state="down")
    return context


def modify(name: str = "web1", **changes: Any) -> Operation[Any]:
    return decode({"OP_ID": ModifyInstanceOperation.op_id, "instance_name": name, **changes})


def web1(ctx: FakeContext) -> Instance:
    return ctx.config.view().find_instance("web1")


def disks(ctx: FakeContext) -> list[Disk]:
    return ctx.config.view().instance_disks(web1(ctx))


def test_snapshots_go_with_the_old_disks_only_by_force(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_snapshots"] = lambda name, **_: [[{"name": "before", "created_s": 1.0}]]
    with pytest.raises(PrerequisiteError, match=r"have snapshots \(before\), which go with the old disks.*add --force"):
        run(modify(disk_template="local"), ctx)
    run(modify(disk_template="local", force=True), ctx)
    assert [disk.dev_type for disk in disks(ctx)] == ["local"]


def test_disks_that_the_guest_could_not_reach_again_are_refused(ctx: FakeContext) -> None:
    known = ctx.catalogue
    (kernel, *others) = known.hypervisors["pretend"].parameters
    hiding = (dataclasses.replace(kernel, hides_sockets=True), *others)
    ctx.catalogue = Catalogue(
        known.templates | {"local": dataclasses.replace(known.templates["local"], served=True)},
        {"pretend": dataclasses.replace(known.hypervisors["pretend"], parameters=hiding)},
    )
    with pytest.raises(PrerequisiteError, match="cannot have kernel=true with disks of template local"):
        run(modify(disk_template="local"), ctx)
    assert not [line for line in ctx.story if "commit" in line]


def test_the_old_disk_goes_after_the_new_one_is_its_copy(ctx: FakeContext) -> None:
    (old,) = disks(ctx)
    named = replace(old, name="system", mode="ro", params={"format": "qcow2"})
    ctx.config.config.put("disks", old.uuid, named)
    assert run(modify(disk_template="local", file_driver="blktap"), ctx) == [("disk_template", "local")]
    assert [line for line in ctx.story if not line.endswith(("_info", "progress"))] == [
        "node1 instance_snapshots",
        "undo: take the new disks of web1 out of the configuration",
        "commit ReserveDisks",
        "undo: remove disk 0 of web1 from node1",
        "node1 blockdev_create",
        "undo: close the disks of web1",
        "node1 instance_disks_assemble",
        "undo: close the disks of web1",
        "node1 instance_disks_assemble",
        "node1 blockdev_convert",
        "node1 instance_disks_shutdown",
        "node1 instance_disks_shutdown",
        "undo: complete the removal of disks of web1",
        "node1 instance_disks_remove",
        "commit ModifyInstance settles",
    ]
    (new,) = disks(ctx)
    assert (new.name, new.mode, new.params, new.forthcoming) == ("system", "ro", {"format": "qcow2"}, None)
    assert new.logical_id == ["blktap", f"{LOCAL_DIR}/web1/{new.uuid}.local.disk0"]
    assert ctx.config.view().get("disks", old.uuid) is None
    completion = ctx.records[-1]
    assert isinstance(completion, UndoNodeCall) and isinstance(completion.settled_change, ModifyInstance)


def test_a_copy_that_fails_leaves_the_old_disk(ctx: FakeContext) -> None:
    (old,) = disks(ctx)
    ctx.nodes.handlers["blockdev_convert"] = BlockDeviceError("they differ")
    with pytest.raises(BlockDeviceError, match="they differ"):
        run(modify(disk_template="local"), ctx)
    assert disks(ctx) == [old] and "node1 instance_disks_remove" not in ctx.story


def test_without_disks_the_data_are_lost_which_must_be_wanted(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match="the data of web1 would be deleted: add --force if that is wanted"):
        run(modify(disk_template="none"), ctx)
    assert run(modify(disk_template="none", force=True), ctx) == [("disk_template", "none")]
    assert disks(ctx) == [] and not ctx.config.view().disks()


def test_an_instance_without_disks_gets_its_first_ones_in_the_template(ctx: FakeContext) -> None:
    run(modify(disks=[["remove", 0, {}]]), ctx)
    with pytest.raises(PrerequisiteError, match="web1 has no disks to convert: add one"):
        run(modify(disk_template="local"), ctx)
    told = run(modify(disk_template="local", disks=[["add", 0, {"size": 32}]]), ctx)
    assert told == [("disk/0", "add:size=32,mode=rw"), ("disk_template", "local")]
    assert [disk.dev_type for disk in disks(ctx)] == ["local"] and "node1 blockdev_convert" not in ctx.story


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"disk_template": "common"}, "already has disk template common"),
        ({"disk_template": "cloud"}, "Unknown disk template 'cloud'"),
        ({"disk_template": "local", "remote_node": "node2"}, "has no secondary node: leave --node node2 out"),
        ({"disk_template": "local", "disks": [["modify", 0, {"mode": "ro"}]]}, "others: do one first"),
        ({"disk_template": "local", "pnode": "node2"}, "others: do one first"),
        ({"disk_template": "none", "force": True, "file_driver": "loop"}, "leave --file-driver out"),
        ({"disk_template": "local", "iallocator": "hail"}, "template with two copies: name such a template"),
        ({"iallocator": "hail", "offline": True}, "template with two copies: name such a template"),
        ({"disk_template": "local", "ext_params": {"provider": "x"}}, "or leave --ext-params out"),
    ],
)
def test_what_is_refused_changes_nothing(ctx: FakeContext, changes: dict[str, Any], sentence: str) -> None:
    before = disks(ctx)
    with pytest.raises(PrerequisiteError, match=sentence):
        run(modify(**changes), ctx)
    assert disks(ctx) == before and not [line for line in ctx.story if line.startswith("commit")]


def test_a_template_that_is_not_enabled_is_refused(ctx: FakeContext) -> None:
    cluster = ctx.config.view().cluster
    ctx.config.config.put("cluster", "cluster", replace(cluster, enabled_disk_templates=["common"]))
    with pytest.raises(PrerequisiteError, match="Disk template local is not enabled in this cluster: use one of comm"):
        run(modify(disk_template="local"), ctx)


def test_disks_that_may_be_in_use_are_not_converted(ctx: FakeContext) -> None:
    add_instance(ctx.config.config, "web2")
    with pytest.raises(PrerequisiteError, match=r"The disks of web2 may be in use.*gnt-instance shutdown web2"):
        run(modify("web2", disk_template="local"), ctx)
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest()
    with pytest.raises(PrerequisiteError, match="The disks of web1 may be in use"):
        run(modify(disk_template="local"), ctx)
    node = ctx.config.view().node("uuid-node1")
    ctx.config.config.put("nodes", node.uuid, replace(node, offline=True))
    with pytest.raises(PrerequisiteError, match="Node node1 of web1 is offline: to convert the disks"):
        run(modify(disk_template="local"), ctx)


def test_hooks_are_told_the_new_template(ctx: FakeContext) -> None:
    operation = modify(disk_template="local")
    view = ctx.config.view()
    facts = asyncio.run(operation.gather(ctx, view))  # type: ignore[arg-type]
    hooks = operation.hooks(view, operation.check(view, facts, ctx))  # type: ignore[arg-type]
    assert hooks is not None
    assert hooks.env["NEW_DISK_TEMPLATE"] == "local"
    assert hooks.env["INSTANCE_DISK_TEMPLATE"] == hooks.env["INSTANCE_DISK0_DEV_TYPE"] == "common"


def copies(ctx: FakeContext) -> None:
    """The instance runs, on a hypervisor that exchanges disks."""
    traits = dataclasses.replace(ctx.catalogue.hypervisors["pretend"], can_exchange_disks=True)
    ctx.catalogue.hypervisors["pretend"] = traits
    ctx.config.config.put("instances", "uuid-web1", replace(web1(ctx), admin_state="up", disks_active=True))
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest()


def test_a_running_guest_gets_the_copy_of_its_disk_before_the_old_one_goes(ctx: FakeContext) -> None:
    copies(ctx)
    (old,) = disks(ctx)
    answers = [[MirrorProgress(index=0, is_equal=False, total_bytes=9)], [MirrorProgress(index=0, is_equal=True)]]
    ctx.nodes.handlers["instance_mirror_disks"] = lambda name, **_: answers.pop(0)
    ctx.nodes.handlers["instance_exchange_disks"] = lambda name, **_: DisksExchanged(settled=True)
    ctx.story.clear()
    assert run(modify(disk_template="local"), ctx) == [("disk_template", "local")]
    assert [line for line in ctx.story if not line.endswith(("_info", "progress"))] == [
        "node1 instance_snapshots",
        "undo: take the new disks of web1 out of the configuration",
        "commit ReserveDisks",
        "undo: remove disk 0 of web1 from node1",
        "node1 blockdev_create",
        "undo: close the disks of web1",
        "node1 instance_disks_assemble",
        "undo: end the copying of disks of web1",
        "node1 instance_mirror_disks",
        "node1 instance_mirror_disks",
        "undo: complete the conversion of disks of web1",
        "node1 instance_exchange_disks",
        "commit ModifyInstance",
        "node1 instance_disks_remove",
        "commit ModifyInstance settles",
    ]
    assert [disk.dev_type for disk in disks(ctx)] == ["local"] and ctx.config.view().get("disks", old.uuid) is None
    assert not [line for line in ctx.lines if "runs as before" in line]


def test_a_guest_that_uses_its_new_disks_is_never_started_on_the_old_ones(ctx: FakeContext) -> None:
    copies(ctx)
    (old,) = disks(ctx)
    ctx.nodes.handlers["instance_mirror_disks"] = lambda name, **_: [MirrorProgress(index=0, is_equal=True)]
    ctx.nodes.handlers["instance_exchange_disks"] = lambda name, **_: DisksExchanged(settled=True)
    ctx.nodes.handlers["instance_disks_remove"] = NodeUnreachableError("Node node1 does not answer")
    with pytest.raises(NodeUnreachableError):
        run(modify(disk_template="local"), ctx)
    assert [disk.dev_type for disk in disks(ctx)] == ["local"]
    assert ctx.config.view().get("disks", old.uuid) is not None, "what is not removed yet is known"
    complete = ctx.records[-1]
    assert isinstance(complete, UndoNodeCall) and isinstance(complete.settled_change, ModifyInstance)
    assert not complete.settled_change.removed and complete.settled_call is not None
    last = complete.settled_call.settled_change
    assert isinstance(last, ModifyInstance) and last.removed == [old.uuid]
    asyncio.run(ctx.config.commit(last))
    assert [disk.dev_type for disk in disks(ctx)] == ["local"] and ctx.config.view().get("disks", old.uuid) is None


def test_a_copy_that_fails_under_a_guest_leaves_its_disk(ctx: FakeContext) -> None:
    copies(ctx)
    (old,) = disks(ctx)
    ctx.nodes.handlers["instance_mirror_disks"] = HypervisorError("Disk 0 of web1 cannot be copied: no space")
    with pytest.raises(HypervisorError, match="no space"):
        run(modify(disk_template="local"), ctx)
    assert disks(ctx) == [old] and "node1 instance_disks_remove" not in ctx.story
    with pytest.raises(PrerequisiteError, match="may be in use"):
        run(modify(disk_template="local", hotplug=False), ctx)


def test_all_disks_of_a_guest_are_exchanged_in_one_call(ctx: FakeContext) -> None:
    run(modify(disks=[["add", -1, {"size": 32}]]), ctx)
    copies(ctx)
    asked: list[Any] = []
    equal = [MirrorProgress(index=index, is_equal=True) for index in range(2)]
    ctx.nodes.handlers["instance_mirror_disks"] = lambda name, **_: equal

    def exchange(name: str, **sent: Any) -> DisksExchanged:
        asked.append(sent)
        raise HypervisorError("the node has gone")

    ctx.nodes.handlers["instance_exchange_disks"] = exchange
    with pytest.raises(HypervisorError, match="the node has gone"):
        run(modify(disk_template="local"), ctx)
    assert [len(each["disks"]) for each in asked] == [2]
    complete = ctx.records[-1]
    assert isinstance(complete, UndoNodeCall)
    assert (complete.call, complete.arguments["finish"]) == ("instance_exchange_disks", True)
    assert complete.settled_call is not None and complete.settled_call.call == "instance_disks_remove"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("node3", "node3"),
        (["node3"], "node3"),
        ("node9", "the allocator returned node node9, which the cluster does not have"),
        (["node2", "node3"], r"invalid number of nodes \(2\), required 1"),
        ([], r"invalid number of nodes \(0\), required 1"),
        ({"node3": 1}, "is not a list of node names"),
    ],
)
def test_an_allocator_names_one_node_alone_or_in_a_list(ctx: FakeContext, result: Any, told: str) -> None:
    web = web1(ctx)
    ctx.allocation = {"success": True, "info": "Request successful", "result": result}
    chosen = chosen_secondary(ctx, ctx.config.view(), web, "drbd", "mine")
    if told == "node3":
        assert asyncio.run(chosen) == told
        return
    with pytest.raises(PrerequisiteError, match=told):
        asyncio.run(chosen)
