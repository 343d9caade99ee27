# SPDX-License-Identifier: BSD-2-Clause
"""A helper guest on real QEMU: it boots from a copy of its image, zeroes free space on the disk behind it, and ends."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest
from tests.contract import hypervisor_world
from tests.fakes.one_node import OneNode
from tests.real import kvm_lab
from tests.real.kvm_lab import metadata_daemon

from ganeti.model.node_requests import DiskSpec
from ganeti.node.hypervisors.kvm.parameters import helper_parameters
from ganeti.tools.testbed import guest

pytestmark = pytest.mark.real
MIB = 1024 * 1024
ENDS_WITHIN_S = 120.0
ADDRESS = "169.254.0.9"
INIT = b"""#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module.ko"; done </modules/order
mkdir /mnt
for try in 1 2 3 4 5 6 7 8 9; do [ -b /dev/vdb ] && break; sleep 0.2; done
mount -t ext4 /dev/vdb /mnt && {
  dd if=/dev/zero of=/mnt/zeros bs=64k 2>/dev/null
  sync
  rm /mnt/zeros
  umount /mnt
}
poweroff -f
"""
SYSLINUX = f"DEFAULT helper\nLABEL helper\n KERNEL vmlinuz\n INITRD initrd\n APPEND {guest.KERNEL_ARGS}\n"


def run(*argv: str, cwd: Path | None = None, path: str = "") -> None:
    env = {"PATH": f"{path}:/usr/sbin:/usr/bin:/sbin:/bin", "MTOOLS_SKIP_CHECK": "1"}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"


def boot_loader() -> str:
    """The directory of syslinux and mtools, unpacked into the cache and not installed."""
    place = guest.cache_directory() / "boot-loader"
    if not (place / "usr/bin/syslinux").exists():
        place.mkdir(parents=True, exist_ok=True)
        run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "syslinux", "mtools", cwd=place)
        for package in place.glob("*.deb"):
            run("dpkg", "-x", str(package), str(place))
    return str(place / "usr/bin")


INSTALLER = b"""#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module.ko"; done </modules/order
for try in 1 2 3 4 5 6 7 8 9; do [ -b /dev/vdb ] && [ -d /sys/class/net/eth0 ] && break; sleep 0.2; done
ip addr add "$(cat /sys/class/dmi/id/product_family)/16" dev eth0
ip link set eth0 up
for try in 1 2 3 4 5 6 7 8 9; do
  wget -qO /create http://169.254.169.254/ganeti/latest/os/scripts/create && break
  sleep 0.5
done
sh /create /dev/vdb
sync
poweroff -f
"""


@pytest.fixture
def image(guest_image: guest.GuestImage, tmp_path: Path) -> Path:
    return bootable(guest_image, tmp_path, INIT)


def bootable(guest_image: guest.GuestImage, tmp_path: Path, init: bytes) -> Path:
    """A disk that a BIOS boots from: the heartbeat guest's kernel with another first program."""
    tools = boot_loader()
    archive = guest.Archive()
    archive.add("init", stat.S_IFREG | 0o755, init)
    first = guest_image.initrd.read_bytes()  # the kernel looks for a second archive at a multiple of four bytes
    (tmp_path / "initrd").write_bytes(first + bytes(-len(first) % 4) + archive.finish())
    (tmp_path / "syslinux.cfg").write_text(SYSLINUX)
    made = tmp_path / "helper.img"
    made.touch()
    os.truncate(made, 24 * MIB)
    run("mformat", "-i", str(made), "-h", "64", "-s", "32", "-t", "24", "::", path=tools)
    files = [str(guest_image.kernel), str(tmp_path / "initrd"), str(tmp_path / "syslinux.cfg")]
    run("mcopy", "-i", str(made), *files, "::", path=tools)
    run("syslinux", "--install", str(made), path=tools)
    return made


def test_free_space_is_zeroed_and_what_is_used_stays(image: Path, tmp_path: Path) -> None:
    node = OneNode(tmp_path / "node")
    disk = DiskSpec(uuid="d0", template="file", logical_id=["loop", "/srv/disks/web1/d0"], size_mib=16, index=0)
    node.call("blockdev_create", disk=disk)
    path = Path(node.paths.under("/srv/disks/web1/d0"))
    files = tmp_path / "files"
    files.mkdir()
    kept, removed = b"kept".ljust(512, b"k") * 2048, b"gone".ljust(512, b"g") * 2048
    (files / "kept").write_bytes(kept)
    (files / "removed").write_bytes(removed)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", str(files), str(path))
    run("debugfs", "-w", "-R", "rm removed", str(path))
    assert kept in path.read_bytes() and removed in path.read_bytes()
    hvparams = {"kernel_path": str(image), "boot_order": "network", "kvm_flag": "disabled"}
    instance = hypervisor_world.instance(
        "kvm",
        "web1",
        hvparams=hvparams,
        beparams={"maxmem": 96, "minmem": 96},
        disks=[disk],
        nics=[hypervisor_world.nic()],
    )
    node.call("helper_start", instance=instance, image=str(image))
    try:
        deadline_s = time.monotonic() + ENDS_WITHIN_S
        while (found := node.call("instance_info", instance=instance)) is not None and found.state != "shutdown":
            assert time.monotonic() < deadline_s, f"the helper guest is {found.state} after {ENDS_WITHIN_S:g} s"
            time.sleep(0.2)
    finally:
        node.call("helper_end", instance=instance)
    content = path.read_bytes()
    assert kept in content and b"gone".ljust(512, b"g") not in content
    run("e2fsck", "-f", "-n", str(path))
    assert os.listdir(f"{node.paths.data_dir}/helper-images") == []
    assert node.call("instance_info", instance=instance) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_an_os_is_installed_by_a_script_that_the_node_does_not_run(
    guest_image: guest.GuestImage, tmp_path: Path
) -> None:
    with kvm_lab.opened(tmp_path / "lab", guest_image) as lab, metadata_daemon(lab.nodes[0]) as told:
        node = lab.nodes[0]
        place = node.root / "srv/ganeti/os/image"
        place.mkdir(parents=True)
        for script in ("create_untrusted", "import", "export", "rename", "verify"):
            (place / script).write_text('#!/bin/sh\nprintf installed | dd of="$1" conv=notrunc 2>/dev/null\n')
            (place / script).chmod(0o755)
        for name, content in (("ganeti_api_version", "20"), ("parameters.list", "")):
            (place / name).write_text(f"{content}\n")
        nic = hypervisor_world.nic(
            0, mode="routed", link="communication_rt", ip=ADDRESS, name="ganeti:communication:web1"
        )
        hvparams = helper_parameters(lab.instance("web1").hvparams | {"kvm_flag": "disabled"}, ADDRESS)
        disk = lab.disk("web1", 1)
        own = hypervisor_world.disk(bootable(guest_image, tmp_path, INSTALLER), 0)
        spec = hypervisor_world.instance(
            "kvm",
            "web1",
            hvparams=hvparams,
            beparams={"maxmem": 96, "minmem": 96},
            disks=[own.spec, disk.spec],
            nics=[nic],
        )
        told("update_config", {"name": "web1", "uuid": spec.uuid, "address": ADDRESS, "os": "image", "parameters": {}})
        node.call("start", spec=spec, disks=[own, disk])
        kvm_lab.wait_until(lambda: node.state("web1") in (None, "shutdown"), "the end of the helper guest")
        assert Path(disk.path).read_bytes().startswith(b"installed")
