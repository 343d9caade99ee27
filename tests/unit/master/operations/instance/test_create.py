# SPDX-License-Identifier: BSD-2-Clause
"""Creating instances: what is refused, in which order things happen, what an undo would take back."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest, node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import HypervisorError, ParameterError, PrerequisiteError
from ganeti.master.operation import REGISTRY, decode
from ganeti.master.operations.instance.creation.create import CreateInstance
from ganeti.model.objects import CLUSTER_KEY, Network, NodeGroup
from ganeti.model.reservations import Reservation
from ganeti.model.traits import TemplateTraits
from ganeti.ports.context import UndoChange, UndoNodeCall


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["node_info"] = lambda name, **_: node_facts()
    context.nodes.handlers["all_instances_info"] = lambda name, **_: []
    return context


def wanted(**changes: Any) -> CreateInstance:
    fields: dict[str, Any] = {
        "instance_name": "web1",
        "disks": [{"size": "64m"}],
        "nics": [{}],
        "mode": "create",
        "os_type": "noop+default",
        "disk_template": "common",
    }
    return msgspec.convert(fields | changes, CreateInstance)


def test_what_a_program_chose_keeps_nobody_off_while_nodes_are_asked(ctx: FakeContext) -> None:
    """It was to choose from all nodes, and its choice is promised: a refusal after it held up the whole cluster."""
    ctx.allocation = {"success": True, "info": "", "result": ["node3"], "serial": 0}
    ctx.nodes.handlers["os_validate"] = ParameterError("Unknown parameter of OS 'noop': x; it has none")
    with pytest.raises(PrerequisiteError, match="Unknown parameter"):
        run(wanted(iallocator="other"), ctx)
    (released,) = (at for at, line in enumerate(ctx.story) if line.startswith("release "))
    assert ctx.story.index("node1 iallocator_runner") < released < ctx.story.index("node3 node_info")


@pytest.mark.requirement("S5.4")
def test_the_order_of_steps(ctx: FakeContext) -> None:
    assert run(wanted(), ctx) == ["node2"]
    steps = [line for line in ctx.story if not line.endswith(("node_info", "all_instances_info", "script_output"))]
    assert steps == [
        "node2 bridges_exist",
        "node2 hypervisor_validate_params",
        "node2 os_validate",
        "undo: take instance web1 out of the configuration",
        "commit AddInstance",
        "undo: remove disk 0 of web1 from node2",
        "node2 blockdev_create",
        "undo: close the disks of web1",
        "node2 instance_disks_assemble",
        "node2 instance_os_add",
        "undo: close the disks of web1",
        "undo: stop web1 on node2",
        "node2 instance_disks_assemble",
        "node2 instance_start",
        "commit FinishInstance settles",
    ]
    instance = ctx.config.view().find_instance("web1")
    assert (instance.admin_state, instance.forthcoming, instance.network_port) == ("up", None, 11000)
    disk = ctx.config.view().instance_disks(instance)[0]
    assert disk.logical_id == ["loop", f"/srv/ganeti/shared-file-storage/web1/{disk.uuid}.common.disk0"]
    assert ctx.lines[0] == "Selected nodes for the instance: node2"


def test_undo_records_take_everything_back(ctx: FakeContext) -> None:
    ctx.nodes.handlers["instance_start"] = HypervisorError("no such emulator")
    with pytest.raises(HypervisorError):
        run(wanted(), ctx)
    kinds = [
        record.call if isinstance(record, UndoNodeCall) else type(record.change).__name__ for record in ctx.records
    ]
    assert kinds == [
        "RemoveInstance",
        "blockdev_remove",
        "instance_disks_shutdown",
        "instance_disks_shutdown",
        "instance_shutdown",
    ]
    removal = ctx.records[0]
    assert isinstance(removal, UndoChange)
    asyncio.run(ctx.config.commit(removal.change))
    asyncio.run(ctx.config.commit(removal.change))
    view = ctx.config.view()
    assert not view.instances() and not view.disks()
    assert view.cluster.tcpudp_port_pool == [11000]


def test_an_instance_being_created_counts_on_a_node_that_is_named(ctx: FakeContext) -> None:
    """Its guest does not run yet, so the node still calls its memory free."""
    ctx.nodes.handlers["instance_start"] = HypervisorError("stop here")
    with pytest.raises(HypervisorError):
        run(wanted(pnode="node2", beparams={"memory": "3g"}), ctx)
    del ctx.nodes.handlers["instance_start"]
    with pytest.raises(PrerequisiteError, match=r"Not enough memory on node node2 for web2: .* available 1024 MiB"):
        run(wanted(instance_name="web2", pnode="node2", beparams={"memory": "2g"}), ctx)
    run(wanted(instance_name="web3", pnode="node3", beparams={"memory": "2g"}), ctx)
    ctx.nodes.handlers["all_instances_info"] = lambda name, **_: [guest(memory_mib=3072)]
    run(wanted(instance_name="web4", pnode="node2", beparams={"memory": "2g"}), ctx)


def test_room_is_reserved_before_anything_is_made(ctx: FakeContext) -> None:
    """The built-in allocator reserves by itself; for any other, and for nodes that are named, the job does."""
    run(wanted(), ctx)
    assert ctx.asked == [("hail", True)]
    ctx.held.clear()
    ctx.allocation = {"success": True, "info": "", "result": ["node3"], "serial": 0}
    run(wanted(instance_name="web2", iallocator="other", beparams={"memory": "1g"}), ctx)
    assert [(reservation.instance, reservation.nodes, reservation.memory_mib) for _, reservation in ctx.held] == [
        ("web2", ["uuid-node3"], 1024)
    ]
    run(wanted(instance_name="web3", pnode="node1"), ctx)
    assert (ctx.held[-1][1].instance, ctx.held[-1][1].nodes) == ("web3", ["uuid-node1"])


def test_who_is_overtaken_asks_again(ctx: FakeContext) -> None:
    ctx.allocation = {"success": True, "info": "", "result": ["node2"], "serial": 0}
    ctx.quicker = ["uuid-node2"] * 3
    run(wanted(iallocator="other"), ctx)
    assert len(ctx.asked) == 4
    ctx.quicker = ["uuid-node2"] * 1000
    with pytest.raises(PrerequisiteError, match="Others reserved room"):
        run(wanted(instance_name="web2", iallocator="other"), ctx)


def test_what_others_were_reserved_counts_on_a_node_that_is_named(ctx: FakeContext) -> None:
    ctx.held.append((99, Reservation(instance="other", nodes=["uuid-node2"], memory_mib=3072)))
    with pytest.raises(PrerequisiteError, match=r"Not enough memory on node node2 for web1: .* available 1024 MiB"):
        run(wanted(pnode="node2", beparams={"memory": "2g"}), ctx)
    run(wanted(pnode="node3", beparams={"memory": "2g"}), ctx)


@pytest.mark.requirement("S1.52", "S2.60")
@pytest.mark.parametrize(
    ("changes", "locks"),
    [
        ({}, {("instance/web1", "exclusive")}),
        (
            {"iallocator": "other"},
            {
                ("instance/web1", "exclusive"),
                ("node-res/[lockset]", "exclusive"),
                ("node/[lockset]", "shared"),
            },
        ),
        (
            {"pnode": "node2"},
            {
                ("instance/web1", "exclusive"),
                ("node-res/uuid-node2", "exclusive"),
                ("node/uuid-node2", "shared"),
            },
        ),
    ],
)
def test_no_node_is_locked_for_the_built_in_allocator(
    ctx: FakeContext, changes: dict[str, Any], locks: set[tuple[str, str]]
) -> None:
    assert set(wanted(**changes).locks(ctx.config.view()).request()) == locks | {("cluster/BGL", "shared")}


def test_a_node_that_changed_meanwhile_is_refused_by_the_commit(ctx: FakeContext) -> None:
    from msgspec.structs import replace

    config = ctx.config.view()

    ctx.nodes.handlers["hypervisor_validate_params"] = lambda name, **_: config.put(
        "nodes", "uuid-node2", replace(config.node("uuid-node2"), drained=True)
    )
    with pytest.raises(PrerequisiteError, match="Node node2 has become drained: create web1 again"):
        run(wanted(), ctx)
    assert not config.instances()


@pytest.mark.requirement("S5.41")
def test_the_error_names_the_first_reasons(ctx: FakeContext) -> None:
    reasons = [f"node{number}: has no room" for number in range(20)]
    ctx.allocation = {"success": False, "info": "Request failed: no", "result": [], "reasons": reasons}
    with pytest.raises(PrerequisiteError) as caught:
        run(wanted(), ctx)
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "Can't compute nodes using iallocator 'hail': web1 fits nowhere as it is asked for. node0: has no room"
    )
    assert lines[1] == "  - node1: has no room" and lines[-2] == "  - and 13 more reasons: --why names all"
    assert len(lines) == 9 and lines[-1] == "  (Request failed: no)"
    with pytest.raises(PrerequisiteError) as caught:
        run(wanted(why=True, dry_run=True), ctx)
    assert str(caught.value).count("has no room") == 20


def test_why_only_asks_and_tells_all_reasons(ctx: FakeContext) -> None:
    ctx.allocation["reasons"] = ["node1: fits", "node3: is drained"]
    operation = wanted(why=True, dry_run=True)
    view = ctx.config.view()
    asyncio.run(operation.gather(ctx, view))  # type: ignore[arg-type]
    assert ctx.asked == [("hail", False)]
    assert ctx.lines == ["web1 would be placed on node2", "  - node1: fits", "  - node3: is drained"]
    with pytest.raises(PrerequisiteError, match="leave -n out"):
        run(wanted(why=True, pnode="node2"), ctx)


def test_secrets_stay_out_of_undo_records(ctx: FakeContext) -> None:
    run(wanted(osparams_private={"password": "hush"}, osparams_secret={"key": "hush"}), ctx)
    assert ctx.records
    assert "hush" not in repr(ctx.records)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instance_name": "We b"}, "not a valid instance name"),
        ({"instance_name": "old"}, "already in the cluster"),
        ({"disk_template": "plain"}, "Unknown disk template 'plain'"),
        ({"disks": []}, "needs at least one disk"),
        ({"disks": [{"size": "12x"}]}, "Disk 0: '12x' is not a size"),
        ({"disks": [{"size": 0}]}, "must be more than zero"),
        ({"disks": [{"mode": "rw"}]}, "the size is missing"),
        ({"disks": [{"size": 64, "name": 7}]}, "Disk 0: its name must be text, not 7"),
        ({"disks": [{"size": 64, "colour": "red"}]}, "unknown parameter 'colour'"),
        ({"disks": [{"size": 64, "mode": "w"}]}, "use ro or rw"),
        ({"disks": [{"size": 64, "format": "vmdk"}]}, "format 'vmdk' is unknown"),
        ({"disks": [{"size": 64}] * 17}, "17 disks are too many"),
        ({"disk_template": "none"}, "has no disks"),
        ({"nics": [{"mac": "zz"}]}, "'zz' is not a MAC address"),
        ({"nics": [{"ip": "1.2.3"}]}, "'1.2.3' is not an IP address"),
        ({"nics": [{"ip": "fe80::1%eth0"}]}, "'fe80::1%eth0' names an interface of a node"),
        ({"nics": [{"mac": "01:00:5e:00:00:01"}]}, "no MAC address of one NIC"),
        ({"nics": [{"mac": "00:00:00:00:00:00"}]}, "no MAC address of one NIC"),
        ({"nics": [{"ip": "::"}]}, ":: is the unspecified address"),
        ({"nics": [{"ip": "0.0.0.0"}]}, "0.0.0.0 is the unspecified address"),
        ({"nics": [{"ip": "::1"}]}, "::1 is a loopback address"),
        ({"nics": [{"ip": "127.1.2.3"}]}, "127.1.2.3 is a loopback address"),
        ({"nics": [{"ip": "::ffff:127.0.0.1"}]}, "::ffff:127.0.0.1 is a loopback address"),
        ({"nics": [{"ip": "ff02::1"}]}, "ff02::1 is a multicast address"),
        ({"nics": [{"ip": "224.0.0.1"}]}, "224.0.0.1 is a multicast address"),
        ({"nics": [{"ip": "255.255.255.255"}]}, "255.255.255.255 is the broadcast address"),
        ({"nics": [{"mode": "routed"}]}, "a routed NIC needs an address"),
        ({"nics": [{"mode": "carrier-pigeon"}]}, "must be one of bridged, routed, openvswitch"),
        ({"nics": [{}] * 9}, "9 NICs are too many"),
        ({"beparams": {"vcpus": 0}}, "the least is 1"),
        ({"beparams": {"memory": "lots"}}, "it must be a size"),
        ({"beparams": {"minmem": 512}}, "Minimum memory (512 MiB) is above the maximum (128 MiB)"),
        ({"beparams": {"colour": 1}}, "Unknown backend parameter 'colour'"),
        ({"beparams": {"memory": "5g"}}, "violates the policy of node group default: memory is 5120"),
        ({"hvparams": {"port": 81}}, "can only be set for the whole cluster"),
        ({"hvparams": {"speed": 1}}, "Unknown hypervisor parameter 'speed'"),
        ({"hypervisor": "xen"}, "Unknown hypervisor 'xen'"),
        ({"os_type": None}, "The OS is missing"),
        ({"tags": ["a b"]}, "'a b' is not a valid tag"),
        ({"pnode": "node9"}, "Node 'node9' not known: there are node1, node2, node3"),
        ({"pnode": "node1", "iallocator": "hail"}, "either a node or an allocator"),
        ({"file_storage_dir": "../x"}, "must be relative"),
        ({"mode": "remote-import"}, "An import from another cluster needs source_handshake"),
        ({"group_name": "blue"}, "Group 'blue' not known: there are default"),
    ],
)
def test_refusals_change_nothing(ctx: FakeContext, changes: dict[str, Any], words: str) -> None:
    config = ctx.config.view()
    add_instance(config, "old")
    before = config.to_plain()
    with pytest.raises(PrerequisiteError) as caught:
        run(wanted(**changes), ctx)
    assert words in str(caught.value)
    assert config.to_plain() == before
    assert not ctx.records


def test_a_secondary_node_of_what_has_no_mirrors_is_ignored(ctx: FakeContext) -> None:
    run(wanted(pnode="node2", snode="node1"), ctx)
    [instance] = ctx.config.view().instances()
    assert ctx.config.view().instance_nodes(instance) == ["uuid-node2"]
    assert "Secondary node node1 will be ignored on non-mirrored disk template" in str(ctx.log.lines)


def test_an_os_that_is_named_must_be_there_though_it_is_not_installed(ctx: FakeContext) -> None:
    asked = {"disk_template": "none", "disks": [], "pnode": "node2", "no_install": True}
    ctx.nodes.handlers["os_validate"] = PrerequisiteError("OS 'nosuch' not known: there are noop")
    with pytest.raises(PrerequisiteError, match="OS 'nosuch' not known"):
        run(wanted(os_type="nosuch", **asked), ctx)
    with pytest.raises(PrerequisiteError, match="OS 'nosuch' not known"):
        run(wanted(os_type="nosuch", dry_run=True, **asked), ctx)
    assert not ctx.config.view().instances()
    run(wanted(os_type=None, **asked), ctx)


@pytest.mark.requirement("S1.20", "S1.26")
def test_a_group_that_takes_no_instances_takes_none_when_it_is_named(ctx: FakeContext) -> None:
    group = ctx.config.view().find_group("default")
    ctx.config.config.put("nodegroups", group.uuid, replace(group, alloc_policy="unallocable"))
    with pytest.raises(PrerequisiteError, match="Node group default takes no new instances: name another one"):
        run(wanted(group_name="default"), ctx)
    assert not ctx.records


@pytest.mark.requirement("S1.20", "S1.26")
def test_of_several_named_groups_those_that_take_no_instances_are_left_out(ctx: FakeContext) -> None:
    for name in ("green", "blue"):
        group = NodeGroup(uuid=f"uuid-{name}", name=name, alloc_policy="unallocable")
        ctx.config.config.put("nodegroups", group.uuid, group)
    assert run(wanted(group_name="green,default"), ctx) == ["node2"]
    assert ctx.allocations[-1]["group_name"] == "default"
    with pytest.raises(PrerequisiteError, match="None of the node groups green, blue takes new instances"):
        run(wanted(instance_name="web2", group_name="green,blue"), ctx)


@pytest.mark.requirement("S1.26")
def test_a_node_outside_the_groups_that_are_named_is_refused(ctx: FakeContext) -> None:
    for name in ("green", "blue"):
        ctx.config.config.put("nodegroups", f"uuid-{name}", NodeGroup(uuid=f"uuid-{name}", name=name))
    with pytest.raises(PrerequisiteError, match="it chose node node2, which was not asked for"):
        run(wanted(group_name="green,blue"), ctx)
    assert run(wanted(group_name="default,blue"), ctx) == ["node2"]


@pytest.mark.requirement("S1.24", "S1.27")
def test_the_two_nodes_of_an_instance_are_in_one_group(ctx: FakeContext) -> None:
    ctx.catalogue.templates["pair"] = TemplateTraits("pair", "pair", node_count=2)
    config = ctx.config.config
    templates = [*config.cluster.enabled_disk_templates, "pair"]
    policy = {**config.cluster.ipolicy, "disk-templates": templates}
    cluster = replace(config.cluster, enabled_disk_templates=templates, ipolicy=policy)
    config.put("cluster", CLUSTER_KEY, cluster)
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), group="uuid-green"))
    with pytest.raises(PrerequisiteError, match="Primary and secondary node must be in the same node group"):
        run(wanted(disk_template="pair", pnode="node1", snode="node3"), ctx)
    with pytest.raises(PrerequisiteError, match="node1 is named as primary and as secondary: name two different nodes"):
        run(wanted(disk_template="pair", pnode="node1", snode="node1"), ctx)
    assert not ctx.records
    run(wanted(disk_template="pair", pnode="node1", snode="node2", dry_run=True), ctx)


def test_a_node_without_the_bridge_is_refused_by_name_before_anything_is_made(ctx: FakeContext) -> None:
    ctx.nodes.handlers["bridges_exist"] = lambda name, bridges: bridges
    with pytest.raises(PrerequisiteError, match="Missing bridges on node node1: br9, which instance web1") as err:
        run(
            wanted(
                nics=[{"link": "br9"}, {"link": "br9"}, {"mode": "routed", "link": "7", "ip": "192.0.2.9"}],
                pnode="node1",
            ),
            ctx,
        )
    assert err.value.code == "environment_error"
    assert not ctx.records and "commit AddInstance" not in ctx.story


def test_full_nodes_are_refused_with_numbers(ctx: FakeContext) -> None:
    with pytest.raises(PrerequisiteError, match=r"needed 4096 MiB, available 100 MiB"):
        ctx.nodes.handlers["node_info"] = lambda name, **_: node_facts(memory_free_mib=100, storage_free_mib=9)
        run(wanted(beparams={"memory": "4g"}, pnode="node1"), ctx)
    assert not ctx.records


def test_drained_and_offline_nodes_are_refused(ctx: FakeContext) -> None:
    from msgspec.structs import replace

    config = ctx.config.view()
    config.put("nodes", "uuid-node3", replace(config.node("uuid-node3"), drained=True))
    with pytest.raises(PrerequisiteError, match="node3 is drained"):
        run(wanted(pnode="node3"), ctx)


@pytest.mark.parametrize(
    "answer",
    [
        {"success": False, "info": "No room", "result": []},
        {"success": True, "info": "", "result": ["node1", "node2"]},
        {"success": True, "info": "", "result": "node1"},
        {"success": True, "info": "", "result": ["mars"]},
    ],
)
def test_an_allocators_mistakes_are_told(ctx: FakeContext, answer: dict[str, Any]) -> None:
    ctx.allocation = answer
    with pytest.raises(PrerequisiteError, match="Can't compute nodes using iallocator 'hail': "):
        run(wanted(), ctx)


def test_decoding_is_strict() -> None:
    from ganeti.master import operations

    operations.load()
    assert "OP_INSTANCE_CREATE" in REGISTRY
    with pytest.raises(PrerequisiteError, match="there is no parameter 'colour'"):
        decode({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "a", "colour": 1})
    with pytest.raises(PrerequisiteError, match="instance_name"):
        decode({"OP_ID": "OP_INSTANCE_REMOVE"})
    read = decode({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "a", "shutdown_timeout": None})
    assert read.shutdown_timeout == 120  # type: ignore[attr-defined]


def test_the_address_of_the_name_must_be_silent_if_that_is_asked_for(ctx: FakeContext) -> None:
    asked: list[Any] = []

    def verify(name: str, checks: dict[str, Any]) -> dict[str, Any]:
        asked.append((name, checks))
        return {"used-addresses": used}

    ctx.nodes.handlers["node_verify"] = verify
    used: list[str] = []
    run(wanted(name_check=True, ip_check=True), ctx)
    assert asked == [("node1", {"used-addresses": ["10.77.0.9"]})]
    used.append("10.77.0.9")
    with pytest.raises(PrerequisiteError, match=r"IP 10\.77\.0\.9 of instance web2 is already in use: give web2"):
        run(wanted(instance_name="web2", name_check=True, ip_check=True), ctx)


def test_an_address_of_a_connected_network_is_a_conflict(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("networks", "uuid-lan", Network(uuid="uuid-lan", name="lan", network="192.0.2.0/24"))
    group = config.group("uuid-group1")
    config.put("nodegroups", group.uuid, replace(group, networks={"uuid-lan": {"mode": "bridged", "link": "br0"}}))
    with pytest.raises(PrerequisiteError, match=r"NIC 0: address 192\.0\.2\.7 belongs to network lan, which node"):
        run(wanted(nics=[{"ip": "192.0.2.7"}]), ctx)
    run(wanted(nics=[{"ip": "192.0.2.7"}], conflicts_check=False), ctx)
    run(wanted(instance_name="web2", nics=[{"ip": "198.51.100.7"}]), ctx)


def test_what_an_instance_would_inherit_anyway_is_not_stored(ctx: FakeContext) -> None:
    given = {
        "beparams": {"vcpus": 1, "maxmem": 256, "minmem": 128},
        "hvparams": {"kernel": "/boot/k"},
        "nics": [{"mode": "bridged", "link": "br7"}],
    }
    run(wanted(**given), ctx)
    run(wanted(instance_name="web2", identify_defaults=True, **given), ctx)
    plain, short = (ctx.config.view().find_instance(name) for name in ("web1", "web2"))
    assert plain.hvparams == {"kernel": "/boot/k"}
    assert plain.beparams["vcpus"] == 1
    assert (short.hvparams, short.beparams) == ({}, {"maxmem": 256})
    assert short.nics[0].nicparams == {"link": "br7"}


def test_disks_have_an_entry_for_parameters_as_3_1_writes_it(ctx: FakeContext) -> None:
    run(wanted(disks=[{"size": 64}, {"size": 64}]), ctx)
    disks = ctx.config.view().instance_disks(ctx.config.view().find_instance("web1"))
    assert [disk.to_plain()["params"] for disk in disks] == [{}, {}]


def test_disks_are_wiped_in_steps_where_the_cluster_wants_it(ctx: FakeContext) -> None:
    config = ctx.config.config
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, prealloc_wipe_disks=True))
    wiped: list[tuple[int, int]] = []
    ctx.nodes.handlers["blockdev_wipe"] = lambda name, disk, offset_mib, size_mib: wiped.append((offset_mib, size_mib))
    run(wanted(disks=[{"size": "1200m"}]), ctx)
    assert wiped == [(0, 512), (512, 512), (1024, 176)]
    assert ctx.story.index("node2 blockdev_wipe") < ctx.story.index("node2 instance_os_add")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"disks": [{"size": 64, "spindles": 2}]}, "Disk 0: spindles are counted with exclusive storage only"),
        ({"disks": [{"size": 64, "access": "userspace"}]}, "Disk 0: access userspace is not possible"),
        ({"instance_communication": True}, "leave --communication out"),
        ({"src_path": "/x"}, "is about importing an instance: leave it out, or use mode import"),
        ({"compress": "gzip"}, "compress 'gzip' is about importing an instance"),
        ({"opportunistic_locking": True, "iallocator": "mine"}, "not possible with the allocator mine"),
        ({"opportunistic_locking": True, "pnode": "node1"}, "leave --opportunistic-locking or -n out"),
    ],
)
def test_what_nothing_acts_on_is_refused_by_name(ctx: FakeContext, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        run(wanted(**changes), ctx)
    assert words in str(caught.value)
    assert not [line for line in ctx.story if line.startswith("commit")]


def test_the_defaults_of_clients_are_not_refused(ctx: FakeContext) -> None:
    defaults = {
        "compress": "none",
        "source_shutdown_timeout": 120,
        "helper_startup_timeout": None,
        "disks": [{"size": 64, "spindles": None, "access": "kernelspace"}],
        "opportunistic_locking": True,
        "wait_for_sync": False,
        "file_driver": "blktap",
    }
    run(wanted(**defaults), ctx)
    assert not [line for line in ctx.lines if "helper guest" in line]
    assert "Disk template common opens its files by the driver loop: --file-driver blktap changes nothing" in ctx.lines
    assert "Disk template common has no mirrors: --no-wait-for-sync changes nothing" in ctx.lines


def test_times_for_a_helper_guest_that_nothing_needs_are_said_to_be_unused(ctx: FakeContext) -> None:
    run(wanted(helper_startup_timeout=5, helper_shutdown_timeout=60), ctx)
    assert "The times for a helper guest are not used: the scripts of OS 'noop+default' run on the node" in ctx.lines


def test_private_os_parameters_of_the_cluster_reach_the_scripts(ctx: FakeContext) -> None:
    config = ctx.config.config
    private = {"noop": {"key": "cluster", "realm": "x"}, "noop+default": {"realm": "y"}}
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, osparams_private_cluster=private))
    told: list[dict[str, Any]] = []
    ctx.nodes.handlers["instance_os_add"] = lambda name, instance, **_: told.append(instance.osparams_private)
    run(wanted(osparams_private={"key": "own"}), ctx)
    assert told == [{"key": "own", "realm": "y"}]
    assert ctx.config.view().find_instance("web1").osparams_private == {"key": "own"}


def test_what_is_to_be_as_inherited_is_not_kept(ctx: FakeContext) -> None:
    given = {"a": "default", "b": "own"}
    ctx.nodes.handlers["instance_os_add"] = lambda name, instance, **_: None
    run(wanted(osparams=given, osparams_private=given, hvparams={"kernel": "default"}), ctx)
    web1 = ctx.config.view().find_instance("web1")
    assert (web1.osparams, web1.osparams_private, web1.hvparams) == ({"b": "own"}, {"b": "own"}, {})


def test_a_creation_does_not_read_all_instances(ctx: FakeContext) -> None:
    """Of 20,000 that takes longer, and more memory, than all else."""
    config: Any = ctx.config.config
    macs: list[str] = []

    def read(kind: str) -> list[Any]:
        assert kind not in ("instances", "disks")
        return type(config).all(config, kind)

    def uses_mac(mac: str) -> bool:
        macs.append(mac)
        return len(macs) == 1

    config.all, config.uses_mac = read, uses_mac
    config.primary_instances = lambda *nodes: []  # by an index
    assert run(wanted(pnode="node2", nics=[{}, {}]), ctx) == ["node2"]
    made = [nic.mac for nic in config.find_instance("web1").nics]
    assert macs[1:] == made and macs[0] not in made, "one that is in use is not taken"


@pytest.mark.parametrize("starts", [True, False])
def test_hooks_are_told_whether_the_instance_is_started(ctx: FakeContext, starts: bool) -> None:
    operation = wanted(start=True, no_install=not starts, pnode="node1")
    view = ctx.config.view()
    facts = asyncio.run(operation.gather(ctx, view))  # type: ignore[arg-type]
    hooks = operation.hooks(view, operation.check(view, facts, ctx))  # type: ignore[arg-type]
    assert hooks is not None and hooks.env["INSTANCE_STATUS"] == str(starts)
