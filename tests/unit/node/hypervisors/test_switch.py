# SPDX-License-Identifier: BSD-2-Clause
"""Ports of Open vSwitch when devices come, go, and have names that were used before."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.one_node import OneNode
from tests.fakes.open_vswitch import Switches

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors import connections, switch
from ganeti.node.hypervisors.kvm import taps
from ganeti.node.hypervisors.kvm.places import Places


@pytest.fixture
def switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Switches:
    made = Switches(tmp_path)
    monkeypatch.setattr(switch, "VSCTL", str(made.program))
    return made


def nic(**changes: Any) -> NicSpec:
    given = {"index": 0, "uuid": "nic", "mac": "aa:00:00:00:00:01", "mode": "openvswitch", "link": "sw0", "vlan": ""}
    return NicSpec(**{**given, "ip": None, "name": None, "network": None, **changes})


@pytest.mark.parametrize(
    ("vlan", "columns"),
    [
        ("", {}),
        (".7", {"tag": "7"}),
        ("7", {"tag": "7"}),
        (":8:9", {"trunks": "8,9", "vlan_mode": "trunk"}),
        (".7:8", {"tag": "7", "trunks": "8", "vlan_mode": "native-untagged"}),
    ],
)
def test_a_port_has_the_vlans_of_its_nic(node: OneNode, switches: Switches, vlan: str, columns: dict[str, str]) -> None:
    asyncio.run(switch.join(node.state.world, nic(vlan=vlan), "tap0"))
    assert switches.ports == {"tap0": {"bridge": "sw0", **columns}}


def test_a_port_that_was_left_lends_its_vlan_and_switch_to_nobody(node: OneNode, switches: Switches) -> None:
    asyncio.run(switch.join(node.state.world, nic(vlan=".7"), "tap0"))
    asyncio.run(switch.join(node.state.world, nic(), "tap0"))
    assert switches.ports == {"tap0": {"bridge": "sw0"}}
    asyncio.run(switch.join(node.state.world, nic(link="sw1"), "tap0"))
    assert switches.ports == {"tap0": {"bridge": "sw1"}}


def test_a_port_that_was_left_does_not_take_the_device_of_a_script(
    node: OneNode, switches: Switches, tmp_path: Path
) -> None:
    script = node.program("/etc/ganeti/kvm-vif-bridge", f"cp {tmp_path}/ports.json {tmp_path}/seen")
    for one in (nic(mode="bridged", link="br0"), nic()):
        asyncio.run(switch.join(node.state.world, nic(vlan=".7"), "tap0"))
        asyncio.run(connections.connect(node.state.world, str(script), "web1", [], one, "tap0"))
        assert (tmp_path / "seen").read_text() == "{}"


def test_a_switch_that_is_missing_is_named(node: OneNode, switches: Switches) -> None:
    with pytest.raises(HypervisorError, match=r"Cannot put tap0 into the switch 'sw9': .*no bridge named sw9"):
        asyncio.run(switch.join(node.state.world, nic(link="sw9"), "tap0"))


def test_a_guest_that_ended_leaves_the_switch(node: OneNode, switches: Switches) -> None:
    places, world = Places(node.paths), node.state.world
    taps.note(places, "web1", nic(), taps.Tap("tap0"))
    asyncio.run(switch.join(world, nic(), "tap0"))
    asyncio.run(taps.forget(world, places, "web1"))
    assert switches.ports == {}


def test_a_guest_that_crashed_takes_no_port_from_the_next_one_with_its_tap(node: OneNode, switches: Switches) -> None:
    places, world = Places(node.paths), node.state.world
    for name in ("crashed", "next"):
        taps.note(places, name, nic(), taps.Tap("tap0"))
        asyncio.run(switch.join(world, nic(), "tap0"))
    asyncio.run(taps.forget(world, places, "crashed"))
    assert switches.ports == {"tap0": {"bridge": "sw0"}}
