# SPDX-License-Identifier: BSD-2-Clause
"""The heartbeat guest: Debian's cloud kernel and a busybox RAM disk that boot in two seconds under emulation.

What it does is written at the top of ``guest_init.sh``. The two files are made once and kept in a cache; nothing of the
kernel package is installed on the machine.
"""

import dataclasses
import gzip
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ganeti.base.errors import CommandError

KERNEL_METAPACKAGE = "linux-image-cloud-amd64"
KERNEL_ARGS = "console=ttyS0 quiet no_timer_check mitigations=off panic=-1"
BUSYBOX = Path("/bin/busybox")
INIT = Path(__file__).with_name("guest_init.sh")
MAGIC = "ganeti-heartbeat 1"
CONFIG_SECTOR = 8
CONFIG_SECTORS = 4
SECTOR_BYTES = 512
RING_START_SECTOR = 64
RING_SECTORS = 1024

# In the order in which they must be loaded.
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_mmio"),
    *("virtio_blk", "failover", "net_failover", "virtio_net", "virtio-rng", "virtio_balloon", "virtio_mem"),
    *("virtio_console", "button", "evdev", "scsi_common", "scsi_mod", "sd_mod", "cdrom", "sr_mod"),
    "virtio_scsi",
)


@dataclasses.dataclass(frozen=True)
class GuestImage:
    """Where the kernel and the initial RAM disk of the guest lie."""

    kernel: Path
    initrd: Path


def tree() -> Path:
    """Give the checkout this package runs from."""
    return Path(__file__).resolve().parents[4]


def cache_directory() -> Path:
    """Give where made things are kept: ``$XDG_CACHE_HOME/ganeti``, else ``.cache`` of the checkout."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) / "ganeti" if chosen else tree() / ".cache"


def find() -> GuestImage | None:
    """Give the image made for this very source, or None if it has still to be built."""
    place = _image_directory()
    image = GuestImage(place / "vmlinuz", place / "initrd")
    return image if image.kernel.exists() and image.initrd.exists() else None


def ensure() -> GuestImage:
    """Give the guest image, building it first if needed.

    Raises `CommandError` when the kernel package cannot be had.
    """
    found = find()
    if found is not None:
        return found
    package = _ensure_kernel_package()
    place = _image_directory()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".building-") as scratch:
        made = Path(scratch) / "image"
        made.mkdir()
        shutil.copy(_kernel_of(package), made / "vmlinuz")
        (made / "initrd").write_bytes(gzip.compress(_initrd(package), compresslevel=6, mtime=0))
        made.chmod(0o755)
        (made / "vmlinuz").chmod(0o644)
        try:
            made.rename(place)
        except OSError:
            if find() is None:  # nobody else was quicker
                raise
    return GuestImage(place / "vmlinuz", place / "initrd")


def _image_directory() -> Path:
    source = hashlib.sha256(INIT.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    return cache_directory() / "guest" / source


def _ensure_kernel_package() -> Path:
    """Unpack the newest cloud kernel into the cache, without installing it, and give the directory."""
    place = cache_directory() / "kernel"
    if not any(place.glob("boot/vmlinuz-*")):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".kernel-") as scratch:
            name = _kernel_package_name()
            _run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", name, directory=scratch)
            (archive,) = Path(scratch).glob("*.deb")
            unpacked = Path(scratch) / "unpacked"
            _run("dpkg", "-x", str(archive), str(unpacked))
            unpacked.chmod(0o755)
            if place.exists():
                shutil.rmtree(place)
            unpacked.rename(place)
    return place


def _kernel_package_name() -> str:
    """Ask which package the metapackage stands for, refreshing the package lists if they are missing."""
    for attempt in range(2):
        answer = _run("apt-cache", "depends", KERNEL_METAPACKAGE, check=attempt == 1)
        found = re.search(r"Depends: (linux-image-\S+)", answer)
        if found:
            return found.group(1)
        _run("apt-get", "-qq", "update")
    raise CommandError(f"Debian's archive has no {KERNEL_METAPACKAGE}; check the sources of apt on this machine")


def _kernel_of(package: Path) -> Path:
    return sorted((package / "boot").glob("vmlinuz-*"))[-1]


def _initrd(package: Path) -> bytes:
    if not BUSYBOX.exists():
        raise CommandError(f"{BUSYBOX} is missing; install the package busybox-static")
    archive = Archive()
    for directory in ("bin", "dev", "proc", "sys", "run", "tmp", "modules", "etc"):
        archive.add(directory, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes())
    for applet in _run(str(BUSYBOX), "--list").split():
        if applet != "busybox":
            archive.add(f"bin/{applet}", stat.S_IFLNK | 0o777, b"busybox")
    archive.add("init", stat.S_IFREG | 0o755, INIT.read_bytes())
    present = list(_modules(package))
    for name, content in present:
        archive.add(f"modules/{name}.ko", stat.S_IFREG | 0o644, content)
    archive.add("modules/order", stat.S_IFREG | 0o644, "".join(f"{name}\n" for name, _ in present).encode())
    return archive.finish()


def _modules(package: Path) -> Iterator[tuple[str, bytes]]:
    files = {path.stem: path for path in package.glob("lib/modules/*/kernel/**/*.ko")}
    with tempfile.TemporaryDirectory() as scratch:
        for name in MODULES:
            if name in files:
                stripped = Path(scratch) / f"{name}.ko"
                _run("strip", "-g", "-o", str(stripped), str(files[name]))
                yield name, stripped.read_bytes()


class Archive:
    """A cpio archive in the ``newc`` form the kernel unpacks."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._inode = 0

    def add(self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        self._parts += [_padded(header + encoded), _padded(content)]

    def finish(self) -> bytes:
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _padded(part: bytes) -> bytes:
    return part + b"\0" * (-len(part) % 4)


def _run(*command: str, directory: str | None = None, check: bool = True) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise CommandError(f"{' '.join(command[:3])} failed: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


if __name__ == "__main__":
    image = ensure()
    print(f"kernel {image.kernel}\ninitrd {image.initrd}")
