# SPDX-License-Identifier: BSD-2-Clause
"""The command line is a function of the record: no secret in it, the same devices at the same places on every node."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.model.node_requests import AttachedDisk, DiskSpec, NicSpec
from ganeti.node.hypervisors import connections
from ganeti.node.hypervisors.kvm import checks, command_line, devices, display, emulator, record, removable
from ganeti.node.hypervisors.kvm.command_line import Handed
from ganeti.node.hypervisors.kvm.disks import start_places
from ganeti.node.hypervisors.kvm.emulator import Emulator
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

QEMU = Emulator(
    path="/usr/bin/kvm",
    identity="",
    version=[7, 2, 22],
    machines={"q35": "pc-q35-7.2"},
    capabilities=[],
    cpu_models=[],
    devices=[],
    sandbox=True,
    spice=True,
)


def made(nics: int = 0, disks: int = 0, **hvparams: Any) -> RuntimeRecord:
    one = RuntimeRecord(
        name="web1",
        uuid="u",
        hvparams=checks.filled({"kernel_path": ""} | hvparams),
        vcpus=2,
        memory_mib=128,
        ram_kib=131080,
        machine="pc-q35-7.2",
        accelerator="tcg",
        qemu_version=[7, 2, 22],
        has_rng=True,
        nics=[
            NicSpec(index=index, uuid=f"n{index}", mac=f"aa:00:00:00:00:{index:02x}", mode="bridged", link="br0")
            for index in range(nics)
        ],
    )
    specs = [DiskSpec(uuid=f"d{at}", template="", logical_id=[], size_mib=1, index=at) for at in range(disks)]
    return msgspec.structs.replace(one, disks=start_places(one, specs))


def attached(path: Path, index: int = 0, **changes: Any) -> AttachedDisk:
    path.touch()
    spec = DiskSpec(uuid=f"d{index}", template="plain-or-other", logical_id=[], size_mib=1, index=index)
    return AttachedDisk(spec=msgspec.structs.replace(spec, **changes), path=str(path))


def words(
    one: RuntimeRecord, disks: list[AttachedDisk] | None = None, root: str = "", remarks: list[str] | None = None
) -> list[str]:
    handed = Handed(sockets={"qmp": 10, "monitor": 11, "serial": 12}, taps=[[20 + i] for i in range(len(one.nics))])
    places = Places(Paths(root))
    return command_line.build(
        one, QEMU, places, disks or [], handed, incoming=False, remarks=remarks if remarks is not None else []
    )


def after(all_words: list[str], option: str) -> list[str]:
    return [all_words[i + 1] for i, word in enumerate(all_words) if word == option]


@pytest.mark.parametrize(
    "hvparams",
    [
        {"disk_type": "ide"},
        {"disk_type": "paravirtual", "cdrom_disk_type": "scsi-cd", "scsi_controller_type": "virtio-scsi-pci"},
        {"disk_type": "scsi-hd", "scsi_controller_type": "virtio-scsi-pci"},
    ],
)
def test_a_guest_started_before_places_of_cds_were_noted_is_the_same_machine(
    tmp_path: Path, hvparams: dict[str, Any]
) -> None:
    """Its CDs came after the disks; a record of that time, or one that comes from a node of that time, lacks them."""
    images = {"cdrom_image_path": "http://host/one.iso", "cdrom2_image_path": "http://host/two.iso"}
    now = removable.with_drives(made(disks=2, **hvparams, **images))
    disks = [attached(tmp_path / f"d{index}", index) for index in range(2)]
    before = msgspec.structs.replace(now, cd_places={}, cd_controller=False)
    assert words(before, disks) == words(now, disks)
    one = removable.with_drives(made(disks=2, **hvparams, **images | {"cdrom2_image_path": ""}))
    before = msgspec.structs.replace(one, cd_places={}, cd_controller=False)
    assert removable.with_drive(before, "cdrom2_image_path").cd_places == now.cd_places


def test_a_cd_comes_only_where_there_is_a_controller_for_it() -> None:
    hvparams = {"disk_type": "paravirtual", "cdrom_disk_type": "scsi-cd", "scsi_controller_type": "virtio-scsi-pci"}
    assert "without a SCSI controller" in removable.obstacle(made(**hvparams), "cdrom_image_path")
    assert removable.obstacle(removable.with_drives(made(**hvparams)), "cdrom_image_path") == ""


def test_an_incoming_guest_is_the_same_machine(tmp_path: Path) -> None:
    one = made(nics=2, disks=1)
    disk = attached(tmp_path / "d")
    starting = words(one, [disk])
    arriving = command_line.build(
        *(one, QEMU, Places(Paths("")), [disk]),
        Handed(sockets={"qmp": 30, "monitor": 31, "serial": 32}, taps=[[40], [41]]),
        incoming=True,
        remarks=[],
    )
    assert after(starting, "-device") == after(arriving, "-device")
    assert after(starting, "-machine") == after(arriving, "-machine") == ["pc-q35-7.2,acpi=on,suppress-vmdesc=on"]
    assert "-S" in starting and "-incoming" not in starting
    assert after(arriving, "-incoming") == ["defer"] and "-S" not in arriving


def test_disks_and_nics_have_fixed_places(tmp_path: Path) -> None:
    one = made(nics=2, disks=2)
    placed = after(words(one, [attached(tmp_path / "a"), attached(tmp_path / "b", 1)]), "-device")
    slots = [word.partition("addr=")[2].partition(",")[0] for word in placed if "addr=" in word]
    assert slots == ["0xc", "0xd", "0xe", "0xf"]
    with pytest.raises(HypervisorError, match="kvm_pci_reservations=29 leaves 1; lower it"):
        words(made(nics=1, disks=2, kvm_pci_reservations=29), [attached(tmp_path / "a"), attached(tmp_path / "b", 1)])


def test_caches(tmp_path: Path) -> None:
    """A disk of a template that nodes may share never goes through the page cache."""
    remarks: list[str] = []
    all_words = words(made(disks=1, disk_cache="writeback"), [attached(tmp_path / "a")], remarks=remarks)
    (node,) = [json.loads(word) for word in after(all_words, "-blockdev")]
    assert node["cache"]["direct"] is True and node["file"]["cache"]["direct"] is True
    assert "disk_cache=writeback" in remarks[0]


def test_a_read_only_disk_that_only_a_protocol_reaches(tmp_path: Path) -> None:
    disk = AttachedDisk(
        spec=msgspec.structs.replace(attached(tmp_path / "a").spec, mode="ro"),
        path="",
        image_format="qcow2",
        blockdev={"driver": "nbd", "server": {"type": "unix", "path": "/s"}},
    )
    (node,) = [json.loads(word) for word in after(words(made(disks=1), [disk]), "-blockdev")]
    assert (node["driver"], node["file"]["driver"], node["read-only"]) == ("qcow2", "nbd", True)


def test_a_missing_disk_is_named(tmp_path: Path) -> None:
    disk = attached(tmp_path / "a")
    (tmp_path / "a").unlink()
    with pytest.raises(HypervisorError, match="Disk 0 is not at"):
        words(made(disks=1), [disk])


def test_direct_kernel_boot() -> None:
    one = made(kernel_path="/boot/k", initrd_path="/boot/i", kernel_args="ro quiet", serial_speed=9600)
    all_words = words(one)
    assert after(all_words, "-kernel") == ["/boot/k"] and after(all_words, "-initrd") == ["/boot/i"]
    assert after(all_words, "-append") == ["root=/dev/vda1 ro quiet console=ttyS0,9600"]
    assert after(words(made()), "-append") == []


def test_the_serial_log_is_kept_and_commas_are_no_options() -> None:
    (serial,) = [word for word in after(words(made(), root="/a,b"), "-chardev") if "id=serial" in word]
    assert "logfile=/a,,b/var/log/ganeti/kvm/web1.serial.log,logappend=on" in serial


def test_a_password_is_in_no_word(tmp_path: Path) -> None:
    import asyncio

    secret = tmp_path / "password"
    secret.write_text("top5ecret\n")
    one = msgspec.structs.replace(made(vnc_bind_address="0.0.0.0", vnc_password_file=str(secret)), network_port=11003)
    shown = asyncio.run(display.display_of(one, Paths("")))
    assert "0.0.0.0:5103,password=on" in shown.arguments
    assert "top5ecret" not in " ".join(shown.arguments)
    assert list(shown.commands) == [("set_password", {"protocol": "vnc", "password": "top5ecret"})]
    with pytest.raises(HypervisorError, match="no network port"):
        asyncio.run(display.display_of(msgspec.structs.replace(one, network_port=None), Paths("")))


def test_usb_devices() -> None:
    assert command_line.usb_devices("tablet, host:1.3 host:0951:1666") == [
        *("usb-tablet", "usb-host,hostbus=1,hostaddr=3", "usb-host,vendorid=0x951,productid=0x1666")
    ]


@pytest.mark.parametrize(
    ("mib", "accelerator", "version", "kib"),
    [
        (128, "tcg", [7, 2, 22], 131080),
        (128, "tcg", [9, 0, 0], 131072),
        (128, "kvm", [7, 2, 22], 131072),
    ],
)
def test_the_size_that_old_emulation_corrupts_is_avoided(
    mib: int, accelerator: str, version: list[int], kib: int
) -> None:
    assert emulator.ram_kib(mib, accelerator, version) == kib
    assert not emulator.emulation_bug(accelerator, version, kib)
    assert emulator.emulation_bug("tcg", [7, 2], 131072)


def test_a_missing_qemu_is_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(HypervisorError, match="install the package qemu-system-x86"):
        emulator.program({"kvm_path": str(tmp_path / "qemu")})


def test_a_record_survives_the_wire_and_the_disk(tmp_path: Path) -> None:
    places = Places(Paths(str(tmp_path)))
    places.prepare()
    one = made(nics=1)
    record.write(places, one)
    assert record.read(places, "web1") == one
    assert record.from_wire(json.loads(msgspec.json.encode(one))) == one
    assert (Path(places.record("web1")).stat().st_mode & 0o777) == 0o600
    with pytest.raises(HypervisorError, match="same release"):
        record.from_wire(msgspec.to_builtins(msgspec.structs.replace(one, format=2)))
    places.forget("web1")
    assert record.read(places, "web1") is None


def test_a_taps_address_is_above_those_of_cards() -> None:
    assert connections.outer_mac("aa:00:00:35:d1:0e") == "fe:00:00:35:d1:0e"


def test_a_machine_without_place_says_so() -> None:
    with pytest.raises(HypervisorError, match="6 IDE places"):
        devices.Machine("pc-q35-7.2").ide_place(6)
    assert devices.Machine("pc-i440fx-7.2").ide_place(3) == {"bus": "ide.1", "unit": 1}


def test_a_migration_target_has_what_was_added_while_the_guest_ran() -> None:
    one = made(hotplug_vcpus=4, hotplug_memory=1024)
    assert after(words(one), "-m") == ["131080k,slots=16,maxmem=1024M"]
    assert after(words(one), "-smp") == ["2,maxcpus=4"]
    grown = msgspec.structs.replace(
        one,
        vcpus=3,
        added_cpus=[{"driver": "qemu64-x86_64-cpu", "id": "cpu2", "core-id": 2}],
        added_memory=[record.MemoryModule(identity="dimm0", size_mib=128, slot=0, address=4294967296)],
    )
    assert after(words(grown), "-smp") == ["2,maxcpus=4"]
    devices_there = after(words(grown), "-device")
    assert "qemu64-x86_64-cpu,id=cpu2,core-id=2" in devices_there
    assert "pc-dimm,id=dimm0,memdev=dimm0-memory,slot=0,addr=4294967296" in devices_there
    assert grown.most_memory_mib == 256
    assert after(words(made(hotplug_memory=64)), "-m") == ["131080k"]


def test_a_guest_of_its_own_user_is_confined_as_the_release_of_qemu_wants_it() -> None:
    one = made(use_chroot=True)
    handed = Handed(sockets={"qmp": 10, "monitor": 11, "serial": 12}, user="1234:1234")
    places = Places(Paths(""))
    chroot = places.chroot("web1")
    for version, wanted in (
        ([7, 2, 22], ["-runas", "1234:1234", "-chroot", chroot]),
        ([9, 1, 0], ["-run-with", f"chroot={chroot},user=1234:1234"]),
        ([10, 0, 2], ["-run-with", f"chroot={chroot},user=1234:1234"]),
    ):
        qemu = msgspec.structs.replace(QEMU, version=version)
        line = command_line.build(one, qemu, places, [], handed, incoming=False, remarks=[])
        at = line.index(wanted[0])
        assert line[at : at + len(wanted)] == wanted
        assert {"-runas", "-chroot", "-run-with"}.intersection(line) == {word for word in wanted if word[0] == "-"}


def test_a_guest_writes_only_to_a_floppy_that_everybody_may_write(tmp_path: Path) -> None:
    """Whoever submits a job names the file, a program of the node, too, and root opens it."""
    image = tmp_path / "floppy.img"
    image.touch()
    for mode, read_only in ((0o644, True), (0o600, True), (0o755, True), (0o666, False)):
        image.chmod(mode)
        options = next(
            json.loads(word) for word in removable.arguments(made(floppy_image_path=str(image))) if "floppy0" in word
        )
        assert options["read-only"] is read_only
