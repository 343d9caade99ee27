# SPDX-License-Identifier: BSD-2-Clause
"""What a submitter may name as QEMU, as a password's file, as a place of huge pages, and in further arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import emulator, named_files


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(str(tmp_path))
    for directory in ("etc/ganeti/rapi", "var/lib/ganeti", "srv/ganeti/export", "srv/iso", "dev/hugepages", "run"):
        (tmp_path / directory).mkdir(parents=True)
    for name in ("etc/shadow", "etc/ganeti/backup-store.json", "var/lib/ganeti/hmac.key", "etc/ganeti/vnc-password"):
        (tmp_path / name).write_text("secret\n")
    return made


@pytest.mark.parametrize("name", named_files.PASSWORDS)
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/etc/shadow", "nothing from below"),
        ("/var/lib/ganeti/hmac.key", "nothing from below"),
        ("/etc/ganeti/backup-store.json", "with 'password' in its name"),
        ("/srv/ganeti/export/disk0", "disks of guests are kept below"),
    ],
)
def test_other_secrets_are_no_password(paths: Paths, name: str, path: str, sentence: str) -> None:
    link = Path(paths.under("/srv/iso/password"))
    link.symlink_to(paths.under(path))
    for given in (paths.under(path), str(link)):
        with pytest.raises(HypervisorError, match=f"{name} cannot be .*{sentence}"):
            named_files.check(paths, {name: given})


def test_passwords_are_files_for_it(paths: Paths) -> None:
    for path in ("/etc/ganeti/vnc-password", "/etc/ganeti/vnc-cluster-password", "/srv/iso/vnc"):
        named_files.check(paths, dict.fromkeys(named_files.PASSWORDS, paths.under(path)))


def test_huge_pages_are_no_other_directory(paths: Paths) -> None:
    for path in ("/etc", "/var/lib/ganeti", "/dev", "/run", "/srv/ganeti", "/srv/ganeti/export", "/"):
        with pytest.raises(HypervisorError, match="mem_path cannot be"):
            named_files.check(paths, {"mem_path": paths.under(path)})
    for path in ("/dev/hugepages", "/dev/hugepages/guests", "/mnt/huge"):
        named_files.check(paths, {"mem_path": paths.under(path)})


@pytest.mark.parametrize(
    "text",
    [
        "-drive file={root}/etc/shadow,if=virtio,format=raw",
        "-drive file.filename=../..{root}/etc/shadow",
        """-blockdev '{{"driver":"file","node-name":"x","filename":"{root}/var/lib/ganeti/hmac.key"}}'""",
        "-fsdev local,id=f,path={root}/srv,security_model=none",
        "-fw_cfg name=opt/x,file={root}/etc/ganeti/../shadow",
        "-drive file=nbd+unix:///?socket={quoted}%2Frun%2Fx",
        "-kernel {root}/etc/shadow",
    ],
)
def test_further_arguments_name_no_file_that_a_guest_is_not_given(paths: Paths, text: str) -> None:
    said = text.format(root=paths.under("/").rstrip("/"), quoted=paths.under("/").rstrip("/").replace("/", "%2F"))
    with pytest.raises(HypervisorError, match=r"kvm_extra cannot name .*kvm-extra-paths"):
        named_files.check(paths, {"kvm_extra": said})


@pytest.mark.parametrize(
    "text",
    [
        "-drive file=fat:rw:etc",
        "-fsdev local,id=f,path=root",
        "-virtfs local,path=.",
        "-virtfs local,path=..",
        "-hda etc",
    ],
)
def test_a_path_without_a_slash_begins_at_the_root_directory(text: str) -> None:
    with pytest.raises(HypervisorError, match=r"kvm_extra cannot name /"):
        named_files.check_arguments(Paths("/"), text)


def test_names_of_parts_are_no_paths() -> None:
    text = "-drive if=none,id=etc,media=cdrom -device scsi-hd,id=root,bus=dev -netdev tap,id=n,script=no,downscript=no"
    named_files.check_arguments(Paths("/"), text)


@pytest.mark.parametrize(
    "text",
    [
        "-sandbox off",
        "--runas root",
        "-netdev tap,id=n,script=/srv/x",
        "-netdev bridge,id=n,helper=/srv/x",
        "-netdev user,id=n,guestfwd=tcp:10.0.2.9:80-cmd:x",
        "-netdev tap,id=n,script=no.sh",
        "-netdev tap,id=n,downscript=no/../srv/x",
        "-incoming exec:x",
        "-qmp tcp:127.0.0.1:4444,server",
        "-monitor tcp:127.0.0.1:4444,server",
        "-mon chardev=m",
        "-serial mon:tcp:127.0.0.1:4444,server",
        r"""-blockdev '{"filename":"\u002fetc\u002fshadow"}'""",
    ],
)
def test_further_arguments_start_nothing_and_keep_what_protects_the_node(paths: Paths, text: str) -> None:
    with pytest.raises(HypervisorError, match="kvm_extra cannot have"):
        named_files.check(paths, {"kvm_extra": text})


def test_further_arguments_as_sites_use_them(paths: Paths) -> None:
    random = paths.under("/dev/urandom")
    for text in (
        f"-object rng-random,id=r,filename={random} -device virtio-rng-pci,rng=r",
        "-smbios type=1,serial=a/b -global ide-hd.serial='a b'",
        "-device vfio-pci,host=0000:01:00.0 -netdev tap,id=n,script=no,downscript=no",
        f"-drive file={paths.under('/srv/iso/debian.iso')},media=cdrom",
    ):
        named_files.check(paths, {"kvm_extra": text})


def test_root_of_the_node_may_give_more(paths: Paths) -> None:
    text = f"-chardev socket,id=c,path={paths.under('/run/swtpm/web1')}"
    with pytest.raises(HypervisorError, match="nothing from below"):
        named_files.check(paths, {"kvm_extra": text})
    Path(paths.sysconf_dir, named_files.LISTED).write_text(f"# TPMs\n{paths.under('/run/swtpm')}\n")
    named_files.check(paths, {"kvm_extra": text})


def test_qemu_is_a_program_of_root_with_its_name(tmp_path: Path) -> None:
    place = tmp_path / "bin"
    place.mkdir(mode=0o755)
    shell = place / "sh"
    program = place / "qemu-system-x86_64"
    for path in (shell, program):
        path.touch()
        path.chmod(0o755)
    (place / "kvm").symlink_to(program)
    (place / "qemu").symlink_to(shell)
    for name in ("kvm", "qemu-system-x86_64"):
        assert emulator.program({"kvm_path": str(place / name)}) == str(place / name)
    for name in ("sh", "qemu"):
        with pytest.raises(HypervisorError, match="begins with qemu or kvm"):
            emulator.program({"kvm_path": str(place / name)})
    for path in (program, place):
        before = path.stat().st_mode
        path.chmod(0o777)
        with pytest.raises(HypervisorError, match="others than root may write"):
            emulator.program({"kvm_path": str(place / "kvm")})
        path.chmod(before)
