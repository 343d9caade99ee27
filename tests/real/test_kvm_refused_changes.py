# SPDX-License-Identifier: BSD-2-Clause
"""On a whole cluster: changes of a running guest that cannot be made. It goes on with what it had, and the
configuration says just that; as soon as there is room, the same change is made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.test_kvm_kills import KvmBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
NAME = "web1"
CONSOLE = f"/var/log/ganeti/kvm/{NAME}.serial.log"
SMALL = "/srv/ganeti/file-storage"
MIB = 1024 * 1024
FIRST_MIB, WRITTEN_MIB = 8, 40
"""Where the disk holds data, and how many: more than the small file system has room for."""
ASK_QEMU = """
import json, os, socket, sys
os.chdir("/run/ganeti/kvm-hypervisor/ctrl")
with socket.socket(socket.AF_UNIX) as qmp:
    qmp.settimeout(60)
    qmp.connect(sys.argv[1] + ".qmp")
    lines = qmp.makefile("r")
    lines.readline()
    for words in ('{"execute": "qmp_capabilities"}', sys.argv[2]):
        qmp.sendall(words.encode())
        while "event" in (answer := json.loads(lines.readline())):
            pass
print(json.dumps(answer))
"""


class Bed(KvmBed):
    def qemu(self, command: str, **arguments: Any) -> Any:
        """Ask the guest's QEMU something that it grants."""
        question = json.dumps({"execute": command, "arguments": arguments})
        answer = json.loads(self.run("python3", "-c", ASK_QEMU, NAME, question))
        assert "return" in answer, answer
        return answer["return"]

    def devices(self) -> set[str]:
        """Names of the guest's disks and NICs in QEMU."""
        found = {entry["name"] for entry in self.qemu("qom-list", path="/machine/peripheral")}
        return {name for name in found if re.fullmatch(r"(disk|nic)\d+", name)}

    def block_nodes(self) -> set[str]:
        names = {node["node-name"] for node in self.qemu("query-named-block-nodes", flat=True)}
        return {name for name in names if name and not name.startswith("#")}

    def beats(self) -> None:
        """The guest goes on."""

        def console() -> str:
            return self.run("sh", "-c", f"grep -c '^HB ' {CONSOLE} || true").strip()

        before = console()
        self.wait(lambda: console() != before, "another beat")

    def image(self) -> Path:
        (found,) = self.layout.shared.rglob("*.disk0")
        return found

    def written(self) -> str:
        with self.image().open("rb") as image:
            image.seek(FIRST_MIB * MIB)
            return hashlib.sha256(image.read(WRITTEN_MIB * MIB)).hexdigest()

    def known(self) -> tuple[Any, ...]:
        """What the configuration says of the instance, without its history; its disks are whole."""
        config = self.config()
        (instance,) = config["instances"].values()
        instance = {key: value for key, value in instance.items() if key not in ("serial_no", "mtime")}
        return instance, {uuid: disk["logical_id"] for uuid, disk in config["disks"].items()}

    def counted(self) -> tuple[str, ...]:
        return tuple(self.run("gnt-instance", "list", "--no-headers", "-o", "status,disk.count,nic.count").split())


@pytest.fixture(scope="module")
def kvm_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    layout = bed.up(tmp_path_factory.mktemp("kvm-refused").resolve(), 1, "kvm", watcher_interval_s=3600)
    try:
        cluster.create(layout)
        found = Bed(layout)
        found.run(
            *("gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=64m", "-B", "memory=96", "--net", "0:"),
            *("-o", "heartbeat+default", "--no-start", "-n", "node1", NAME),
        )
        with found.image().open("r+b") as image:
            image.seek(FIRST_MIB * MIB)
            image.write(os.urandom(WRITTEN_MIB * MIB))
        found.run("gnt-instance", "startup", NAME)
        yield found
    finally:
        bed.down(layout)


def test_a_full_file_system_takes_nothing_from_disks_that_are_converted(kvm_bed: Bed) -> None:
    kvm_bed.beats()
    data, known = kvm_bed.written(), kvm_bed.known()
    kvm_bed.run("mount", "-t", "tmpfs", "-o", "size=24m", "none", SMALL)
    try:
        for state in ("running", "stopped"):
            said = kvm_bed.run("gnt-instance", "modify", "-t", "file", NAME, expect=1)
            assert re.search(r"^Failure: .*Node node1: Disk .*: No space left on device", said, re.MULTILINE), said
            assert SMALL in said and "make room there" in said, said
            assert "Traceback" not in said
            if state == "running":
                kvm_bed.beats()
                assert kvm_bed.known() == known
                assert kvm_bed.devices() == {"disk0", "nic0"}
                assert kvm_bed.block_nodes() == {"disk0"}
                kvm_bed.run("gnt-instance", "shutdown", "--timeout=0", NAME)
                known = kvm_bed.known()
            assert kvm_bed.known() == known
            assert kvm_bed.run("find", SMALL, "-type", "f") == ""
            assert kvm_bed.written() == data
        kvm_bed.check()
        assert "ERROR" not in kvm_bed.run("gnt-cluster", "verify")
    finally:
        kvm_bed.run("umount", SMALL)
    kvm_bed.run("gnt-instance", "modify", "-t", "file", NAME)
    kvm_bed.run("gnt-instance", "modify", "-t", "sharedfile", NAME)
    assert kvm_bed.written() == data
    kvm_bed.run("gnt-instance", "startup", NAME)
    kvm_bed.beats()


def test_devices_that_qemu_refuses(kvm_bed: Bed) -> None:
    """Places that are taken, and an image that QEMU does not understand."""
    kvm_bed.beats()
    known = kvm_bed.known()
    taken = {"disk-port1": "taken1", "port1": "taken2"}
    for bus, name in taken.items():
        kvm_bed.qemu("device_add", driver="virtio-rng-pci", id=name, bus=bus)
    for words, end in ((("--disk", "add:size=4m"), "the guest keeps the disks that it has"), (("--net", "add"), "")):
        said = kvm_bed.run("gnt-instance", "modify", *words, NAME, expect=1)
        assert "QEMU refused 'device_add': PCI: slot 0 function 0" in said and end in said, said
        assert_as_before(kvm_bed, known)
    for name in taken.values():
        kvm_bed.qemu("device_del", id=name)
    kvm_bed.wait(lambda: not set(taken.values()) & devices_of(kvm_bed), "the guest lets go of what was in the way")

    kvm_bed.run("gnt-instance", "modify", "--disk", "add:size=4m,name=odd,format=qcow2", NAME)
    kvm_bed.run("gnt-instance", "modify", "--disk", "odd:detach", NAME)
    assert kvm_bed.counted() == ("running", "1", "1")
    known = kvm_bed.known()
    (image,) = kvm_bed.layout.shared.rglob("*.disk1")
    with image.open("r+b") as file:
        file.seek(20)
        file.write((63).to_bytes(4, "big"))  # 2 to the 63 bytes a cluster
    said = kvm_bed.run("gnt-instance", "modify", "--disk", "1:attach,name=odd", NAME, expect=1)
    assert "QEMU refused 'blockdev-add': " in said and "the guest keeps the disks that it has" in said, said
    assert_as_before(kvm_bed, known)

    kvm_bed.run("gnt-instance", "modify", "--disk", "add:size=4m,name=good", "--net", "add", NAME)
    assert kvm_bed.counted() == ("running", "2", "2")
    assert kvm_bed.devices() == {"disk0", "disk1", "nic0", "nic1"}
    kvm_bed.beats()


def test_devices_that_the_guest_lets_go_of_too_late(kvm_bed: Bed) -> None:
    """It is stopped while it is asked, so the removal fails; what it lets go of later comes back."""
    kvm_bed.run("gnt-instance", "modify", "--disk", "add:size=4m,name=late", "--net", "add:name=late", NAME)
    had, known = kvm_bed.devices(), kvm_bed.known()
    kvm_bed.qemu("stop")
    for words in (("--disk", "late:remove"), ("--net", "late:remove")):
        said = kvm_bed.run("gnt-instance", "modify", *words, NAME, expect=1)
        assert "does not let go of" in said and "try again when it has booted" in said, said
        assert kvm_bed.known() == known
    assert kvm_bed.devices() == had
    kvm_bed.qemu("cont")
    kvm_bed.wait(lambda: len(kvm_bed.devices()) == len(had) - 2, "the guest lets go of both")
    assert "ERROR" not in kvm_bed.run("gnt-cluster", "verify")
    assert kvm_bed.devices() == had
    assert kvm_bed.known() == known

    kvm_bed.run("gnt-instance", "modify", "--disk", "late:remove", "--net", "late:remove", NAME)
    assert len(kvm_bed.devices()) == len(had) - 2
    kvm_bed.beats()


def devices_of(kvm_bed: Bed) -> set[str]:
    return {entry["name"] for entry in kvm_bed.qemu("qom-list", path="/machine/peripheral")}


def assert_as_before(kvm_bed: Bed, known: tuple[Any, ...]) -> None:
    """The guest goes on with one disk and one NIC, and everybody says so."""
    assert kvm_bed.known() == known
    assert kvm_bed.devices() == {"disk0", "nic0"}
    assert kvm_bed.block_nodes() == {"disk0"}
    assert kvm_bed.counted() == ("running", "1", "1")
    info = kvm_bed.run("gnt-instance", "info", NAME)
    assert ("disk/0" in info, "disk/1" in info, "nic/1" in info) == (True, False, False), info
    assert kvm_bed.guests() == {NAME: ["node1"]}, "with one tap"
    kvm_bed.beats()
