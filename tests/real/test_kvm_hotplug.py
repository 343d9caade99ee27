# SPDX-License-Identifier: BSD-2-Clause
"""Disks and NICs that come and go while a real guest runs, seen from inside the guest, before and after a migration.

Each disk type with each NIC type and machine; two of them in ``make test``, all where GANETI_CAMPAIGN is set.
"""

import itertools
import os
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from tests.contract import hypervisor_world
from tests.real import kvm_lab
from tests.real.kvm_lab import BRIDGE, Lab, LabNode, attached

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import InstanceSpec
from ganeti.node.hypervisors.kvm.parameters import NIC_TYPES

pytestmark = pytest.mark.real
NAME = "plug"
DISKS = {
    "paravirtual": {"disk_type": "paravirtual"},
    "scsi": {"disk_type": "scsi-hd", "scsi_controller_type": "virtio-scsi-pci"},
    "ide": {"disk_type": "ide"},
    "lsi": {"disk_type": "scsi-hd", "scsi_controller_type": "lsi"},
}
WITH_HOTPLUG = ("paravirtual", "scsi")
"""The others are refused, and the guest goes on."""
SAMPLE = [("paravirtual", "paravirtual", "q35"), ("scsi", "e1000", "pc")]
ALL = list(itertools.product(DISKS, NIC_TYPES, ("q35", "pc")))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, guest_image):
    with kvm_lab.opened(tmp_path_factory.mktemp("kvm") / "lab", guest_image) as opened:
        yield opened


@dataclass(frozen=True)
class Seen:
    macs: list[str]
    """Of NICs that the guest has a driver for."""
    nics: int
    """On PCI."""
    sectors: list[int]
    """Sizes of the disks."""


def has(node: LabNode, spec: InstanceSpec, sizes_mib: list[int]) -> None:
    """The guest sees just these NICs and disks, from now on: a change reaches it a moment after QEMU."""
    kind = spec.hvparams["nic_type"]
    macs = sorted(nic.mac for nic in spec.nics) if kind == "paravirtual" else []
    on_pci = 0 if kind == "ne2k_isa" else len(spec.nics)
    sectors = sorted(size * 2048 for size in sizes_mib) if spec.hvparams["disk_type"] not in ("ide",) else []
    wanted = Seen(macs, on_pci, sectors)
    told = len(seen(node))
    kvm_lab.wait_until(
        lambda: seen(node)[told + 1 :][-1:] == [wanted], f"the guest to see {wanted}", lambda: str(seen(node)[-3:])
    )
    assert len(node.taps()) == len(spec.nics)


def seen(node: LabNode) -> list[Seen]:
    return [
        Seen(sorted(macs.split()), int(nics), sorted(int(size) for size in sizes.split()))
        for macs, nics, sizes, *_ in kvm_lab.devices_seen(node, NAME)
    ]


def change_disks(node: LabNode, spec: InstanceSpec) -> None:
    node.call("change_disks", spec=spec, disks=attached(spec))


@pytest.mark.parametrize(("disk", "nic", "machine"), ALL if os.environ.get("GANETI_CAMPAIGN") else SAMPLE)
def test_devices_come_and_go_before_and_after_a_migration(lab: Lab, disk: str, nic: str, machine: str) -> None:
    first, second = lab.nodes
    for node in lab.nodes:
        node.forget_console(NAME)
    spec = lab.instance(NAME, hvparams=DISKS[disk] | {"nic_type": nic, "machine_version": machine})
    lab.start(first, spec)
    try:
        first.wait_console(NAME, r"^HB \d" if disk in WITH_HOTPLUG else "^BOOTED-OK")
        kvm_lab.watch_devices(first, NAME)
        shown = [16] if disk in WITH_HOTPLUG else []
        has(first, spec, shown)
        spec, shown = disks_come_and_go(lab, first, spec, shown, 1)
        spec = nics_come_and_go(first, spec, shown)
        lab.begin(spec, first, second)
        lab.finish(spec, first, second)
        has(second, spec, shown)
        spec, shown = disks_come_and_go(lab, second, spec, shown, 4)
        spec = nics_come_and_go(second, spec, shown)
    finally:
        for node in lab.nodes:
            node.call("stop", name=NAME, timeout_s=0)
    assert first.leftovers(NAME) == second.leftovers(NAME) == []


def disks_come_and_go(
    lab: Lab, node: LabNode, spec: InstanceSpec, shown: list[int], number: int
) -> tuple[InstanceSpec, list[int]]:
    """Add two disks, remove the first of them; gives the instance as it is then."""
    added = [lab.disk(NAME, number, 8).spec, lab.disk(NAME, number + 1, 4).spec]
    more = replace(spec, disks=[*spec.disks, *added])
    if not shown:
        with pytest.raises(HypervisorError, match="cannot change while it runs"):
            change_disks(node, more)
        has(node, spec, shown)
        return spec, shown
    change_disks(node, more)
    change_disks(node, more)
    has(node, more, [*shown, 8, 4])
    missing = lab.disk(NAME, number + 2, 2).spec
    os.unlink(missing.logical_id[1])
    with pytest.raises(HypervisorError, match=rf"Disk {missing.index} is not at"):
        change_disks(node, replace(more, disks=[*more.disks, missing]))
    has(node, more, [*shown, 8, 4])
    less = replace(spec, disks=[*spec.disks, added[1]])
    change_disks(node, less)
    has(node, less, [*shown, 4])
    return less, [*shown, 4]


def nics_come_and_go(node: LabNode, spec: InstanceSpec, shown: list[int]) -> InstanceSpec:
    """Add a NIC, change it, remove the first one; gives the instance as it is then."""
    added = hypervisor_world.nic(1, uuid="0a2f5d10-6d7e-4c7d-8f5f-000000000099", mac="aa:00:00:00:00:55", link=BRIDGE)
    more = replace(spec, nics=[*spec.nics, added])
    if spec.hvparams["nic_type"] == "ne2k_isa":
        with pytest.raises(HypervisorError, match="cannot change while it runs"):
            node.call("change_nics", spec=more)
        has(node, spec, shown)
        return spec
    node.call("change_nics", spec=more)
    has(node, more, shown)
    with pytest.raises(HypervisorError, match="'br-missing' does not exist"):
        node.call("change_nics", spec=replace(more, nics=[*more.nics, hypervisor_world.nic(2, link="br-missing")]))
    has(node, more, shown)
    changed = replace(more, nics=[spec.nics[0], replace(added, mac="aa:00:00:00:00:77")])
    node.call("change_nics", spec=changed)
    has(node, changed, shown)
    less = replace(changed, nics=[replace(changed.nics[1], index=0, uuid=spec.nics[0].uuid)])
    node.call("change_nics", spec=less)
    has(node, less, shown)
    return less
