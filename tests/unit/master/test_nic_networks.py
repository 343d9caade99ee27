# SPDX-License-Identifier: BSD-2-Clause
"""NICs in networks: they take addresses when an instance is created, and give them back when it goes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import node_facts
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.master.operations.changes import AddInstance
from ganeti.model.configuration import Draft
from ganeti.model.network_pool import pool_of
from ganeti.model.objects import CLUSTER_KEY, Instance, Nic

operations.load()


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    context.nodes.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=None)
    context.nodes.handlers["all_instances_info"] = lambda name, **_: []
    for name, network in (("net1", "192.0.2.0/29"), ("alone", "198.51.100.0/29")):
        opcode = {"OP_ID": "OP_NETWORK_ADD", "network_name": name, "network": network, "mac_prefix": "02:00:01"}
        run(decode(opcode | {"add_reserved_ips": ["192.0.2.1"] if name == "net1" else None}), context)
    linked = {"network_name": "net1", "group_name": "default", "network_mode": "routed", "network_link": "lo"}
    run(decode({"OP_ID": "OP_NETWORK_CONNECT", **linked}), context)
    return context


def create(ctx: FakeContext, name: str, nic: dict[str, Any], **parameters: Any) -> Nic:
    opcode = {
        "OP_ID": "OP_INSTANCE_CREATE",
        "instance_name": name,
        "mode": "create",
        "disk_template": "none",
        "disks": [],
        "nics": [nic],
        "no_install": True,
        "start": False,
        "pnode": "node2",
    }
    run(decode(opcode | parameters), ctx)
    return ctx.config.view().find_instance(name).nics[0]


def taken(ctx: FakeContext) -> list[str]:
    pool = pool_of(ctx.config.view().find_network("net1"))
    return [pool.address(position) for position, sign in enumerate(pool.taken) if sign == "1"]


def test_an_address_is_chosen_and_given_back(ctx: FakeContext) -> None:
    nic = create(ctx, "web1", {"network": "net1", "ip": "pool"})
    assert nic.ip == "192.0.2.2", "the lowest that is free"
    assert nic.nicparams == {"mode": "routed", "link": "lo", "vlan": ""}
    assert nic.mac.startswith("02:00:01:")
    assert "Chose IP 192.0.2.2 from network net1" in " ".join(ctx.log.lines)
    assert create(ctx, "web2", {"network": "net1", "ip": "192.0.2.5"}).ip == "192.0.2.5"
    assert create(ctx, "web3", {"network": "net1"}).ip is None
    assert create(ctx, "web4", {"network": "net1", "ip": "192.0.2.1"}, conflicts_check=False).ip == "192.0.2.1"
    assert taken(ctx) == ["192.0.2.1", "192.0.2.2", "192.0.2.5"]
    run(decode({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "web1"}), ctx)
    assert taken(ctx) == ["192.0.2.1", "192.0.2.5"]


@pytest.mark.parametrize(
    ("nic", "words"),
    [
        ({"ip": "pool"}, "add network=NETWORK"),
        ({"network": "net1", "mode": "bridged"}, "mode, link and vlan follow from network 'net1'"),
        ({"network": "net1", "ip": "10.0.0.1"}, r"'10\.0\.0\.1' is not an address of network 'net1'"),
        ({"network": "net1", "ip": "192.0.2.1"}, "already in use or reserved"),
        ({"network": "alone", "ip": "pool"}, r"not connected to node group 'default': connect it with gnt-network"),
        ({"network": "nonet"}, "'nonet' not known"),
        ({"ip": "192.0.2.3"}, "belongs to network net1"),
    ],
)
def test_what_cannot_be_is_refused(ctx: FakeContext, nic: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        create(ctx, "web1", nic)
    assert (taken(ctx), ctx.config.view().instances()) == ([], [])


def test_a_full_pool_says_so(ctx: FakeContext) -> None:
    for number in range(5):
        create(ctx, f"web{number}", {"network": "net1", "ip": "pool"})
    with pytest.raises(PrerequisiteError, match=r"All addresses of the network 192\.0\.2\.0/29 are taken"):
        create(ctx, "late", {"network": "net1", "ip": "pool"})


def test_two_jobs_that_chose_the_same_address_get_two(ctx: FakeContext) -> None:
    config = ctx.config.view()
    network = config.find_network("net1").uuid

    def add(name: str, from_pool: list[int]) -> str | None:
        nic = Nic(uuid=f"nic-{name}", mac=f"aa:00:00:00:00:{name}", ip="192.0.2.2", network=network)
        instance = Instance(uuid=name, name=name, primary_node="uuid-node1", nics=[nic], os="", hypervisor="pretend")
        draft = Draft(config, 1.0)
        added: Instance = AddInstance(instance=instance, disks=[], from_pool=from_pool).apply(draft)
        for (kind, uuid), obj in draft.touched.items():
            if obj is not None:
                config.put(kind, uuid, obj)
        return added.nics[0].ip

    assert [add("01", [0]), add("02", [0])] == ["192.0.2.2", "192.0.2.3"]
    with pytest.raises(PrerequisiteError, match="in use by an instance already"):
        add("03", [])


@pytest.mark.parametrize("first", [{}, {"link": "usual0"}])
def test_an_inherited_link_is_the_same_as_a_named_one(ctx: FakeContext, first: dict[str, str]) -> None:
    config = ctx.config.view()
    inherited = {"default": {"mode": "routed", "link": "usual0"}}
    config.put("cluster", CLUSTER_KEY, replace(config.cluster, nicparams=inherited))
    second = {"link": "usual0"} if not first else {}
    create(ctx, "web1", {"ip": "203.0.113.7", **first})
    with pytest.raises(PrerequisiteError, match=r"IP address 203.0.113.7 is that of a NIC of web1 on the same link"):
        create(ctx, "web2", {"ip": "203.0.113.7", **second})
    create(ctx, "web3", {"ip": "203.0.113.7", "link": "other0"})


def test_one_address_outside_networks_is_given_once_on_a_link(ctx: FakeContext) -> None:
    routed = {"mode": "routed", "ip": "203.0.113.7", "link": "lo"}
    create(ctx, "web1", routed)
    before = ctx.config.view().cluster.serial_no
    with pytest.raises(
        PrerequisiteError, match=r"NIC 0: IP address 203.0.113.7 is that of a NIC of web1 on the same link"
    ):
        create(ctx, "web2", routed)
    with pytest.raises(PrerequisiteError, match=r"NIC 1: IP address 203.0.113.8 is that of a NIC of this instance"):
        create(ctx, "web2", routed, nics=[routed | {"ip": "203.0.113.8"}] * 2)
    assert ctx.config.view().cluster.serial_no == before
    assert create(ctx, "web2", routed | {"link": "eth9"}).ip == "203.0.113.7", "another link is another network"
    modify = {"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "web2"}
    with pytest.raises(PrerequisiteError, match=r"203.0.113.7 is that of a NIC of web1"):
        run(decode(modify | {"nics": [["modify", 0, {"link": "lo"}]]}), ctx)
    with pytest.raises(PrerequisiteError, match=r"NIC 1: IP address 203.0.113.7 is that of a NIC of web1"):
        run(decode(modify | {"nics": [["add", -1, routed]]}), ctx)
    run(decode(modify | {"nics": [["modify", 0, {"ip": "203.0.113.9"}]]}), ctx)
    run(decode(modify | {"nics": [["modify", 0, {"link": "lo"}]]}), ctx)
    run(
        decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "web1", "nics": [["modify", 0, {"vlan": ""}]]}), ctx
    )


def modify(ctx: FakeContext, **values: Any) -> Nic:
    run(decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "web1", "nics": [["modify", -1, values]]}), ctx)
    return ctx.config.view().find_instance("web1").nics[-1]


def test_a_nic_keeps_the_address_that_is_kept_back_for_it(ctx: FakeContext) -> None:
    create(ctx, "web1", {"network": "net1", "ip": "192.0.2.1"}, conflicts_check=False)
    nic = modify(ctx, name="eth0")
    assert (nic.name, nic.ip) == ("eth0", "192.0.2.1")
    assert modify(ctx, ip="192.0.2.2").ip == "192.0.2.2"
    with pytest.raises(PrerequisiteError, match=r"NIC 0: IP address 192\.0\.2\.1 .* already in use or reserved"):
        modify(ctx, ip="192.0.2.1")
    run(decode({"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": "net1", "add_reserved_ips": ["192.0.2.2"]}), ctx)
    assert modify(ctx, name="eth1").ip == "192.0.2.2"


def test_a_nic_outside_networks_keeps_its_address(ctx: FakeContext) -> None:
    create(ctx, "web1", {"ip": "192.0.2.3"}, conflicts_check=False)
    assert modify(ctx, name="eth0").ip == "192.0.2.3"
    add = ["add", -1, {"ip": "192.0.2.4"}]
    with pytest.raises(PrerequisiteError, match=r"NIC 1: address 192\.0\.2\.4 belongs to network net1"):
        run(decode({"OP_ID": "OP_INSTANCE_SET_PARAMS", "instance_name": "web1", "nics": [add]}), ctx)
