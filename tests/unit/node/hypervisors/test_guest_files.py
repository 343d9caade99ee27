# SPDX-License-Identifier: BSD-2-Clause
"""Which files of a node a guest may be given."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors import guest_files

UUID = "6d1c1a2e-2a6e-4a3f-9b60-3a3a4e2b7c11"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(str(tmp_path))
    Path(made.sysconf_dir).mkdir(parents=True)
    Path(made.file_storage_paths_file).write_text("# own\n/srv/ganeti/files\n")
    return made


def place(paths: Paths, name: str, mode: int = 0o644) -> str:
    path = Path(paths.under(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    "name",
    [
        "/var/lib/ganeti/server.pem",
        "/etc/shadow",
        "/etc/ganeti/rapi/users",
        "/root/.ssh/id_rsa",
        "/run/ganeti/socket/x",
        "/dev/vg/disk",
        "/var/log/syslog",
        f"/srv/ganeti/files/web1/{UUID}.file.disk0",
        "/srv/ganeti/export/web1/disk0",
        "/srv/ganeti/backup/web1/0",
    ],
)
def test_what_no_guest_is_given(name: str, paths: Paths) -> None:
    path = place(paths, name)
    link = Path(paths.under("/srv/link.iso"))
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(path)
    for parameter in guest_files.PARAMETERS:
        for given in (path, str(link), f"{Path(path).parent}/../{Path(path).parent.name}/{Path(path).name}"):
            with pytest.raises(HypervisorError, match=f"{parameter} cannot be "):
                guest_files.check_places(paths, {parameter: given})


@pytest.mark.parametrize(
    "name",
    [
        "/srv/iso/debian.iso",
        "/srv/ganeti/files/debian.ISO",
        "/boot/ganeti-heartbeat/vmlinuz",
        "/usr/lib/xen/boot/hvmloader",
        "/etc/ganeti/kernel",
        "/var/lib/libvirt/boot/floppy.img",
        "/srv/ganeti/files-of-others/x.img",
    ],
)
def test_what_a_guest_is_given(name: str, paths: Paths) -> None:
    guest_files.check_places(paths, dict.fromkeys(guest_files.PARAMETERS, place(paths, name)))


def test_of_the_settings_a_guest_gets_what_everybody_reads(paths: Paths) -> None:
    path = place(paths, "/etc/ganeti/vnc-cluster-password", 0o600)
    with pytest.raises(HypervisorError, match="everybody may read"):
        guest_files.check_places(paths, {"initrd_path": path})


def test_drives_of_the_node_and_the_net_are_not_refused(paths: Paths) -> None:
    for value in ("", "/dev/sr0", "http://192.0.2.1/etc/a.iso", "/nowhere"):
        guest_files.check_places(Paths(), {"cdrom_image_path": value, "kernel_path": ""})
    with pytest.raises(HypervisorError, match="/dev"):
        guest_files.check_places(Paths(), {"cdrom_image_path": "/dev/kmsg"})


@pytest.mark.parametrize(
    "name",
    [
        "/home/ann/.ssh/id_ed25519",
        "/var/spool/cron/crontabs/root",
        "/var/backups/shadow.bak",
        "/var/lib/mysql/users.ibd",
        "/opt/site/secret",
        "/usr/share/site/secret",
        "/swapfile",
    ],
)
def test_outside_of_the_places_of_images_a_guest_gets_what_everybody_reads(name: str, paths: Paths) -> None:
    guest_files.check_places(paths, {"cdrom_image_path": place(paths, name)})
    with pytest.raises(HypervisorError, match="a guest gets files that everybody may read"):
        guest_files.check_places(paths, {"cdrom_image_path": place(paths, name, 0o640)})


def test_an_image_in_a_directory_of_its_own_may_be_roots_alone(paths: Paths) -> None:
    for name in ("/srv/iso/debian.iso", "/boot/vmlinuz-6.8", "/data/images/base.raw"):
        guest_files.check_places(paths, {"cdrom_image_path": place(paths, name, 0o600)})
