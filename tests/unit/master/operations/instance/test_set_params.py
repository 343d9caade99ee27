# SPDX-License-Identifier: BSD-2-Clause
"""Changing instances: what is told, what is refused, in which order things happen, what an undo takes back."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest, node_facts
from tests.fakes.sample_cluster import SHARED_DIR, add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, ExecutionError, HypervisorError, PrerequisiteError
from ganeti.master.operation import Operation, decode
from ganeti.master.operations.instance.change.set_params import ModifyInstanceOperation
from ganeti.master.operations.instance.wanted.modification import ModifyInstance
from ganeti.model.node_calls.hotplug import HotplugObstacles
from ganeti.model.objects import Instance, Network
from ganeti.ports.context import UndoChange, UndoNodeCall


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["node_info"] = lambda name, **_: node_facts(memory_free_mib=1000)
    context.nodes.handlers["instance_disks_remove"] = lambda name, **_: {"settled": True}
    add_instance(context.config.config, "web1", admin_state="down")
    return context


def modify(**changes: Any) -> Operation[Any]:
    return decode({"OP_ID": ModifyInstanceOperation.op_id, "instance_name": "web1", **changes})


def instance(ctx: FakeContext) -> Instance:
    return ctx.config.view().find_instance("web1")


def runs(ctx: FakeContext, memory_mib: int = 128) -> None:
    """The instance is up, with a guest of *memory_mib*."""
    config = ctx.config.config
    config.put("instances", "uuid-web1", replace(instance(ctx), admin_state="up", disks_active=True))
    ctx.nodes.handlers["instance_info"] = lambda name, **_: guest(memory_mib=memory_mib)


def has_network(ctx: FakeContext) -> None:
    config = ctx.config.config
    network = Network(
        uuid="uuid-dmz", name="dmz", network="192.0.2.0/29", reservations="0" * 8, ext_reservations="0" * 8
    )
    config.put("networks", "uuid-dmz", network)
    group = replace(config.group("uuid-group1"), networks={"uuid-dmz": {"mode": "bridged", "link": "br9", "vlan": ""}})
    config.put("nodegroups", group.uuid, group)


def test_parameters_are_set_and_taken_back(ctx: FakeContext) -> None:
    told = run(
        modify(
            beparams={"memory": "256m", "vcpus": 2},
            hvparams={"kernel": "/boot/other"},
            osparams={"a": "b"},
            osparams_private={"key": "secret"},
        ),
        ctx,
    )
    assert told == [
        ("hv/kernel", "/boot/other"),
        ("be/memory", "256m"),
        ("be/vcpus", 2),
        ("os/a", "b"),
        ("os_private/key", "<redacted>"),
    ]
    found = instance(ctx)
    assert found.beparams == {"maxmem": 256, "minmem": 256, "vcpus": 2}
    assert (found.hvparams, found.osparams) == ({"kernel": "/boot/other"}, {"a": "b"})
    assert found.osparams_private == {"key": "secret"}
    assert ctx.story[-3:] == ["node1 hypervisor_validate_params", "node1 os_validate", "commit ModifyInstance settles"]
    default = {name: "default" for name in ("maxmem", "minmem", "vcpus")}
    run(modify(beparams=default, hvparams={"kernel": "default"}, osparams={"a": "default"}), ctx)
    assert (instance(ctx).beparams, instance(ctx).hvparams, instance(ctx).osparams) == ({}, {}, {})


def test_the_os_is_checked_and_noted(ctx: FakeContext) -> None:
    assert run(modify(os_name="noop+small"), ctx) == [("os_name", "noop+small")]
    assert instance(ctx).os == "noop+small"
    assert "node1 os_validate" in ctx.story


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "No changes submitted"),
        ({"force": True}, "No changes submitted"),
        ({"beparams": {"minmem": 512}}, r"Minimum memory \(512 MiB\) is above the maximum \(128 MiB\)"),
        ({"beparams": {"maxmem": "3g"}}, "due to 2072 MB of memory missing on its primary node node1"),
        ({"beparams": {"vcpus": 99}}, "violate the policy of node group default: processors is 99"),
        ({"hvparams": {"port": 1}}, "can only be set for the whole cluster"),
        ({"runtime_mem": 64}, "is not running: start it first"),
        ({"remote_node": "node2", "offline": True}, "add --disk-template, or leave --node out"),
        ({"file_driver": "loop", "offline": True}, "leave --file-driver out"),
        ({"nics": [["remove", 5, {}]]}, "NIC 5: the last one has the index 0"),
        ({"nics": [["remove", "eth7", {}]]}, "No NIC of the instance has the name 'eth7'"),
        ({"nics": [["attach", 0, {}]]}, "'attach' cannot be done to a NIC: use add, modify, remove"),
        ({"nics": [["modify", 0, {}]]}, "say what to change"),
        ({"nics": [["modify", 0, {"speed": 1}]]}, "NIC 0: unknown parameter 'speed': there are mac, ip"),
        ({"nics": [["modify", 0, {"name": True}]]}, "NIC 0: name must be text, not True"),
        ({"nics": [["modify", "²", {"name": "a"}]]}, "No NIC of the instance has the name '²'"),
        (
            {"pnode": "node2", "beparams": {"maxmem": 200}, "nics": [["add", -9, {}]]},
            "NIC -9: the next free index is 1",
        ),
        ({"nics": [[1]]}, "must be a list of an action, an index"),
        ({"nics": [["add", 3, {}]]}, "NIC 3: the next free index is 1"),
        ({"nics": [["remove", 0, {"mac": "x"}]]}, "takes no values"),
        ({"nics": [["modify", 0, {"network": "nowhere"}]]}, "nowhere"),
        ({"disks": [["modify", 0, {"size": 5}]]}, "gnt-instance grow-disk"),
        ({"disks": [["modify", 0, {"mode": "x"}]]}, "use ro or rw"),
        ({"disks": [["modify", 0, {"access": "userspace"}]]}, "access cannot be changed"),
        ({"disks": [["modify", 0, {"pool": "fast"}]]}, "'pool' cannot be changed: there are name, mode$"),
        (
            {"disks": [["modify", 0, {"name": "-1"}]]},
            "cannot be named '-1': a number alone would be taken for an index",
        ),
        ({"disks": [["add", 0, {}]]}, "the size is missing"),
        ({"disks": [["attach", 0, {"name": "nothing"}]]}, "No disk is called 'nothing'"),
        ({"disks": [["attach", 0, {}]]}, "give one of them"),
        ({"disks": [["remove", 0, {}]], "osparams_private": {"a": "b"}}, "are two changes: do one first"),
    ],
)
def test_what_is_refused_changes_nothing(ctx: FakeContext, changes: dict[str, Any], sentence: str) -> None:
    before = instance(ctx)
    with pytest.raises(PrerequisiteError, match=sentence):
        run(modify(**changes), ctx)
    assert instance(ctx) == before and not [line for line in ctx.story if line.startswith("commit")]


def test_force_and_ignored_policies_go_on(ctx: FakeContext) -> None:
    run(modify(beparams={"maxmem": "3g"}, force=True), ctx)
    run(modify(beparams={"vcpus": 99}, ignore_ipolicy=True), ctx)
    ctx.lines.clear()
    run(modify(beparams={"auto_balance": False}), ctx)
    assert ctx.lines == [
        "Instance web1 violates the policy of node group default: processors is 99, allowed are 1 to 8"
    ]


def test_an_instance_is_marked_offline_and_online(ctx: FakeContext) -> None:
    assert run(modify(offline=True), ctx) == [("admin_state", "offline")]
    assert run(modify(offline=True), ctx) == [("admin_state", "offline")]
    assert run(modify(offline=False), ctx) == [("admin_state", "down")]
    runs(ctx)
    with pytest.raises(PrerequisiteError, match="should be running, so it cannot be marked offline: shut it down"):
        run(modify(offline=True), ctx)


def test_memory_of_a_running_guest(ctx: FakeContext) -> None:
    ctx.catalogue.hypervisors["pretend"] = dataclasses.replace(ctx.catalogue.hypervisors["pretend"], can_balloon=True)
    runs(ctx)
    with pytest.raises(PrerequisiteError, match="between 128 and 128 MB of memory unless --force is given"):
        run(modify(runtime_mem=64), ctx)
    with pytest.raises(PrerequisiteError, match="needed 1872 MiB more, available 1000 MiB"):
        run(modify(runtime_mem=2000, force=True), ctx)
    ctx.story.clear()
    assert run(modify(runtime_mem=64, force=True), ctx) == [("runtime_memory", 64)]
    assert ctx.story[2:] == [
        "undo: give web1 its 128 MiB of memory again",
        "node1 instance_balloon_memory",
        "commit ModifyInstance settles",
    ]
    assert not ctx.lines


def test_a_running_guest_takes_changes_over_at_its_next_start(ctx: FakeContext) -> None:
    runs(ctx)
    run(modify(nics=[["add", -1, {}]]), ctx)
    assert ctx.lines[-1].startswith("web1 runs as before; the changes take effect")


def test_of_a_guest_on_an_offline_node_nobody_says_that_it_runs(ctx: FakeContext) -> None:
    runs(ctx)
    node = ctx.config.view().node(instance(ctx).primary_node)
    ctx.config.config.put("nodes", node.uuid, replace(node, offline=True))
    run(modify(beparams={"vcpus": 2}), ctx)
    assert ctx.lines[-1].startswith("The changes take effect when web1 is started the next time by gnt-instance")


def plugs(ctx: FakeContext) -> None:
    """The instance is up, with a guest that can be given NICs and disks."""
    ctx.catalogue.hypervisors["pretend"] = dataclasses.replace(
        ctx.catalogue.hypervisors["pretend"], can_hotplug=True, can_change_parameters=True
    )
    ctx.nodes.handlers["instance_hotplug_obstacles"] = lambda name, **_: HotplugObstacles()
    runs(ctx)


def test_nics_change_in_a_running_guest_before_the_configuration_says_so(ctx: FakeContext) -> None:
    plugs(ctx)
    given: list[list[str]] = []
    ctx.nodes.handlers["instance_change_nics"] = lambda name, **asked: given.append(
        [nic.mac for nic in asked["instance"].nics]
    )
    ctx.story.clear()
    run(modify(nics=[["add", -1, {"mac": "aa:00:00:ff:ff:01"}]]), ctx)
    assert ctx.story[-3:] == [
        "undo: give the guest of web1 the NICs that it had",
        "node1 instance_change_nics",
        "commit ModifyInstance settles",
    ]
    assert [macs[-1] for macs in given] == ["aa:00:00:ff:ff:01"]
    assert not ctx.lines
    run(modify(nics=[["add", -1, {}]], hotplug=False), ctx)
    assert len(given) == 1
    assert ctx.lines[-1].startswith("web1 runs as before; the changes take effect")


def test_a_guest_that_keeps_its_nics_leaves_the_configuration_as_it_was(ctx: FakeContext) -> None:
    plugs(ctx)

    def refuse(name: str, **asked: object) -> None:
        raise HypervisorError("web1 does not let go of NIC 0")

    ctx.nodes.handlers["instance_change_nics"] = refuse
    before = instance(ctx)
    with pytest.raises(
        ExecutionError, match="does not let go of NIC 0; --no-hotplug changes the NICs at the next start"
    ):
        run(modify(nics=[["add", -1, {}]]), ctx)
    assert instance(ctx) == before


def test_disks_change_in_a_running_guest_and_are_closed_before_they_are_removed(ctx: FakeContext) -> None:
    plugs(ctx)
    given: list[list[int]] = []
    ctx.nodes.handlers["instance_change_disks"] = lambda name, **asked: given.append(
        [disk.size_mib for disk in asked["instance"].disks]
    )
    ctx.story.clear()
    run(modify(disks=[["add", 0, {"size": 32}], ["remove", 1, {}]]), ctx)
    story = [line for line in ctx.story if not line.endswith(("_info", "_obstacles"))]
    assert story == [
        "undo: take the new disks of web1 out of the configuration",
        "commit ReserveDisks",
        "undo: remove disk 0 of web1 from node1",
        "node1 blockdev_create",
        "undo: close the disks of web1",
        "node1 instance_disks_assemble",
        "undo: give the guest of web1 the disks that it had",
        "node1 instance_change_disks",
        "undo: open the disks of web1 on node1",
        "node1 instance_disks_shutdown",
        "undo: complete the removal of disks of web1",
        "node1 instance_disks_remove",
        "commit ModifyInstance settles",
    ]
    assert given == [[32]]
    assert not ctx.lines or not ctx.lines[-1].startswith("web1 runs as before")


def test_a_guest_whose_disks_cannot_change_gets_new_ones_later_and_loses_none(ctx: FakeContext) -> None:
    plugs(ctx)
    reason = HotplugObstacles(disks="disks of disk_type=ide cannot come or go")
    ctx.nodes.handlers["instance_hotplug_obstacles"] = lambda name, **_: reason
    with pytest.raises(
        PrerequisiteError, match=r"Disk 0 of web1 is in use .* disk_type=ide cannot come or go; or shut"
    ):
        run(modify(disks=[["remove", 0, {}]]), ctx)
    run(modify(disks=[["add", -1, {"size": 32}]]), ctx)
    assert "node1 instance_change_disks" not in ctx.story
    assert "Disks change at the next start of the instance: disks of disk_type=ide cannot come or go" in ctx.lines
    assert ctx.lines[-1].startswith("web1 runs as before")


def test_a_disk_that_the_guest_keeps_stays_in_the_configuration(ctx: FakeContext) -> None:
    plugs(ctx)
    ctx.nodes.handlers["instance_change_disks"] = HypervisorError("web1 does not let go of disk 0")
    before = instance(ctx)
    with pytest.raises(ExecutionError, match="does not let go of disk 0; the guest keeps the disks that it has"):
        run(modify(disks=[["remove", 0, {}]]), ctx)
    assert instance(ctx) == before and "node1 instance_disks_remove" not in ctx.story


def test_a_guest_says_which_parameters_it_has_taken_over(ctx: FakeContext) -> None:
    plugs(ctx)
    offered: list[tuple[list[str], int]] = []

    def take(name: str, **asked: Any) -> list[str]:
        offered.append((asked["names"], asked["instance"].beparams["vcpus"]))
        return ["be/vcpus"]

    ctx.nodes.handlers["instance_change_parameters"] = take
    run(modify(beparams={"vcpus": 3, "minmem": 64}), ctx)
    assert offered == [(["be/vcpus"], 3)] and not ctx.lines
    run(modify(beparams={"vcpus": 4, "maxmem": 256}), ctx)
    assert ctx.lines[-1].startswith("web1 runs as before")
    ctx.nodes.handlers["instance_change_parameters"] = HypervisorError("QEMU refused it")
    with pytest.raises(ExecutionError, match="QEMU refused it; --no-hotplug changes it at the next start instead"):
        run(modify(beparams={"vcpus": 5}), ctx)
    assert instance(ctx).beparams["vcpus"] == 4


def test_a_guest_that_takes_no_parameters_over_is_not_asked(ctx: FakeContext) -> None:
    plugs(ctx)
    ctx.catalogue.hypervisors["pretend"] = dataclasses.replace(
        ctx.catalogue.hypervisors["pretend"], can_change_parameters=False
    )
    ctx.story.clear()
    run(modify(beparams={"vcpus": 3}), ctx)
    assert ctx.story == ["node1 hypervisor_validate_params", "commit ModifyInstance settles"]
    assert ctx.lines[-1].startswith("web1 runs as before; the changes take effect")


def test_nics_by_index_name_and_uuid(ctx: FakeContext) -> None:
    told = run(
        modify(nics=[["add", -1, {"name": "eth1", "mac": "aa:00:00:ff:ff:01"}], ["add", 0, {"ip": "10.0.0.5"}]]), ctx
    )
    nics = instance(ctx).nics
    assert [nic.name for nic in nics] == [None, None, "eth1"] and nics[0].ip == "10.0.0.5"
    assert told[0] == ("nic.1", "add:mac=aa:00:00:ff:ff:01,ip=None,mode=bridged,link=xen-br0,network=None")
    run(modify(nics=[["modify", "eth1", {"ip": "10.0.0.6", "link": "br7"}], ["remove", nics[0].uuid, {}]]), ctx)
    assert [(nic.name, nic.ip, nic.nicparams) for nic in instance(ctx).nics] == [
        (None, None, {}),
        ("eth1", "10.0.0.6", {"link": "br7"}),
    ]
    assert instance(ctx).nics[1].uuid == nics[2].uuid
    told = run(modify(nics=[[-1, {"link": "default", "name": "", "ip": "none"}]]), ctx)
    assert told == [
        ("nic.ip/1", None),
        ("nic.name/1", None),
        ("nic.link/1", "xen-br0"),
        ("nic.mode/1", "bridged"),
        ("nic.vlan/1", ""),
    ]
    assert run(modify(nics=[["remove", {}]]), ctx) == [("nic.1", "remove")]


def test_addresses_are_taken_from_their_network_and_given_back(ctx: FakeContext) -> None:
    has_network(ctx)
    run(
        modify(nics=[["modify", 0, {"network": "dmz", "ip": "pool"}], ["add", -1, {"network": "dmz", "ip": "pool"}]]),
        ctx,
    )
    nics = instance(ctx).nics
    taken = [nic.ip for nic in nics]
    assert len(set(taken)) == 2 and nics[0].nicparams["link"] == "br9"
    assert ctx.config.view().network("uuid-dmz").reservations.count("1") == 2  # type: ignore[union-attr]
    with pytest.raises(PrerequisiteError, match="is already in use or reserved"):
        run(modify(nics=[["modify", 1, {"ip": taken[0]}]]), ctx)
    run(modify(nics=[["remove", 0, {}], ["modify", 0, {"ip": taken[0]}]]), ctx)
    assert [nic.ip for nic in instance(ctx).nics] == [taken[0]]
    run(modify(nics=[["modify", 0, {"network": "none", "ip": "none"}]]), ctx)
    assert ctx.config.view().network("uuid-dmz").reservations.count("1") == 0  # type: ignore[union-attr]


def test_an_address_of_nobody_is_refused_for_a_nic_and_one_that_it_has_is_kept(ctx: FakeContext) -> None:
    config = ctx.config.view()
    first = instance(ctx).nics[0]
    config.put("instances", instance(ctx).uuid, replace(instance(ctx), nics=[replace(first, ip="0.0.0.0")]))
    with pytest.raises(PrerequisiteError, match="ff02::1 is a multicast address"):
        run(modify(nics=[["modify", 0, {"ip": "ff02::1"}]]), ctx)
    run(modify(nics=[["modify", 0, {"link": "br9"}]]), ctx)
    assert (instance(ctx).nics[0].ip, instance(ctx).nics[0].nicparams["link"]) == ("0.0.0.0", "br9")


def test_a_network_with_a_prefix_of_its_own_gives_a_mac_address(ctx: FakeContext) -> None:
    has_network(ctx)
    config = ctx.config.config
    config.put("networks", "uuid-dmz", replace(config.network("uuid-dmz"), mac_prefix="aa:00:dd"))
    first = instance(ctx).nics[0]
    run(modify(nics=[["modify", 0, {"network": "dmz"}]]), ctx)
    assert instance(ctx).nics[0].mac.startswith("aa:00:dd:") and instance(ctx).nics[0].uuid == first.uuid
    run(modify(nics=[["modify", 0, {"network": None, "mac": first.mac}]]), ctx)
    assert instance(ctx).nics == [first]


def test_a_disk_is_made_with_its_undo_and_an_older_one_removed(ctx: FakeContext) -> None:
    old = instance(ctx).disks[0]
    told = run(modify(disks=[["add", 0, {"size": 32, "name": "data", "mode": "ro"}], ["remove", 1, {}]]), ctx)
    assert told == [("disk/0", "add:size=32,mode=ro"), ("disk/1", "remove")]
    assert [line for line in ctx.story if not line.endswith("_info")] == [
        "undo: take the new disks of web1 out of the configuration",
        "commit ReserveDisks",
        "undo: remove disk 0 of web1 from node1",
        "node1 blockdev_create",
        "undo: complete the removal of disks of web1",
        "node1 instance_disks_remove",
        "commit ModifyInstance settles",
    ]
    view = ctx.config.view()
    (disk,) = view.instance_disks(instance(ctx))
    assert (disk.name, disk.iv_name, disk.forthcoming, disk.nodes) == ("data", "disk/0", None, ["uuid-node1"])
    assert disk.logical_id[1].endswith(f"/web1/{disk.uuid}.common.disk0")
    assert view.get("disks", old) is None
    completion = ctx.records[-1]
    assert isinstance(completion, UndoNodeCall) and isinstance(completion.settled_change, ModifyInstance)


def test_new_disks_are_beside_the_others_or_where_they_are_wanted(ctx: FakeContext) -> None:
    view = ctx.config.view()
    (disk,) = view.instance_disks(instance(ctx))
    moved = replace(disk, logical_id=["loop", f"{SHARED_DIR}/fast/web1/{disk.uuid}.common.disk0"])
    ctx.config.config.put("disks", disk.uuid, moved)
    run(modify(disks=[["add", -1, {"size": 32}]]), ctx)
    run(modify(disks=[["add", -1, {"size": 32}]], file_storage_dir="slow"), ctx)
    paths = [str(each.logical_id[1]) for each in view.instance_disks(instance(ctx))]
    assert [path.rpartition("/")[0] for path in paths] == [
        f"{SHARED_DIR}/fast/web1",
        f"{SHARED_DIR}/fast/web1",
        f"{SHARED_DIR}/slow/web1",
    ]


def test_a_disk_that_cannot_be_made_is_forgotten(ctx: FakeContext) -> None:
    ctx.nodes.handlers["blockdev_create"] = BlockDeviceError("no space")
    with pytest.raises(BlockDeviceError):
        run(modify(disks=[["add", -1, {"size": 32}]]), ctx)
    assert isinstance(ctx.records[1], UndoNodeCall) and ctx.records[1].call == "blockdev_remove"
    assert isinstance(ctx.records[0], UndoChange)
    for _ in range(2):
        asyncio.run(ctx.config.commit(ctx.records[0].change))
    assert len(ctx.config.view().disks()) == len(instance(ctx).disks) == 1


def test_a_disk_is_detached_and_attached_again(ctx: FakeContext) -> None:
    (uuid,) = instance(ctx).disks
    assert run(modify(disks=[["modify", 0, {"name": "data"}]]), ctx) == [("disk.name/0", "data")]
    assert run(modify(disks=[["detach", "data", {}]]), ctx) == [("disk/0", "detach")]
    assert not instance(ctx).disks and ctx.config.view().get("disks", uuid) is not None
    add_instance(ctx.config.config, "web2", template="local")
    with pytest.raises(PrerequisiteError, match="has the template common, the instance has local"):
        run(replace(modify(disks=[["attach", 0, {"name": "data"}]]), instance_name="web2"), ctx)
    assert run(modify(disks=[["attach", 0, {"name": "data"}]]), ctx) == [("disk/0", "attach:size=64,mode=rw")]
    assert instance(ctx).disks == [uuid]
    with pytest.raises(PrerequisiteError, match="attached to instance web1: detach it there first"):
        run(replace(modify(disks=[["attach", 0, {"uuid": uuid}]]), instance_name="web2"), ctx)
    runs(ctx)
    with pytest.raises(PrerequisiteError, match="may be in use, so it cannot be taken away"):
        run(modify(disks=[["detach", 0, {}]]), ctx)


def test_a_disk_that_another_job_makes_is_not_attached(ctx: FakeContext) -> None:
    run(modify(disks=[["modify", 0, {"name": "data"}], ["detach", 0, {}]]), ctx)
    [disk] = ctx.config.view().disks()
    ctx.config.config.put("disks", disk.uuid, replace(disk, forthcoming=True))
    for wanted in ({"name": "data"}, {"uuid": disk.uuid}):
        with pytest.raises(PrerequisiteError, match="No disk is called"):
            run(modify(disks=[["attach", 0, wanted]]), ctx)


def test_the_first_disk_of_an_instance_names_its_template(ctx: FakeContext) -> None:
    run(modify(disks=[["remove", 0, {}]]), ctx)
    for wanted in ({}, {"dev_type": "none"}):
        with pytest.raises(PrerequisiteError, match="has no disks: add dev_type=TEMPLATE") as caught:
            run(modify(disks=[["add", 0, {"size": 32, **wanted}]]), ctx)
        assert "none" not in str(caught.value)
    run(modify(disks=[["add", 0, {"size": 32, "dev_type": "local"}]]), ctx)
    assert ctx.config.view().disk_template(instance(ctx)) == "local"


def test_an_instance_gets_another_primary_node(ctx: FakeContext) -> None:
    assert run(modify(pnode="node2"), ctx) == [("primary_node", "node2")]
    (disk,) = ctx.config.view().instance_disks(instance(ctx))
    assert (instance(ctx).primary_node, disk.nodes) == ("uuid-node2", ["uuid-node2"])
    runs(ctx)
    with pytest.raises(PrerequisiteError, match="still running on node2"):
        run(modify(pnode="node3"), ctx)


def test_disks_that_one_node_has_stay_there(ctx: FakeContext) -> None:
    add_instance(ctx.config.config, "web2", template="local", admin_state="down")
    operation = replace(modify(pnode="node2"), instance_name="web2")
    with pytest.raises(PrerequisiteError, match="are on node1 and are not moved: copy them to node2, then add --force"):
        run(operation, ctx)
    run(replace(operation, force=True), ctx)
    assert ctx.config.view().find_instance("web2").primary_node == "uuid-node2"


def test_hooks_are_told_the_new_size_and_nics_and_all_else_as_it_is(ctx: FakeContext) -> None:
    operation = modify(beparams={"vcpus": 3, "maxmem": 256}, nics=[["add", -1, {}]], os_name="noop+new", offline=True)
    operation = replace(operation, hvparams={"kernel": "/boot/new"}, disks=[["add", -1, {"size": 64}]])
    view = ctx.config.view()
    facts = asyncio.run(operation.gather(ctx, view))  # type: ignore[arg-type]
    hooks = operation.hooks(view, operation.check(view, facts, ctx))  # type: ignore[arg-type]
    assert hooks is not None
    told = {
        "INSTANCE_VCPUS": "3",
        "INSTANCE_MAXMEM": "256",
        "INSTANCE_MEMORY": "256",
        "INSTANCE_NIC_COUNT": "2",
        "INSTANCE_BE_vcpus": "1",
        "INSTANCE_BE_maxmem": "128",
        "INSTANCE_HV_kernel": "/boot/k",
        "INSTANCE_OS_TYPE": "noop+default",
        "INSTANCE_STATUS": "down",
        "INSTANCE_DISK_COUNT": "1",
    }
    assert ({key: hooks.env[key] for key in told}, hooks.path) == (told, "instance-modify")


@pytest.mark.parametrize("word", ["none", "default", "", None])
def test_the_name_of_a_nic_is_taken_away(ctx: FakeContext, word: str | None) -> None:
    run(modify(nics=[["modify", 0, {"name": "eth0"}]]), ctx)
    assert instance(ctx).nics[0].name == "eth0"
    run(modify(nics=[["modify", 0, {"name": word}], ["add", -1, {"name": word}]]), ctx)
    assert [nic.name for nic in instance(ctx).nics] == [None, None]


@pytest.mark.parametrize("word", ["none", ""])
def test_a_new_disk_without_a_name_has_none(ctx: FakeContext, word: str) -> None:
    ctx.nodes.handlers["blockdev_create"] = lambda name, **_: None
    run(modify(disks=[["add", -1, {"size": 64, "name": word}], ["add", -1, {"size": 64, "name": word}]]), ctx)
    view = ctx.config.view()
    assert [disk.name for disk in view.instance_disks(instance(ctx))] == [None] * 3
