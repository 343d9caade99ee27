# SPDX-License-Identifier: BSD-2-Clause
"""Devices of NICs in bridges and their VLANs, and the administrator's own script that connects them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.one_node import OneNode

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors import connections
from ganeti.node.hypervisors.switch import vlans_of


def bridged(vlan: str) -> NicSpec:
    nic: dict[str, Any] = {"index": 0, "uuid": "nic", "mac": "aa:00:00:00:00:01", "mode": "bridged", "link": "br0"}
    return NicSpec(**nic, vlan=vlan, ip=None, name=None, network=None)


def test_the_script_is_told_of_the_network_as_hooks_are(node: OneNode, tmp_path: Path) -> None:
    script = node.program("/etc/ganeti/kvm-vif-bridge", f"env >{tmp_path}/told")
    network = {
        "name": "lan",
        "uuid": "u1",
        "network": "192.0.2.0/24",
        "gateway": "192.0.2.1",
        "network6": "2001:db8::/64",
        "gateway6": None,
        "mac_prefix": "aa:bb:cc",
        "tags": ["a", "b"],
        "serial_no": 3,
    }
    nic = replace(bridged(".5"), network=network, ip="192.0.2.7", name="front")
    asyncio.run(connections.connect(node.state.world, str(script), "web1", ["t1", "t2"], nic, "tap7"))
    told = dict(line.split("=", 1) for line in (tmp_path / "told").read_text().splitlines())
    assert {name: value for name, value in told.items() if name not in ("PATH", "PWD", "_", "SHLVL")} == {
        "INSTANCE": "web1",
        "INTERFACE": "tap7",
        "INTERFACE_INDEX": "0",
        "INTERFACE_NAME": "front",
        "INTERFACE_UUID": "nic",
        "MAC": "aa:00:00:00:00:01",
        "IP": "192.0.2.7",
        "MODE": "bridged",
        "LINK": "br0",
        "BRIDGE": "br0",
        "VLAN": ".5",
        "TAGS": "t1 t2",
        "NETWORK_NAME": "lan",
        "NETWORK_UUID": "u1",
        "NETWORK_SUBNET": "192.0.2.0/24",
        "NETWORK_GATEWAY": "192.0.2.1",
        "NETWORK_SUBNET6": "2001:db8::/64",
        "NETWORK_MAC_PREFIX": "aa:bb:cc",
        "NETWORK_TAGS": "a b",
    }


class Attributes(dict[str, Any]):
    def get_attr(self, name: str) -> Any:
        return self.get(name)


class Links:
    """A bridge br0 and a device tap0; *vlans* are those of the port tap0, which has the bridge's own when it joins."""

    def __init__(self, *, filters: int, default: int) -> None:
        data = Attributes(IFLA_BR_VLAN_FILTERING=filters, IFLA_BR_VLAN_DEFAULT_PVID=default)
        self._bridge = Attributes(IFLA_LINKINFO=Attributes(IFLA_INFO_KIND="bridge", IFLA_INFO_DATA=data), IFLA_MTU=1500)
        self._default = default
        self.vlans: dict[int, list[str]] = {}

    async def __aenter__(self) -> Links:
        return self

    async def __aexit__(self, *ignored: object) -> None: ...

    async def link_lookup(self, ifname: str) -> list[int]:
        return [{"br0": 1, "tap0": 2}[ifname]]

    async def get_links(self, index: int) -> AsyncIterator[Attributes]:
        async def messages() -> AsyncIterator[Attributes]:
            yield self._bridge

        assert index == 1
        return messages()

    async def link(self, verb: str, *, index: int, **values: Any) -> None:
        assert (verb, index) == ("set", 2)
        if "master" in values and self._default:
            self.vlans[self._default] = ["pvid", "untagged"]

    async def vlan_filter(self, verb: str, *, index: int, vlan_info: dict[str, Any]) -> None:
        assert index == 2
        if verb == "del":
            self.vlans.pop(vlan_info["vid"], None)
        else:
            self.vlans[vlan_info["vid"]] = vlan_info.get("flags", [])


@pytest.mark.parametrize("default", [0, 1, 100])
def test_a_port_is_in_the_vlans_of_its_nic_and_in_no_other(
    node: OneNode, monkeypatch: pytest.MonkeyPatch, default: int
) -> None:
    own = ["pvid", "untagged"]
    for vlan, wanted in {".5": {5: own}, ":6:7": {6: [], 7: []}, ".5:6": {5: own, 6: []}}.items():
        links = Links(filters=1, default=default)
        monkeypatch.setattr(connections, "_open_links", lambda links=links: links)
        asyncio.run(connections.connect(node.state.world, "/missing", "web1", [], bridged(vlan), "tap0"))
        assert links.vlans == wanted


def test_a_bridge_that_does_not_filter_vlans_is_refused(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes VLANs, and passes the packets of all to all."""
    monkeypatch.setattr(connections, "_open_links", lambda: Links(filters=0, default=1))
    with pytest.raises(HypervisorError, match="ip link set br0 type bridge vlan_filtering 1"):
        asyncio.run(connections.connect(node.state.world, "/missing", "web1", [], bridged(".5"), "tap0"))
    asyncio.run(connections.connect(node.state.world, "/missing", "web1", [], bridged(""), "tap0"))


@pytest.mark.parametrize(
    ("text", "access", "trunks"),
    [(".5", 5, []), ("5", 5, []), (":5:6", None, [5, 6]), (".1:5:6", 1, [5, 6])],
)
def test_vlans(text: str, access: int | None, trunks: list[int]) -> None:
    assert vlans_of(text) == (access, trunks)


def test_what_the_script_puts_into_the_background_goes_on(node: OneNode, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = node.program("/etc/ganeti/kvm-vif-bridge", f"(sleep 0.1; echo $INTERFACE >{told}) >/dev/null 2>&1 &")
    asyncio.run(connections.connect(node.state.world, str(script), "web1", [], bridged(""), "tap7"))
    deadline = time.monotonic() + 10
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert told.read_text() == "tap7\n"
