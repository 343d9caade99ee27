# SPDX-License-Identifier: BSD-2-Clause
"""Parameters of ``kvm``: their list is that of 3.1, and each contradiction is one clear sentence."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError, TypeEnforcementError
from ganeti.base.paths import Paths
from ganeti.model.parameters import accept_all
from ganeti.node.hypervisors.kvm import checks
from ganeti.node.hypervisors.kvm.driver import KvmHypervisor
from ganeti.node.hypervisors.kvm.emulator import Emulator
from ganeti.node.hypervisors.kvm.parameters import PARAMETERS
from ganeti.node.hypervisors.kvm.places import Places

QEMU = Emulator(
    path="/usr/bin/kvm",
    identity="",
    version=[7, 2, 22],
    machines={"q35": "pc-q35-7.2", "pc-q35-7.2": "pc-q35-7.2", "pc": "pc-i440fx-7.2", "microvm": "microvm"},
    capabilities=["auto-converge", "events", "multifd", "x-colo"],
    cpu_models=["host", "max", "qemu64"],
    devices=["virtio-rng-pci"],
    sandbox=True,
    spice=False,
)


def test_there_are_the_65_parameters_of_3_1_and_four_more() -> None:
    ours = {"hotplug_vcpus", "hotplug_memory", "disk_iops", "disk_bandwidth"}
    assert len(PARAMETERS) == 69
    assert len({parameter.name for parameter in PARAMETERS} - ours) == 65
    assert {parameter.name for parameter in PARAMETERS if parameter.cluster_only} == {
        *("migration_bandwidth", "migration_mode", "migration_port")
    }


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("disk_type", "floppy", "one of ide"),
        ("virtio_net_queues", 9, "the most is 8"),
        ("virtio_net_queues", "many", "a whole number"),
        ("kvm_pci_reservations", 33, "the most is 32"),
        ("spice_ip_version", 5, "0, 4 or 6"),
        ("migration_port", 0, "the least is 1"),
        ("migration_bandwidth", -1, "the least is 0"),
        ("kernel_path", "vmlinuz", "absolute path"),
        ("kvm_path", "", "must not be empty"),
        ("cpu_mask", "0-", "all, or processors"),
        ("cpu_mask", "^0", "no processor"),
        ("cdrom_image_path", "cd.iso", "a URL"),
        ("migration_caps", "a b", "colons between"),
        ("machine_version", "q35,accel=kvm", "one word"),
        ("cpu_type", "max -x", "MODEL,FLAG"),
        ("kernel_args", "a\nb", "line break"),
        ("keymap", "../de", "keyboard layout"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_right(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(TypeEnforcementError, match=sentence):
        accept_all(PARAMETERS, {name: value}, "hypervisor")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"vnc_bind_address": "::", "spice_bind": "::"}, "one display"),
        ({"vnc_tls": True}, "vnc_tls needs vnc_x509_path"),
        ({"vnc_x509_verify": True}, "needs vnc_tls"),
        ({"spice_use_tls": True}, "without spice_bind"),
        ({"spice_bind": "127.0.0.1", "spice_ip_version": 6}, "IPv4 address"),
        ({"security_model": "user"}, "security_domain"),
        ({"security_domain": "nobody"}, "security_model is none"),
        ({"security_model": "pool", "security_domain": "nobody"}, "security_model is pool"),
        ({"initrd_path": "/boot/initrd"}, "kernel_path is empty"),
        ({"virtio_net_queues": 2, "vhost_net": False}, "vhost_net=true"),
        ({"virtio_net_queues": 2, "nic_type": "e1000"}, "nic_type=paravirtual"),
        ({"boot_order": "floppy"}, "floppy_image_path"),
        ({"boot_order": "cdrom"}, "cdrom_image_path"),
        ({"disk_type": "mtd"}, "no such device"),
        ({"cdrom_disk_type": "pflash"}, "firmware"),
        ({"disk_type": "scsi-cd"}, "cannot be written"),
        ({"disk_aio": "native", "disk_cache": "writeback"}, "disk_cache=none"),
        ({"usb_devices": "printer"}, "host:BUS.ADDRESS"),
        ({"soundhw": "theremin"}, "ac97"),
        ({"migration_caps": "postcopy-ram:xbzrle:multifd"}, "cannot have multifd and postcopy-ram"),
        ({"kvm_extra": "-name 'open"}, "as in a shell"),
    ],
)
def test_a_contradiction_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(HypervisorError, match=sentence):
        checks.check_values(checks.filled({"kernel_path": ""} | changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"machine_version": "pc-q35-99.0"}, "has no machine"),
        ({"machine_version": "microvm"}, "q35 or pc"),
        ({"cpu_type": "i486,+x"}, "no cpu_type 'i486'"),
        ({"cpu_type": "host", "kvm_flag": "disabled"}, "use max"),
        ({"migration_caps": "warp"}, "knows auto-converge, events, multifd"),
        ({"migration_caps": "x-colo"}, "cannot have 'x-colo'"),
        ({"migration_caps": "return-path"}, "both nodes"),
        ({"security_model": "user", "security_domain": "nosuchuser"}, "not on this node"),
        ({"security_model": "pool"}, "needs a pool of user ids"),
        ({"cpu_mask": "5000"}, "does not have: 5000"),
        ({"vnc_bind_address": "/no/such/directory"}, "not on this node"),
        ({"vnc_bind_address": "nosuchif0"}, "neither an IP address nor an interface"),
        ({"spice_bind": "127.0.0.1"}, "has no SPICE"),
    ],
)
def test_what_the_node_lacks_is_said(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    places = Places(Paths(str(tmp_path)))
    with pytest.raises(HypervisorError, match=sentence):
        asyncio.run(checks.check_node(checks.filled(changes), QEMU, places))


def test_a_pool_of_users_may_come_together_with_its_use(tmp_path: Path) -> None:
    places, filled = Places(Paths(str(tmp_path))), checks.filled({"security_model": "pool"})
    asyncio.run(checks.check_node(filled, QEMU, places, [[3000, 3999]]))
    with pytest.raises(HypervisorError, match="needs a pool of user ids"):
        asyncio.run(checks.check_node(filled, QEMU, places, []))


def test_an_empty_directory_and_a_disk_behind_a_socket_exclude_each_other(tmp_path: Path) -> None:
    server = {"type": "unix", "path": "/run/ganeti/mirror/5c0f0a52.nbd"}
    plain = hypervisor_world.disk(tmp_path / "image")
    mirrored = msgspec.structs.replace(plain, blockdev={"driver": "nbd", "server": server})
    checks.check_chroot("web", checks.filled({"use_chroot": True}), [plain])
    checks.check_chroot("web", checks.filled({}), [mirrored])
    with pytest.raises(HypervisorError, match=r"cut web off from disk 0 .* -H use_chroot=false web"):
        checks.check_chroot("web", checks.filled({"use_chroot": True}), [plain, mirrored])


def test_files_are_looked_for(tmp_path: Path) -> None:
    checks.check_files(checks.filled({"kernel_path": ""}))
    with pytest.raises(HypervisorError, match="empty it to boot from the disk"):
        checks.check_files(checks.filled({"kernel_path": str(tmp_path / "vmlinuz")}))
    with pytest.raises(HypervisorError, match="mem_path"):
        checks.check_files(checks.filled({"kernel_path": "", "mem_path": str(tmp_path / "pages")}))
    empty = tmp_path / "password"
    empty.write_text("\n")
    with pytest.raises(HypervisorError, match="is empty"):
        checks.check_files(checks.filled({"kernel_path": "", "vnc_password_file": str(empty)}))


@pytest.mark.parametrize(
    ("topology", "vcpus", "fits"),
    [
        ((0, 0, 0), 7, True),
        ((1, 2, 2), 4, True),
        ((2, 2, 2), 4, False),
        ((0, 2, 0), 4, True),
        ((0, 3, 0), 4, False),
    ],
)
def test_a_topology_multiplies_to_the_virtual_cpus(topology: tuple[int, int, int], vcpus: int, fits: bool) -> None:
    named = dict(zip(("cpu_sockets", "cpu_cores", "cpu_threads"), topology, strict=True))
    if fits:
        checks.check_topology(named, vcpus)
    else:
        with pytest.raises(HypervisorError, match="virtual CPUs"):
            checks.check_topology(named, vcpus)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"cpu_cores": 2}, "3 virtual CPUs cannot be divided into cpu_cores=2"),
        ({"cpu_mask": "0:0"}, "cpu_mask=0:0 has 2 lists, but the instance has 3 virtual CPUs"),
    ],
)
def test_what_the_virtual_cpus_contradict_is_said_before_a_start(
    changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    kvm = KvmHypervisor(NodeOnDisk(tmp_path))
    asyncio.run(kvm.check_vcpus(changes, 4 if "cpu_cores" in changes else 2, starts=False))
    with pytest.raises(HypervisorError, match=sentence):
        asyncio.run(kvm.check_vcpus(changes, 3, starts=False))
