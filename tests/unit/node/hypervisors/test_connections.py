# SPDX-License-Identifier: BSD-2-Clause
"""The administrator's own script that connects the devices of NICs."""

import asyncio
import time
from pathlib import Path

from tests.fakes.one_node import OneNode

from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors import connections


def test_what_the_script_puts_into_the_background_goes_on(node: OneNode, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = node.program("/etc/ganeti/kvm-vif-bridge", f"(sleep 0.1; echo $INTERFACE >{told}) >/dev/null 2>&1 &")
    nic = NicSpec(
        index=0,
        uuid="nic",
        mac="aa:00:00:00:00:01",
        mode="bridged",
        link="br0",
        vlan="",
        ip=None,
        name=None,
        network=None,
    )
    asyncio.run(connections.connect(node.state.world, str(script), "web1", [], nic, "tap7"))
    deadline = time.monotonic() + 10
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert told.read_text() == "tap7\n"
