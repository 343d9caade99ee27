# SPDX-License-Identifier: BSD-2-Clause
"""Hypervisor parameters that a running guest takes over at once."""

import asyncio
import os
import socket
import warnings
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.utils import CryptographyDeprecationWarning
from msgspec.structs import replace
from tests.contract import hypervisor_world
from tests.real.test_kvm_parameters import NAME, Started

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.hypervisors.kvm import record
from ganeti.node.hypervisors.kvm.sockets import short_path

pytestmark = pytest.mark.real


@pytest.fixture
def guest(tmp_path: Path, guest_image):
    made = Started(tmp_path)
    yield made
    asyncio.run(made.hypervisor.stop(NAME, timeout_s=0))


async def change(guest: Started, **hvparams: Any) -> list[str]:
    spec = replace(guest.spec, hvparams=guest.spec.hvparams | hvparams)
    taken = await guest.hypervisor.devices.change_parameters(spec, [f"hv/{name}" for name in hvparams])
    return [name.removeprefix("hv/") for name in taken]


async def in_drives(guest: Started) -> list[int | None]:
    """Sizes of the CDs in the drives."""
    drives = [one for one in await guest.ask("query-block") if "cdrom" in one["qdev"]]
    return [one["inserted"]["image"]["virtual-size"] if "inserted" in one else None for one in drives]


def test_cds_are_changed_taken_out_and_put_in(guest: Started) -> None:
    small, large = guest.image("small.iso", 1 << 20), guest.image("large.iso", 2 << 20)
    key = Path(guest.hypervisor.places.paths.data_dir, "server.pem")
    key.parent.mkdir(parents=True, exist_ok=True)
    key.write_bytes(bytes(1 << 20))

    async def story() -> None:
        with pytest.raises(HypervisorError, match=r"cdrom_image_path cannot be .+: a guest gets nothing from below"):
            await guest.start(cdrom_image_path=str(key))
        await guest.start(cdrom_image_path=str(small), disk_type="scsi-hd", scsi_controller_type="virtio-scsi-pci")
        assert await in_drives(guest) == [1 << 20]
        for path, size in ((large, 2 << 20), (small, 1 << 20), ("", None), (large, 2 << 20)):
            assert await change(guest, cdrom_image_path=str(path)) == ["cdrom_image_path"]
            assert await in_drives(guest) == [size]
        with pytest.raises(HypervisorError, match="The image of cdrom_image_path at /nowhere cannot be opened"):
            await change(guest, cdrom_image_path="/nowhere")
        with pytest.raises(HypervisorError, match=r"cdrom_image_path cannot be .+: a guest gets nothing from below"):
            await change(guest, cdrom_image_path=str(key))
        assert await in_drives(guest) == [2 << 20]
        assert await change(guest, cdrom2_image_path=str(small)) == ["cdrom2_image_path"]
        assert await in_drives(guest) == [2 << 20, 1 << 20]
        assert await change(guest, cdrom2_image_path="") == ["cdrom2_image_path"]
        known = record.read(guest.hypervisor.places, NAME)
        assert known is not None and known.hvparams["cdrom_image_path"] == str(large)
        assert await guest.ask("query-fdsets") != []
        await change(guest, cdrom_image_path="")
        assert await guest.ask("query-fdsets") == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("hvparams", "reason"),
    [({}, "an IDE drive cannot come"), ({"cdrom_disk_type": "scsi-cd"}, "none can come to its controller lsi")],
)
def test_a_cd_waits_where_no_drive_can_come(guest: Started, hvparams: dict[str, Any], reason: str) -> None:
    async def story() -> None:
        await guest.start(**hvparams)
        obstacles = await guest.hypervisor.devices.hotplug_obstacles(NAME)
        assert reason in obstacles.parameters["hv/cdrom_image_path"]
        assert await change(guest, cdrom_image_path=str(guest.image("small.iso", 1 << 20))) == []
        assert await change(guest, cdrom_image_path="") == ["cdrom_image_path"]
        assert await in_drives(guest) == []

    asyncio.run(story())


def test_a_password_file_is_read_again(guest: Started) -> None:
    async def story() -> None:
        password = guest.directory / "password"
        password.write_text("before\n")
        await guest.start(vnc_bind_address=str(guest.directory), vnc_password_file=str(password))
        assert opens(guest, b"before") and not opens(guest, b"after")
        password.write_text("after\n")
        assert await change(guest, vnc_password_file=str(password)) == ["vnc_password_file"]
        assert opens(guest, b"after") and not opens(guest, b"before")
        password.write_text("\n")
        with pytest.raises(HypervisorError, match="is empty: write the password"):
            await change(guest, vnc_password_file=str(password))
        assert opens(guest, b"after")
        assert await change(guest, vnc_password_file="") == []

    asyncio.run(story())


def opens(guest: Started, password: bytes) -> bool:
    """Whether a VNC viewer gets in with the password (RFC 6143, 7.2.2)."""
    with socket.socket(socket.AF_UNIX) as viewer:
        with short_path(f"{guest.directory}/{NAME}.vnc") as short:
            viewer.connect(short)
        viewer.sendall(viewer.recv(12, socket.MSG_WAITALL))
        assert viewer.recv(2, socket.MSG_WAITALL) == b"\x01\x02"
        viewer.sendall(b"\x02")
        challenge = viewer.recv(16, socket.MSG_WAITALL)
        key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in password.ljust(8, b"\0")[:8])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES

            cipher = Cipher(TripleDES(key * 3), modes.ECB())
        encryptor = cipher.encryptor()
        viewer.sendall(encryptor.update(challenge) + encryptor.finalize())
        return viewer.recv(4, socket.MSG_WAITALL) == b"\0\0\0\0"


def test_processors_and_reboot(guest: Started) -> None:
    async def story() -> None:
        await guest.start(beparams={"vcpus": 2}, cpu_mask="0")
        wanted = {"cpu_mask": "0:all", "reboot_behavior": "exit", "migration_downtime": 100, "vga": "std"}
        assert await change(guest, **wanted) == ["cpu_mask", "reboot_behavior", "migration_downtime"]
        threads = [one["thread-id"] for one in await guest.ask("query-cpus-fast")]
        assert [os.sched_getaffinity(thread) for thread in threads] == [{0}, os.sched_getaffinity(0)]
        await change(guest, cpu_mask="all")
        assert os.sched_getaffinity(threads[0]) == os.sched_getaffinity(0)
        with pytest.raises(HypervisorError, match="has 3 lists, but the instance has 2"):
            await change(guest, cpu_mask="0:0:0")

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["paravirtual", "scsi-hd", "ide"])
def test_limits_of_disks_hold_from_the_start_and_change(guest: Started, kind: str) -> None:
    async def limits() -> list[tuple[int, int]]:
        disks = [one["inserted"] for one in await guest.ask("query-block") if one.get("inserted")]
        return [(one["iops"], one["bps"] >> 20) for one in disks]

    async def story() -> None:
        scsi = {"scsi_controller_type": "virtio-scsi-pci"}
        await guest.start(disks=2, disk_type=kind, disk_iops=300, **scsi)
        assert await limits() == [(300, 0)] * 2
        assert await change(guest, disk_bandwidth=20, disk_iops=100) == ["disk_bandwidth", "disk_iops"]
        assert await limits() == [(100, 20)] * 2
        if kind != "ide":
            more = hypervisor_world.disk(guest.image("more.img"), 2)
            every = [AttachedDisk(spec=one, path=one.logical_id[1]) for one in guest.spec.disks] + [more]
            known = record.read(guest.hypervisor.places, NAME)
            assert known is not None
            spec = replace(guest.spec, hvparams=known.hvparams, disks=[one.spec for one in every])
            await guest.hypervisor.devices.change_disks(spec, every)
            assert await limits() == [(100, 20)] * 3
        assert await change(guest, disk_iops=0, disk_bandwidth=0) == ["disk_iops", "disk_bandwidth"]
        assert set(await limits()) == {(0, 0)}

    asyncio.run(story())
