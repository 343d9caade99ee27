# SPDX-License-Identifier: BSD-2-Clause
"""The opcodes about networks, as they answer Debian's packages."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import PrerequisiteError, TagError
from ganeti.master import operations
from ganeti.master.operation import decode
from ganeti.model.network_pool import pool_of
from ganeti.model.objects import Network, Nic

operations.load()

KEPT = ["192.0.2.0", "192.0.2.1", "192.0.2.5", "192.0.2.6", "192.0.2.15"]


@pytest.fixture
def ctx() -> FakeContext:
    context = FakeContext(configuration(), catalogue())
    act(context, "ADD", network="192.0.2.0/28", gateway="192.0.2.1", add_reserved_ips=["192.0.2.5", "192.0.2.6"])
    return context


def act(ctx: FakeContext, verb: str, name: str = "net1", **parameters: Any) -> Any:
    return run(decode({"OP_ID": f"OP_NETWORK_{verb}", "network_name": name, **parameters}), ctx)


def net(ctx: FakeContext, name: str = "net1") -> Network:
    return ctx.config.view().find_network(name)


def kept(ctx: FakeContext, name: str = "net1") -> list[str]:
    pool = pool_of(net(ctx, name))
    return [pool.address(position) for position, sign in enumerate(pool.kept) if sign == "1"]


def connect(ctx: FakeContext, **parameters: Any) -> None:
    act(ctx, "CONNECT", **{"group_name": "default", "network_mode": "routed", "network_link": "lo"} | parameters)


def with_nic(ctx: FakeContext, name: str, nic: Nic) -> None:
    config = ctx.config.view()
    add_instance(config, name)
    config.put("instances", f"uuid-{name}", replace(config.instance(f"uuid-{name}"), nics=[nic]))


def test_a_network_keeps_back_what_it_is_told(ctx: FakeContext) -> None:
    assert kept(ctx) == KEPT
    assert net(ctx).reservations == "0" * 16


def test_addresses_of_nodes_are_kept_back(ctx: FakeContext) -> None:
    act(ctx, "ADD", "nodes", network="10.77.0.0/24")
    assert kept(ctx, "nodes") == [f"10.77.0.{last}" for last in (0, 1, 2, 3, 100, 255)]
    assert "Reserved IP address of node 'node2' (10.77.0.2)" in " ".join(ctx.log.lines)
    act(ctx, "ADD", "free", network="10.77.0.0/24", conflicts_check=False)
    assert kept(ctx, "free") == ["10.77.0.0", "10.77.0.255"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"name": "net1"}, "network 'net1' already"),
        ({"name": "n et"}, r"A network cannot be called 'n et': use no spaces and none of the signs , / \|"),
        ({"name": "1b1d1b1d-1b1d-1b1d-1b1d-1b1d1b1d1b1d"}, "looks like a UUID"),
        ({"network": "10.0.0.0/8"}, "from 16 to 30"),
        ({"network": "10.0.0.1/24"}, "not an IPv4 network"),
        ({"gateway": "10.1.0.1"}, r"gateway 10\.1\.0\.1 is not an address of the network"),
        ({"add_reserved_ips": ["10.1.0.1"]}, "is not in the network"),
        ({"add_reserved_ips": ["ten"]}, "not an IPv4 address"),
        ({"network6": "2001:db8::/64", "gateway6": "2001:db9::1"}, "is not an address of the network"),
        ({"network6": "all"}, "not an IPv6 network"),
        ({"network6": "fd00::%eth0/64"}, "names no interface of a node"),
        ({"network6": "fd00::/64", "gateway6": "fd00::1%eth0"}, "names no interface of a node"),
        ({"mac_prefix": "aa"}, "MAC prefix 'aa'"),
    ],
)
def test_what_cannot_be_is_refused(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    given = {"name": "net2", "network": "10.0.0.0/24", **parameters}
    with pytest.raises(PrerequisiteError, match=words):
        act(ctx, "ADD", **given)
    assert [network.name for network in ctx.config.view().networks()] == ["net1"]


def test_tags_are_checked(ctx: FakeContext) -> None:
    with pytest.raises(TagError):
        act(ctx, "ADD", "net2", network="10.0.0.0/24", tags=["a b"])


def test_a_gateway_is_kept_back_instead_of_the_old_one(ctx: FakeContext) -> None:
    act(ctx, "SET_PARAMS", gateway="192.0.2.2")
    assert kept(ctx) == ["192.0.2.0", "192.0.2.2", "192.0.2.5", "192.0.2.6", "192.0.2.15"]
    act(ctx, "SET_PARAMS", gateway="none", network6="2001:db8::/64", gateway6="2001:db8::1", mac_prefix="AA:bb:CC")
    found = net(ctx)
    assert (found.gateway, found.network6, found.gateway6) == (None, "2001:db8::/64", "2001:db8::1")
    assert (found.mac_prefix, kept(ctx)) == ("aa:bb:cc", ["192.0.2.0", "192.0.2.5", "192.0.2.6", "192.0.2.15"])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"gateway": "192.0.2.9", "add_reserved_ips": ["192.0.2.8"]}, "gateway and reserved ips at once"),
        ({"gateway": "192.0.2.6"}, "'192.0.2.6' is already reserved"),
        ({"gateway": "10.0.0.1"}, "is not an address of the network"),
        ({}, "at least one parameter"),
    ],
)
def test_changes_that_cannot_be_are_refused(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    before = net(ctx)
    with pytest.raises(PrerequisiteError, match=words):
        act(ctx, "SET_PARAMS", **parameters)
    assert net(ctx) == before


def test_reservations_come_and_go(ctx: FakeContext) -> None:
    act(ctx, "SET_PARAMS", add_reserved_ips=["192.0.2.7", "192.0.2.5", "1.2.3.4"], remove_reserved_ips=["192.0.2.6"])
    assert kept(ctx) == ["192.0.2.0", "192.0.2.1", "192.0.2.5", "192.0.2.7", "192.0.2.15"]
    said = " ".join(ctx.log.lines)
    assert "Cannot reserve IP address 192.0.2.5: Address 192.0.2.5 is kept back already" in said
    assert "Cannot reserve IP address 1.2.3.4" in said
    before = net(ctx)
    act(ctx, "SET_PARAMS", remove_reserved_ips=["192.0.2.9", "192.0.2.1"])
    assert net(ctx) == before


def test_the_ends_of_a_network_are_given_to_routed_guests_alone(ctx: FakeContext) -> None:
    act(ctx, "SET_PARAMS", remove_reserved_ips=["192.0.2.15", "192.0.2.5"])
    assert kept(ctx) == ["192.0.2.0", "192.0.2.1", "192.0.2.6"]
    [told] = [line for line in ctx.log.lines if "only where its NIC is routed" in line]
    assert "Address 192.0.2.15 is the first or last of 192.0.2.0/28" in told


def test_an_ipv6_router_without_a_network_is_told_of(ctx: FakeContext) -> None:
    act(ctx, "ADD", "net2", network="10.0.0.0/24", gateway6="fd00::1")
    act(ctx, "SET_PARAMS", network6="fd00::/64", gateway6="fd00::1")
    assert len([line for line in ctx.log.lines if "The IPv6 router fd00::1 is of no use" in line]) == 1
    act(ctx, "SET_PARAMS", network6="none")
    assert len([line for line in ctx.log.lines if "The IPv6 router fd00::1 is of no use" in line]) == 2
    act(ctx, "SET_PARAMS", gateway6="none")
    assert len([line for line in ctx.log.lines if "is of no use" in line]) == 2


def test_a_group_is_connected_and_disconnected(ctx: FakeContext) -> None:
    connect(ctx)
    group = ctx.config.view().find_group("default")
    assert group.networks == {net(ctx).uuid: {"mode": "routed", "link": "lo", "vlan": ""}}
    connect(ctx)
    assert "already mapped" in " ".join(ctx.log.lines)
    with pytest.raises(PrerequisiteError, match="connected to the node groups default"):
        act(ctx, "REMOVE")
    act(ctx, "DISCONNECT", group_name="default")
    act(ctx, "DISCONNECT", group_name="default")
    assert "not mapped" in " ".join(ctx.log.lines)
    act(ctx, "REMOVE")
    assert ctx.config.view().networks() == []


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"network_mode": "pool"}, "'mode' cannot be 'pool': it must be one of bridged, routed, openvswitch"),
        ({"network_vlan": "100,200"}, "'vlan' cannot be '100,200'"),
    ],
)
def test_a_group_is_connected_as_a_nic_can_be(ctx: FakeContext, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PrerequisiteError, match=words):
        connect(ctx, **parameters)
    assert ctx.config.view().find_group("default").networks == {}


def test_instances_stand_in_the_way(ctx: FakeContext) -> None:
    with_nic(ctx, "stranger", Nic(uuid="a", mac="aa:00:00:00:00:01", ip="192.0.2.9"))
    with pytest.raises(PrerequisiteError, match=r"without being in it: stranger: nic0/192\.0\.2\.9"):
        connect(ctx)
    connect(ctx, conflicts_check=False)
    with_nic(ctx, "user", Nic(uuid="b", mac="aa:00:00:00:00:02", ip="192.0.2.10", network=net(ctx).uuid))
    with pytest.raises(PrerequisiteError, match=r"use network 'net1': user: nic0/192\.0\.2\.10"):
        act(ctx, "DISCONNECT", group_name="default")


def test_a_network_with_an_instance_in_a_group_without_it_stays(ctx: FakeContext) -> None:
    with_nic(ctx, "web", Nic(uuid="nic", mac="aa:00:00:00:00:01", network=net(ctx).uuid, ip="192.0.2.9"))
    with pytest.raises(PrerequisiteError, match=r"use network 'net1': web: nic0/192\.0\.2\.9; remove these"):
        act(ctx, "REMOVE")
    assert net(ctx).name == "net1"


def test_a_network_is_renamed(ctx: FakeContext) -> None:
    assert act(ctx, "RENAME", new_name="front") == "front"
    assert [network.name for network in ctx.config.view().networks()] == ["front"]
    with pytest.raises(PrerequisiteError, match="'front' already"):
        act(ctx, "RENAME", "front", new_name="front")
    with pytest.raises(PrerequisiteError, match="cannot be called 'a/b'"):
        act(ctx, "RENAME", "front", new_name="a/b")


def test_hooks_know_the_network(ctx: FakeContext) -> None:
    view = ctx.config.view()
    operation = decode({"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": "net1", "gateway": "192.0.2.9"})
    hooks = operation.hooks(view, operation.check(view, None, ctx))
    assert hooks is not None
    assert hooks.env == {
        "NETWORK_NAME": "net1",
        "NETWORK_SUBNET": "192.0.2.0/28",
        "NETWORK_GATEWAY": "192.0.2.9",
        "NETWORK_TAGS": "",
    }
    for verb in ("CONNECT", "DISCONNECT"):
        way = {"network_mode": "routed", "network_link": "lo"} if verb == "CONNECT" else {}
        operation = decode({"OP_ID": f"OP_NETWORK_{verb}", "network_name": "net1", "group_name": "default", **way})
        hooks = operation.hooks(view, operation.check(view, None, ctx))
        assert hooks is not None and (hooks.object_type, hooks.env["GROUP_NAME"]) == ("NETWORK", "default")


def test_none_is_no_router(ctx: FakeContext) -> None:
    none = {"gateway": "none", "network6": "none", "gateway6": "none", "mac_prefix": "none"}
    act(ctx, "ADD", "bare", network="198.51.100.0/30", **none)
    bare = net(ctx, "bare")
    assert (bare.gateway, bare.network6, bare.gateway6, bare.mac_prefix) == (None,) * 4
