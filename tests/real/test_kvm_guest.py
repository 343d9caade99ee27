# SPDX-License-Identifier: BSD-2-Clause
"""Life of a real guest: it beats on its disk, answers pings, outlives the daemon, and leaves nothing when it goes."""

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import GUEST_ADDRESS, Lab, LabNode

from ganeti.base.errors import HypervisorError

pytestmark = pytest.mark.real
NAME = "beat"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


@pytest.fixture
def node(lab: Lab):
    first = lab.nodes[0]
    first.forget_console(NAME)
    first.log.clear()
    yield first
    first.call("stop", name=NAME, timeout_s=0)


def last_beat_on_disk(lab: Lab) -> int:
    return int((lab.directory / f"{NAME}.img").read_bytes()[:8])


def test_a_guest_beats_answers_and_obeys_the_power_button(lab: Lab, node: LabNode) -> None:
    lab.start(node, lab.instance(NAME))
    node.wait_console(NAME, "^BOOTED-OK beat 10.99.0.10/24 /dev/vda")
    node.wait_beats(NAME)
    assert node.taps() != []
    node.run("busybox", "ping", "-c", "1", "-W", "5", GUEST_ADDRESS)
    node.call("stop", name=NAME, timeout_s=30)
    assert "POWER-BUTTON" in node.console(NAME)
    assert last_beat_on_disk(lab) >= node.beats(NAME)[-1] > 0
    assert node.leftovers(NAME) == []
    assert not [sentence for sentence in node.log if "is ended" in sentence]


def test_a_guest_that_has_not_booted_yet_powers_off_once_it_has(lab: Lab, node: LabNode) -> None:
    lab.start(node, lab.instance(NAME))
    node.call("stop", name=NAME, timeout_s=60)
    assert "POWER-BUTTON" in node.console(NAME)
    assert not [sentence for sentence in node.log if "is ended" in sentence]
    assert node.leftovers(NAME) == []


def test_a_guest_outlives_its_daemon_and_can_be_reset(lab: Lab, node: LabNode) -> None:
    spec = lab.instance(NAME)
    lab.start(node, spec)
    node.wait_beats(NAME, 1)
    pid = node.pid(NAME)
    node.kill_daemon()
    node.wait_beats(NAME)
    assert node.state(NAME) == "running"
    node.call("reboot", spec=spec, disks=lab.disks(NAME), hard=False)
    kvm_lab.wait_until(lambda: len(re.findall("BOOTED-OK", node.console(NAME))) == 2, "the second boot")
    resumed = int(re.findall(r"HB-RESUME (\d+)", node.console(NAME))[-1])
    assert resumed >= 1  # the disk kept the beats
    assert node.pid(NAME) == pid
    lab.start(node, spec)  # starting what runs does no harm
    assert node.pid(NAME) == pid
    node.call("stop", name=NAME, timeout_s=0)
    assert node.leftovers(NAME) == []


def test_a_guest_that_powers_itself_off_is_shown_as_such(lab: Lab, node: LabNode) -> None:
    arguments = {"user_shutdown": True}
    lab.start(node, lab.instance(NAME, hvparams=arguments, nics=0))
    node.wait_beats(NAME, 1)
    sockets = node.root / "run/ganeti/kvm-hypervisor/ctrl"
    kvm_lab.run("sh", "-c", f"cd {sockets} && echo system_powerdown | socat -t1 - UNIX-CONNECT:{NAME}.monitor")
    kvm_lab.wait_until(lambda: node.state(NAME) == "shutdown", "the guest to be off")
    node.call("stop", name=NAME, timeout_s=30)
    assert node.leftovers(NAME) == []


def test_a_missing_bridge_is_named_and_nothing_is_left(lab: Lab, node: LabNode) -> None:
    spec = lab.instance(NAME)
    broken = hypervisor_world.nic(1, link="br-missing")
    with pytest.raises(HypervisorError, match="'br-missing' does not exist"):
        lab.start(node, hypervisor_world.instance("kvm", NAME, nics=[*spec.nics, broken]))
    with pytest.raises(HypervisorError, match="'lo' of NIC 0 is not a bridge"):
        lab.start(node, hypervisor_world.instance("kvm", NAME, nics=[hypervisor_world.nic(link="lo")]))
    with pytest.raises(HypervisorError, match="openvswitch-switch"):
        lab.start(node, hypervisor_world.instance("kvm", NAME, nics=[hypervisor_world.nic(mode="openvswitch")]))
    assert node.leftovers(NAME) == []


def test_a_routed_nic_gets_its_route_and_loses_it_with_the_guest(lab: Lab, node: LabNode) -> None:
    routed = hypervisor_world.nic(mode="routed", link="100", ip="10.77.0.9")
    lab.start(node, hypervisor_world.instance("kvm", NAME, nics=[routed]))
    (tap,) = node.taps()
    assert f"10.77.0.9 dev {tap}" in node.run("ip", "route", "show", "table", "100")
    assert node.run("cat", f"/proc/sys/net/ipv4/conf/{tap}/proxy_arp").strip() == "1"
    assert node.run("cat", f"/proc/sys/net/ipv4/conf/{tap}/forwarding").strip() == "1"
    node.call("stop", name=NAME, timeout_s=0)
    assert node.leftovers(NAME) == []
    without = hypervisor_world.nic(mode="routed", link="100")
    with pytest.raises(HypervisorError, match="needs an IP address"):
        lab.start(node, hypervisor_world.instance("kvm", NAME, nics=[without]))
    assert node.leftovers(NAME) == []


@pytest.mark.parametrize(
    "hvparams",
    [
        *({"nic_type": kind} for kind in ("e1000", "rtl8139", "pcnet", "ne2k_pci", "i82551", "i82557b", "i82559er")),
        {"nic_type": "ne2k_isa", "machine_version": "pc"},
        {"virtio_net_queues": 4},
        {"vnet_hdr": False, "boot_order": "network"},
    ],
)
def test_nic_models(lab: Lab, node: LabNode, hvparams: dict[str, Any]) -> None:
    lab.start(node, hypervisor_world.instance("kvm", NAME, hvparams=hvparams, nics=[hypervisor_world.nic()]))
    (tap,) = node.taps()
    assert f"master {kvm_lab.BRIDGE}" in node.run("ip", "-d", "link", "show", tap)
    descriptors = Path(f"/proc/{node.pid(NAME)}/fd").iterdir()
    queues = [one for one in descriptors if os.readlink(one) == "/dev/net/tun"]
    assert len(queues) == hvparams.get("virtio_net_queues", 1)
    node.call("stop", name=NAME, timeout_s=0)
    assert node.leftovers(NAME) == []


def test_the_administrators_script_connects_taps(lab: Lab, node: LabNode, request: pytest.FixtureRequest) -> None:
    script = node.root / "etc/ganeti/kvm-vif-bridge"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\nenv >{lab.directory}/env\nip link set $INTERFACE alias $INSTANCE\n")
    script.chmod(0o755)
    request.addfinalizer(script.unlink)
    lab.start(
        node, hypervisor_world.instance("kvm", NAME, nics=[hypervisor_world.nic(link="anything")], tags=["a", "b"])
    )
    (tap,) = node.taps()
    said = (lab.directory / "env").read_text().splitlines()
    assert {f"INTERFACE={tap}", "MODE=bridged", "LINK=anything", "BRIDGE=anything", "TAGS=a b"} <= set(said)
    assert "MAC=aa:00:00:00:00:01" in said and f"INSTANCE={NAME}" in said
    assert f"alias {NAME}" in node.run("ip", "link", "show", tap)


def test_a_full_file_system_refuses_the_start_and_leaves_nothing(lab: Lab, node: LabNode) -> None:
    node.call("capacity")  # QEMU has been asked what it can do
    run_dir = node.root / "run/ganeti/kvm-hypervisor"
    kvm_lab.run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(run_dir / "conf"))
    try:
        (run_dir / "conf/filler").write_bytes(b"x" * 4096)
        with pytest.raises(HypervisorError, match="No space left"):
            lab.start(node, hypervisor_world.instance("kvm", NAME, nics=[hypervisor_world.nic()]))
        assert node.call("list_instances") == []
        assert node.leftovers(NAME) == []
    finally:
        kvm_lab.run("umount", str(run_dir / "conf"))


def test_what_qemu_says_reaches_the_user(lab: Lab, node: LabNode) -> None:
    spec = hypervisor_world.instance("kvm", NAME, hvparams={"kvm_extra": "-device no-such-device"})
    with pytest.raises(HypervisorError, match="'no-such-device' is not a valid device model name"):
        lab.start(node, spec)
    assert node.leftovers(NAME) == []


def test_a_deep_directory_is_no_obstacle(tmp_path: Path, guest_image) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with kvm_lab.opened(deep, guest_image) as lab:
        node = lab.nodes[0]
        lab.start(node, lab.instance(NAME, nics=0, disk=False))
        node.wait_console(NAME, "^BOOTED-OK")
        assert node.state(NAME) == "running"
        node.call("stop", name=NAME, timeout_s=0)
        assert node.leftovers(NAME) == []


def test_a_half_made_guest_is_made_anew(lab: Lab, node: LabNode) -> None:
    """The daemon dies between QEMU's start and its end: the next start does not take what is there for a guest."""
    spec = hypervisor_world.instance("kvm", NAME)
    lab.start(node, spec)
    first = node.pid(NAME)
    record = node.root / "run/ganeti/kvm-hypervisor/conf" / f"{NAME}.runtime"
    record.write_text(record.read_text().replace('"started":true', '"started":false'))
    lab.start(node, spec)
    assert node.pid(NAME) != first
    assert Path(f"/proc/{first}/cmdline").read_bytes() == b""  # ended; whoever started it may not have noticed
    assert node.state(NAME) == "running"


@pytest.mark.parametrize("image_format", ["raw", "qcow2"])
def test_a_running_guest_sees_its_disk_grow(lab: Lab, node: LabNode, image_format: str) -> None:
    [disk] = lab.disks(NAME)
    os.truncate(disk.path, disk.spec.size_mib * 1024 * 1024)
    if image_format == "qcow2":
        image = f"{disk.path}.qcow2"
        kvm_lab.run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk.path, image)
        disk = msgspec.structs.replace(disk, path=image, image_format=image_format)
    told = f"{lab.instance(NAME).hvparams['kernel_args']} ignore_loglevel"
    node.call("start", spec=lab.instance(NAME, hvparams={"kernel_args": told}), disks=[disk])
    node.wait_beats(NAME, 1)
    size_mib = disk.spec.size_mib + 8
    if image_format == "raw":
        os.truncate(disk.path, size_mib * 1024 * 1024)
    node.call("resize_disk", name=NAME, disk=disk, size_mib=size_mib)
    node.wait_console(NAME, f"new size: {size_mib * 2048} 512-byte")
    node.call("resize_disk", name=NAME, disk=disk, size_mib=size_mib)
    node.wait_beats(NAME)
    node.call("stop", name=NAME, timeout_s=0)


def test_a_disk_that_the_guest_only_reads_or_does_not_have_grows_for_its_next_start(lab: Lab, node: LabNode) -> None:
    read, absent = lab.disk(NAME, 1, 8), lab.disk(NAME, 2, 8)
    read = msgspec.structs.replace(read, spec=msgspec.structs.replace(read.spec, mode="ro"))
    spec = lab.instance(NAME)
    node.call(
        "start", spec=msgspec.structs.replace(spec, disks=[*spec.disks, read.spec]), disks=[*lab.disks(NAME), read]
    )
    try:
        for disk in (read, absent):
            os.truncate(disk.path, 16 * 1024 * 1024)
            node.call("resize_disk", name=NAME, disk=disk, size_mib=16)
            with pytest.raises(HypervisorError, match="its guest cannot write it: shut the instance down"):
                qcow2 = msgspec.structs.replace(disk, image_format="qcow2")
                node.call("resize_disk", name=NAME, disk=qcow2, size_mib=32)
    finally:
        node.call("stop", name=NAME, timeout_s=0)
