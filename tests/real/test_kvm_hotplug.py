# SPDX-License-Identifier: BSD-2-Clause
"""NICs that come and go while a real guest runs, seen from inside the guest, before and after a live migration."""

import re
import socket

import pytest
from msgspec.structs import replace
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import BRIDGE, Lab, LabNode

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import InstanceSpec
from ganeti.node.hypervisors.kvm.sockets import short_path

pytestmark = pytest.mark.real
NAME = "plug"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


def let_it_tell(node: LabNode) -> None:
    """Have the guest write the addresses of its NICs to its console, again and again."""
    path = str(node.root / "run/ganeti/kvm-hypervisor/ctrl" / f"{NAME}.serial")
    with socket.socket(socket.AF_UNIX) as serial:
        with short_path(path) as short:
            serial.connect(short)
        serial.sendall(b"\n")
        node.wait_console(NAME, f"^{NAME}:.*# ")
        serial.sendall(b"while :; do echo SEE''N=$(cat /sys/class/net/eth*/address)=; sleep 0.2; done\n")
        node.wait_console(NAME, "SEEN=.*=")


def has(node: LabNode, spec: InstanceSpec) -> None:
    """The guest sees just these NICs, from now on: a change reaches it a moment after QEMU."""
    wanted = sorted(nic.mac for nic in spec.nics)
    told = len(seen(node))
    kvm_lab.wait_until(
        lambda: [sorted(one.split()) for one in seen(node)[told + 1 :][-1:]] == [wanted],
        f"the guest to see {wanted}",
        lambda: str(seen(node)[-3:]),
    )
    assert len(node.taps()) == len(wanted)


def seen(node: LabNode) -> list[str]:
    return re.findall("SEEN=(.*)=", node.console(NAME))


@pytest.mark.parametrize("machine", ["q35", "pc"])
def test_nics_come_and_go_before_and_after_a_migration(lab: Lab, machine: str) -> None:
    first, second = lab.nodes
    for node in lab.nodes:
        node.forget_console(NAME)
    spec = lab.instance(NAME, hvparams={"machine_version": machine})
    lab.start(first, spec)
    first.wait_console(NAME, "^HB 1")
    let_it_tell(first)
    added = hypervisor_world.nic(1, link=BRIDGE)
    more = replace(spec, nics=[*spec.nics, added])
    first.call("change_nics", spec=more)
    has(first, more)
    with pytest.raises(HypervisorError, match="'br-missing' does not exist"):
        first.call("change_nics", spec=replace(more, nics=[*more.nics, hypervisor_world.nic(2, link="br-missing")]))
    has(first, more)
    changed = replace(more, nics=[spec.nics[0], replace(added, mac="aa:00:00:00:00:77")])
    first.call("change_nics", spec=changed)
    has(first, changed)
    less = replace(changed, nics=[replace(changed.nics[1], index=0)])
    first.call("change_nics", spec=less)
    has(first, less)
    lab.begin(less, first, second)
    lab.finish(less, first, second)
    has(second, less)
    again = replace(less, nics=[*less.nics, hypervisor_world.nic(1, uuid=spec.nics[0].uuid, link=BRIDGE)])
    second.call("change_nics", spec=again)
    has(second, again)
    second.call("stop", name=NAME, timeout_s=0)
    assert first.leftovers(NAME) == second.leftovers(NAME) == []
