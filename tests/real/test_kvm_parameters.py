# SPDX-License-Identifier: BSD-2-Clause
"""Hypervisor parameters of ``kvm`` act: what QEMU is asked for is what the guest's machine then has."""

import asyncio
import datetime
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.contract import hypervisor_world
from tests.contract.hypervisor_world import NodeOnDisk

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.migration import MigrationTarget
from ganeti.node.hypervisors.kvm.driver import KvmHypervisor
from ganeti.node.hypervisors.kvm.qmp import Qmp

pytestmark = pytest.mark.real
NAME = "web1.example.com"


class Started:
    """A started guest, and questions to its QEMU."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.hypervisor = KvmHypervisor(NodeOnDisk(directory / "node"))

    async def start(self, disks: int = 0, beparams: dict[str, Any] | None = None, **hvparams: Any) -> None:
        images = [self.image(f"disk{index}.img") for index in range(disks)]
        attached = [hypervisor_world.disk(path, index) for index, path in enumerate(images)]
        self.spec = hypervisor_world.instance(
            "kvm", NAME, hvparams=hvparams, beparams=beparams or {}, disks=[one.spec for one in attached]
        )
        await self.hypervisor.start(self.spec, attached)

    def image(self, name: str, size: int = 16 * 1024 * 1024) -> Path:
        path = self.directory / name
        path.touch()
        os.truncate(path, size)
        return path

    async def ask(self, command: str, **arguments: Any) -> Any:
        async with Qmp(self.hypervisor.places.socket(NAME, "qmp")) as qmp:
            return await qmp.execute(command, arguments)

    async def monitor(self, line: str) -> str:
        return str(await self.ask("human-monitor-command", **{"command-line": line}))

    def words(self) -> list[str]:
        pid = Path(self.hypervisor.places.pid(NAME)).read_text().strip()
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")

    async def property(self, path: str, name: str) -> Any:
        return await self.ask("qom-get", path=path, property=name)


@pytest.fixture
def guest(tmp_path: Path, guest_image):
    made = Started(tmp_path)
    yield made
    asyncio.run(made.hypervisor.stop(NAME, timeout_s=0))


@pytest.mark.parametrize(
    "hvparams",
    [
        {"disk_type": "ide", "disk_cache": "none", "disk_aio": "native"},
        {"disk_type": "scsi-hd", "scsi_controller_type": "virtio-scsi-pci", "disk_aio": "io_uring"},
        {"disk_type": "scsi", "scsi_controller_type": "megasas", "disk_discard": "unmap"},
        {"disk_type": "scsi", "scsi_controller_type": "lsi"},
        {"disk_type": "sd"},
        {"machine_version": "pc", "disk_type": "ide"},
        {"kvm_pci_reservations": 0},
        {"acpi": False, "use_localtime": True, "serial_console": False},
        {"use_guest_agent": True, "user_shutdown": True, "usb_mouse": "tablet", "usb_devices": "keyboard mouse"},
        {"soundhw": "hda,ac97", "vga": "cirrus", "keymap": "de"},
        {"kvm_extra": "-global ide-hd.serial='a b'", "reboot_behavior": "exit"},
    ],
)
def test_qemu_accepts(guest: Started, hvparams: dict[str, Any]) -> None:
    async def story() -> None:
        await guest.start(disks=2, **hvparams)
        found = await guest.hypervisor.info(NAME)
        assert found is not None and found.state == "running"
        assert len([one for one in await guest.ask("query-block") if one.get("inserted")]) == 2

    asyncio.run(story())


def test_processors(guest: Started) -> None:
    async def story() -> None:
        mask = "0:all"
        await guest.start(beparams={"vcpus": 2}, cpu_cores=2, cpu_type="max,-avx", cpu_mask=mask)
        processors = await guest.ask("query-cpus-fast")
        assert [one["props"]["core-id"] for one in processors] == [0, 1]
        assert os.sched_getaffinity(processors[0]["thread-id"]) == {0}
        assert os.sched_getaffinity(processors[1]["thread-id"]) == os.sched_getaffinity(0)
        assert "cores=2" in " ".join(guest.words())

    asyncio.run(story())


def test_memory_from_a_directory(guest: Started) -> None:
    async def story() -> None:
        (guest.directory / "pages").mkdir()
        await guest.start(mem_path=str(guest.directory / "pages"))
        (found,) = await guest.ask("query-memdev")
        assert found["size"] == 32 * 1024 * 1024
        with pytest.raises(HypervisorError, match="corrupts memory"):
            nowhere = MigrationTarget(address="127.0.0.1", port=1, key="00" * 32)
            await guest.hypervisor.migrate(NAME, nowhere, live=True)

    asyncio.run(story())


def test_emulated_memory_avoids_the_sizes_that_old_qemu_corrupts(guest: Started) -> None:
    async def story() -> None:
        await guest.start()
        version = (await guest.ask("query-version"))["qemu"]
        used = (await guest.ask("query-memory-size-summary"))["base-memory"]
        assert used == (32 * 1024 + (8 if version["major"] < 9 else 0)) * 1024

    asyncio.run(story())


def test_removable_media_and_boot_order(guest: Started) -> None:
    async def story() -> None:
        iso, floppy = guest.image("cd.iso"), guest.image("floppy.img", 1474560)
        images = {"cdrom_image_path": str(iso), "cdrom2_image_path": str(iso), "floppy_image_path": str(floppy)}
        await guest.start(disks=1, boot_order="cdrom", **images)
        first = await guest.property("/machine/peripheral/cdrom0", "bootindex")
        later = await guest.property("/machine/peripheral/disk0", "bootindex")
        assert first < later
        assert len([one for one in await guest.ask("query-block") if one.get("inserted")]) == 4

    asyncio.run(story())


def test_vnc_with_a_password(guest: Started) -> None:
    async def story() -> None:
        secret = guest.directory / "password"
        secret.write_text("top5ecret\n")
        await guest.start(vnc_bind_address="127.0.0.1", vnc_password_file=str(secret))
        shown = await guest.ask("query-vnc")
        assert (shown["host"], shown["service"], shown["auth"]) == ("127.0.0.1", "11000", "vnc")
        assert "top5ecret" not in " ".join(guest.words())
        assert "top5ecret" not in Path(guest.hypervisor.places.log(NAME)).read_text()

    asyncio.run(story())


def test_vnc_on_a_unix_socket_and_by_interface(guest: Started) -> None:
    async def story() -> None:
        directory = guest.directory / "v"
        directory.mkdir()
        if len(str(directory)) + len(NAME) < 100:
            await guest.start(vnc_bind_address=str(directory))
            assert (directory / f"{NAME}.vnc").is_socket()
            await guest.hypervisor.stop(NAME, timeout_s=0)
            assert not list(directory.iterdir())
        await guest.start(vnc_bind_address="lo")
        assert (await guest.ask("query-vnc"))["host"] == "127.0.0.1"

    asyncio.run(story())


def test_vnc_with_tls(guest: Started) -> None:
    async def story() -> None:
        store = guest.directory / "pki"
        store.mkdir()
        make_certificates(store)
        await guest.start(vnc_bind_address="127.0.0.1", vnc_tls=True, vnc_x509_path=str(store), vnc_x509_verify=True)
        assert (await guest.ask("query-vnc"))["auth"] == "vencrypt+x509+none"

    asyncio.run(story())


def make_certificates(store: Path) -> None:
    """An authority and a server, by the names QEMU looks for."""
    authority_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    server_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    authority = certificate("authority", authority_key, "authority", authority_key, is_authority=True)
    server = certificate("node1.example.com", server_key, "authority", authority_key, is_authority=False)
    (store / "ca-cert.pem").write_bytes(authority.public_bytes(Encoding.PEM))
    (store / "server-cert.pem").write_bytes(server.public_bytes(Encoding.PEM))
    (store / "server-key.pem").write_bytes(server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def certificate(
    name: str, key: rsa.RSAPrivateKey, signer: str, signer_key: rsa.RSAPrivateKey, *, is_authority: bool
) -> x509.Certificate:
    today = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, signer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(signer_key, hashes.SHA256())
    )


def test_spice(guest: Started) -> None:
    async def story() -> None:
        secret = guest.directory / "password"
        secret.write_text("top5ecret\n")
        hvparams = {
            "spice_bind": "127.0.0.1",
            "spice_password_file": str(secret),
            "spice_image_compression": "glz",
            "spice_streaming_video": "off",
            "soundhw": "hda",
        }
        spec = hypervisor_world.instance("kvm", NAME, hvparams=hvparams)
        try:
            await guest.hypervisor.check_parameters(spec.hvparams)
        except HypervisorError as err:
            assert "no SPICE" in str(err)
            pytest.skip(str(err))
        await guest.start(**hvparams)
        shown = await guest.ask("query-spice")
        assert (shown["host"], shown["port"], shown["auth"]) == ("127.0.0.1", 11000, "spice")

    asyncio.run(story())


def test_a_confined_guest_has_another_user_and_root(guest: Started) -> None:
    async def story() -> None:
        await guest.start(security_model="user", security_domain="nobody", use_chroot=True)
        pid = Path(guest.hypervisor.places.pid(NAME)).read_text().strip()
        assert os.stat(f"/proc/{pid}").st_uid != 0
        assert os.readlink(f"/proc/{pid}/root") == guest.hypervisor.places.chroot(NAME)
        seccomp = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Seccomp:")]
        assert seccomp == ["Seccomp:\t2"]

    asyncio.run(story())
