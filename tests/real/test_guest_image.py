# SPDX-License-Identifier: BSD-2-Clause
"""The heartbeat guest on real QEMU: what it says is on its disk, and it resumes where the disk left off."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from ganeti.tools.testbed import guest, guest_run

pytestmark = pytest.mark.real
OS_DEFINITION = guest.tree() / "os" / "heartbeat"


def install(disk: Path, **parameters: str) -> None:
    """Run the OS definition's create script as NodeD does."""
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "INSTANCE_NAME": "web1",
        "DISK_COUNT": "1",
        "DISK_0_PATH": str(disk),
        "NIC_0_IP": "10.78.0.7",
    }
    subprocess.run(["./create"], cwd=OS_DEFINITION, env=environment | parameters, check=True)


def make_disk(path: Path, image_format: str) -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, str(path), "8M"], check=True)
    return path


def beat_on(disk: Path, sector: int = 0) -> int:
    """Give the number of the beat in a sector of the disk."""
    raw = disk.with_suffix(".raw")
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(disk), str(raw)], check=True)
    with raw.open("rb") as stream:
        return int(os.pread(stream.fileno(), 8, sector * guest.SECTOR_BYTES))


@pytest.mark.parametrize("image_format", ["raw", "qcow2"])
def test_what_is_acknowledged_is_on_the_disk_and_is_resumed(guest_image, tmp_path, image_format):
    disk = make_disk(tmp_path / "disk", image_format)
    install(disk, OSP_RATE="10")
    with guest_run.running(guest_image, disk) as first:
        assert first.wait_for(r"BOOTED-OK (\S+) (\S+)").groups() == ("web1", "10.78.0.7")
        assert first.wait_for(r"HB-RESUME (\d+)").group(1) == "0"
        first.wait_for("HB 5$")
        first.process.kill()
        first.process.wait()
    held = beat_on(disk)
    assert held >= 5
    assert [beat_on(disk, guest.RING_START_SECTOR + beat) for beat in range(1, 6)] == [1, 2, 3, 4, 5]
    with guest_run.running(guest_image, disk) as second:
        assert int(second.wait_for(r"HB-RESUME (\d+)").group(1)) == held
        assert int(second.wait_for(r"HB (\d+)").group(1)) == held + 1


def test_the_power_button_ends_it(guest_image, tmp_path):
    disk = make_disk(tmp_path / "disk", "raw")
    install(disk)
    with guest_run.running(guest_image, disk) as booted:
        booted.wait_for("HB 1$")
        booted.ask("system_powerdown")
        assert booted.process.wait(20) == 0


def test_the_kernel_command_line_is_stronger_than_the_disk(guest_image, tmp_path):
    disk = make_disk(tmp_path / "disk", "raw")
    install(disk)
    with guest_run.running(guest_image, disk, "hostname=other addr=10.78.0.9/16") as booted:
        assert booted.wait_for(r"BOOTED-OK (\S+) (\S+)").groups() == ("other", "10.78.0.9/16")


@pytest.mark.parametrize(
    ("identity", "bound", "seen_as"),
    [("addr=10.0.2.9 gw=10.0.2.2", "127.0.0.1", "10.0.2.2"), ("addr=fec0::9 gw=fec0::2", "::1", "[fec0::2]")],
)
def test_beats_go_out_over_ipv4_and_over_ipv6(guest_image, tmp_path, identity, bound, seen_as):
    """QEMU's own network behind the card hands what the guest sends to *seen_as* to this machine's loopback."""
    disk = make_disk(tmp_path / "disk", "raw")
    install(disk, OSP_RATE="5")
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    card = ("-netdev", "user,id=n0,restrict=off", "-device", "virtio-net-pci,netdev=n0,romfile=")
    with socket.create_server((bound, 0), family=family) as server:
        server.settimeout(60)
        more = f"{identity} ack={seen_as}:{server.getsockname()[1]}"
        with guest_run.running(guest_image, disk, more, devices=card) as booted:
            booted.wait_for(f"BOOTED-OK web1 {identity.split()[0][5:]} ")
            beats, _ = server.accept()
            with beats, beats.makefile() as lines:
                beats.settimeout(60)
                assert lines.readline().startswith("web1 ")


def test_without_a_disk_it_ticks_and_its_console_has_a_shell(guest_image):
    with guest_run.running(guest_image, more="hostname=bare hb=5") as booted:
        booted.wait_for("TICK 2$")
        booted.type("\n")
        booted.wait_for(r"bare:.*#|BusyBox")
        booted.type("echo $((6*7))-from-$(hostname)\n")
        booted.wait_for("42-from-bare")
        booted.type("exit\n")
        booted.wait_for("TICK ")
