# SPDX-License-Identifier: BSD-2-Clause
"""The runtime file of Ganeti 3.0: read as Debian's 3.0.2 writes it, and written so that it reads the same again."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import checks, runtime_file
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

COMMAND = [
    *("/usr/bin/qemu-system-x86_64", "-name", "inst1", "-m", 96, "-smp", "1"),
    *("-pidfile", "/var/run/ganeti/kvm-hypervisor/pid/inst1", "-device", "virtio-balloon", "-daemonize"),
    *("-machine", "pc-i440fx-7.2", "-uuid", "ca9ea2a6-7462-4138-a229-3596228239d6"),
]
NIC = {
    "mac": "aa:00:00:d6:47:ad",
    "ip": "10.78.0.9",
    "nicparams": {"link": "gnt-br0", "mode": "bridged", "vlan": ""},
    "hvinfo": {"driver": "virtio-net-pci", "id": "nic-ad15ff49-6c43-4e42", "bus": "pci.0", "addr": "0xd"},
    "uuid": "ad15ff49-6c43-4e42-a165-d94514d2323d",
}
PLACED = {"driver": "virtio-blk-pci", "id": "disk-f8471e6e-db58-4dcd", "bus": "pci.0", "addr": "0xc"}
STORED = {"dev_type": "file", "size": 64, "uuid": "f8471e6e-db58-4dcd-ac15-c8d404c3c9f5", "hvinfo": PLACED}
DISK = [STORED, "/var/run/ganeti/instance-disks/inst1:0", None]


def text(command: list[Any] = COMMAND, nics: Any = (NIC,)) -> bytes:
    return json.dumps([command, list(nics), {"kvm_path": COMMAND[0], "acpi": True}, [DISK]]).encode()


def taken(data: bytes) -> RuntimeRecord:
    found = runtime_file.decode(data, "inst1.runtime")
    assert found is not None
    filled = checks.filled(found.hvparams)
    return runtime_file.to_record("inst1", found, filled, qemu_version=[7, 2, 22], network_port=None, tags=["a"])


def test_a_guest_is_known_by_it() -> None:
    known = taken(text())
    assert (known.memory_mib, known.vcpus, known.machine) == (96, 1, "pc-i440fx-7.2")
    (disk,) = known.disks
    assert disk.identity == "disk-f8471e6e-db58-4dcd" and disk.options == {"bus": "pci.0", "addr": "0xc"}
    assert known.accelerator == "tcg" and known.started and "started by an earlier Ganeti" in known.live_obstacle
    (nic,) = known.nics
    assert (nic.mac, nic.link, nic.ip) == (NIC["mac"], "gnt-br0", "10.78.0.9")
    place = known.nic_places[nic.uuid]
    assert (place.identity, place.bus, place.addr) == ("nic-ad15ff49-6c43-4e42", "pci.0", "0xd")
    assert taken(text([*COMMAND, "-enable-kvm"])).accelerator == "kvm"


def test_it_reads_the_same_after_both_ways() -> None:
    found = runtime_file.decode(text(), "inst1.runtime")
    assert found is not None
    again = runtime_file.with_nics(found, taken(text()))
    assert json.loads(msgspec.json.encode(again)) == json.loads(text())


def test_a_nic_that_was_removed_is_not_given_back() -> None:
    found = runtime_file.decode(text(), "inst1.runtime")
    assert found is not None
    known = msgspec.structs.replace(taken(text()), nics=[], nic_places={})
    assert runtime_file.with_nics(found, known).nics == []


def test_a_record_of_this_program_is_none_of_it() -> None:
    assert runtime_file.decode(msgspec.json.encode(taken(text())), "inst1.runtime") is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "cannot be understood"),
        (b"[1, 2]", "cannot be understood"),
        (b"nonsense", "cannot be understood"),
        (text(COMMAND[:5]), "names no machine"),
        (text([*COMMAND[:4], "lots", *COMMAND[5:]]), "numbers were expected"),
        (text(nics=[{"mac": "x", "nicparams": {}}]), "does not say the"),
        (text(nics=[{key: value for key, value in NIC.items() if key != "hvinfo"}]), "where in the machine"),
    ],
)
def test_what_cannot_be_taken_over(data: bytes, said: str) -> None:
    with pytest.raises(HypervisorError, match=said):
        taken(data)


@pytest.mark.parametrize(("bind", "display"), [("127.0.0.1", "127.0.0.1:5100"), ("fd77::1", "[fd77::1]:5100")])
def test_a_guest_of_this_program_gets_one(tmp_path: Path, bind: str, display: str) -> None:
    places = Places(Paths(str(tmp_path)))
    values = checks.filled({"kvm_path": "/usr/bin/kvm", "kernel_path": "/boot/k", "vnc_bind_address": bind})
    known = msgspec.structs.replace(taken(text()), hvparams=values, machine="pc-q35-7.2", network_port=11000)
    made = runtime_file.compose(known, [{"dev_type": "file", "size": 64}], places)
    assert made.option("-machine") == "pc" and made.option("-name") == "inst1" and made.option("-kernel") == "/boot/k"
    assert made.option("-vnc") == display
    assert made.disks[0][1] == f"{tmp_path}/run/ganeti/instance-disks/inst1:0"
    again = runtime_file.decode(msgspec.json.encode(made), "inst1.runtime")
    assert again is not None and again.nics[0]["hvinfo"]["addr"] == "0xd"
