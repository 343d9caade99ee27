# SPDX-License-Identifier: BSD-2-Clause
"""Virtual CPUs and memory that a real guest is given while it runs, seen from inside the guest."""

import pytest
from msgspec.structs import replace
from tests.real import kvm_lab
from tests.real.kvm_lab import Lab, LabNode

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import InstanceSpec

pytestmark = pytest.mark.real
NAME = "grow"
START_MIB = 256
MODULE_MIB = 128
SCSI = {"cdrom_disk_type": "scsi-cd", "scsi_controller_type": "virtio-scsi-pci"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


def change(node: LabNode, spec: InstanceSpec, **beparams: int) -> list[str]:
    wanted = replace(spec, beparams=spec.beparams | beparams)
    found: list[str] = node.call("change_parameters", spec=wanted, names=[f"be/{name}" for name in beparams])
    return found


def sees(node: LabNode, processors: int, memory_mib: int) -> None:
    """Wait until the guest has them; its kernel keeps a part of the memory."""
    told = len(kvm_lab.devices_seen(node, NAME))

    def arrived() -> bool:
        newer = kvm_lab.devices_seen(node, NAME)[told + 1 :]
        if not newer:
            return False
        found_mib = int(newer[-1][5]) // 1024
        return int(newer[-1][4]) == processors and memory_mib - MODULE_MIB < found_mib <= memory_mib

    kvm_lab.wait_until(arrived, f"{processors} CPUs and {memory_mib} MiB", lambda: node.console(NAME)[-200:])


def test_processors_and_memory_are_added(lab: Lab) -> None:
    first, second = lab.nodes
    for node in lab.nodes:
        node.forget_console(NAME)
    spec = lab.instance(NAME, hvparams={"hotplug_vcpus": 3, "hotplug_memory": START_MIB + 2 * MODULE_MIB})
    spec = replace(spec, beparams={"vcpus": 1, "maxmem": START_MIB, "minmem": START_MIB})
    lab.start(first, spec)
    first.wait_console(NAME, r"^HB \d")
    kvm_lab.watch_devices(first, NAME)
    assert change(first, spec, vcpus=2) == ["be/vcpus"]
    sees(first, 2, START_MIB)
    assert change(first, spec, vcpus=4) == change(first, spec, vcpus=1) == []
    lab.begin(spec, first, second)
    lab.finish(spec, first, second)
    sees(second, 2, START_MIB)
    assert change(second, spec, vcpus=3, maxmem=START_MIB + MODULE_MIB) == ["be/vcpus", "be/maxmem"]
    sees(second, 3, START_MIB + MODULE_MIB)
    assert second.call("info", name=NAME)["memory_mib"] == START_MIB + MODULE_MIB
    with pytest.raises(HypervisorError, match="it takes more in multiples of 128 MiB"):
        change(second, spec, maxmem=START_MIB + MODULE_MIB + 1)
    assert change(second, spec, maxmem=START_MIB + 3 * MODULE_MIB) == []
    second.call("balloon", name=NAME, memory_mib=START_MIB)
    sees(second, 3, START_MIB)
    second.call("stop", name=NAME, timeout_s=0)
    assert first.leftovers(NAME) == second.leftovers(NAME) == []


def test_cd_drives_and_disks_come_and_the_guest_sees_them(lab: Lab) -> None:
    first, second = lab.nodes
    for node in lab.nodes:
        node.forget_console(NAME)
    images = [lab.disk(NAME, number, size).path for number, size in ((5, 2), (6, 6), (7, 3))]
    spec = lab.instance(NAME, hvparams=SCSI)
    lab.start(first, spec)
    first.wait_console(NAME, r"^HB \d")
    kvm_lab.watch_devices(first, NAME)
    spec = put_in(first, spec, [2], cdrom_image_path=images[0])
    more = replace(spec, disks=[*spec.disks, lab.disk(NAME, 1, 8).spec])
    first.call("change_disks", spec=more, disks=kvm_lab.attached(more))
    more = put_in(first, more, [2, 6], cdrom2_image_path=images[1])
    lab.begin(more, first, second)
    lab.finish(more, first, second)
    put_in(second, more, [3, 6], cdrom_image_path=images[2])
    second.call("stop", name=NAME, timeout_s=0)
    assert first.leftovers(NAME) == second.leftovers(NAME) == []


def put_in(node: LabNode, spec: InstanceSpec, sizes_mib: list[int], **images: str) -> InstanceSpec:
    """Change CDs, and wait until the guest sees media of these sizes."""
    told = len(kvm_lab.devices_seen(node, NAME))
    changed = replace(spec, hvparams=spec.hvparams | images)
    names = [f"hv/{name}" for name in images]
    assert node.call("change_parameters", spec=changed, names=names) == names
    wanted = sorted(size * 2048 for size in sizes_mib)

    def arrived() -> bool:
        newer = kvm_lab.devices_seen(node, NAME)[told + 1 :]
        return bool(newer) and sorted(int(size) for size in newer[-1][3].split()) == wanted

    kvm_lab.wait_until(arrived, f"CDs of {sizes_mib} MiB", lambda: str(kvm_lab.devices_seen(node, NAME)[-2:]))
    return changed
