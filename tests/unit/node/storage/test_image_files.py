# SPDX-License-Identifier: BSD-2-Clause
"""Image files where the machine lacks something; everything else is in the contract of all templates."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes.one_node import disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError
from ganeti.node.catalogue import build_catalogue
from ganeti.node.storage import image_io
from ganeti.node.storage.held_images import HeldImages
from ganeti.node.storage.image_lock import ImageLock
from ganeti.noded import world as node_world


def test_a_missing_qemu_img_is_told_and_nothing_is_left(node, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(node_world, "STANDARD_PATH", str(tmp_path))
    with pytest.raises(BlockDeviceError, match=r"of 1 MiB cannot be made: qemu-img cannot be started: .* install it"):
        node.call("blockdev_create", disk=disk_spec(params={"format": "qcow2"}))
    assert list(Path(node.paths.under("/srv/disks")).iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"params": {"format": "vmdk"}}, "Disk format 'vmdk' is not known: it must be raw or qcow2"),
        ({"logical_id": ["loop"]}, r"must be \[driver, path\]"),
        ({"logical_id": ["tape", "/srv/disks/web1/x"]}, r"must be \[driver, path\]"),
    ],
)
def test_what_makes_no_sense_is_refused(node, changes, sentence: str) -> None:
    with pytest.raises(BlockDeviceError, match=sentence):
        node.call("blockdev_create", disk=disk_spec(**changes))
    assert list(Path(node.paths.under("/srv/disks")).iterdir()) == []


def test_snapshots_come_back_where_a_renaming_is_taken_back(node, monkeypatch) -> None:
    """It broke off between the snapshots and the image."""
    before, after = disk_spec(), ["loop", "/srv/disks/web2/d0.file.disk0"]
    node.call("blockdev_create", disk=before)
    image = Path(node.paths.under(str(before.logical_id[1])))
    Path(f"{image}.snap-a").write_bytes(image.read_bytes())
    publish = image_io.publish

    def breaking(fresh: str, path: str) -> None:
        if fresh == str(image):
            raise OSError(5, "Input/output error")
        publish(fresh, path)

    monkeypatch.setattr(image_io, "publish", breaking)
    with pytest.raises(BlockDeviceError, match="cannot be renamed: Input/output error"):
        node.call("blockdev_rename", disk=before, logical_id=after)
    monkeypatch.setattr(image_io, "publish", publish)
    node.call("blockdev_rename", disk=replace(before, logical_id=after), logical_id=before.logical_id)
    assert Path(f"{image}.snap-a").exists()
    assert not Path(node.paths.under("/srv/disks/web2")).exists()


def test_of_two_instances_that_want_one_image_the_later_does_not_give_back_the_lock(node) -> None:
    """A shared disk that is attached to both at one moment: the later one fails, and closes what it has not opened."""
    disk = disk_spec()
    first, later = (instance_spec(name=name, disks=[disk]) for name in ("web1", "web2"))
    node.call("blockdev_create", disk=disk)
    node.call("instance_disks_assemble", instance=first)
    with pytest.raises(BlockDeviceError, match="is in use on node node1 by instance web1"):
        node.call("instance_disks_assemble", instance=later)
    image = node.paths.under(str(disk.logical_id[1]))
    node.call("instance_disks_shutdown", instance=later)
    assert Path(f"{image}.lock").exists() and HeldImages(node.paths).holds(image)
    node.call("instance_disks_shutdown", instance=first)
    assert not Path(f"{image}.lock").exists() and not HeldImages(node.paths).holds(image)


def test_the_catalogue_has_all_drivers_traits() -> None:
    catalogue = build_catalogue()
    assert catalogue.template("sharedfile").mirrored
    assert not catalogue.template("file").mirrored
    assert not catalogue.template("diskless").has_disks
    assert catalogue.hypervisor("fake").can_migrate


def test_a_draft_left_by_a_killed_daemon_is_not_written_through_to_the_lock(tmp_path: Path, monkeypatch) -> None:
    """Killed between giving the lock its name and taking away the draft's, both are one file."""

    def lock(boot: str) -> ImageLock:
        return ImageLock(str(tmp_path / "image"), node="node1", boot=boot, log=lambda sentence: None)

    lock("1").take("web1")
    before = Path(tmp_path, "image.lock").read_bytes()
    os.link(tmp_path / "image.lock", tmp_path / "image.lock.new-node1")
    monkeypatch.setattr(os, "replace", pytest.fail)  # what is seen now is what a power loss would leave
    with pytest.raises(pytest.fail.Exception):
        lock("2").take("web1")
    assert Path(tmp_path, "image.lock").read_bytes() == before


def test_disks_are_never_touched_on_the_event_loop(node, monkeypatch) -> None:
    """A network file system that hangs must not stop the daemon."""
    top = node.paths.under("/srv/disks")
    here, seen = threading.get_ident(), []

    def watched(name: str) -> None:
        real = getattr(os, name)

        def call(path, *args, **kwargs):
            if threading.get_ident() == here and str(path).startswith(top):
                seen.append((name, path))
            return real(path, *args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in (
        "lstat",
        "stat",
        "open",
        "scandir",
        "listdir",
        "mkdir",
        "rmdir",
        "unlink",
        "link",
        "rename",
        "statvfs",
    ):
        watched(name)
    unit = {"template": "sharedfile", "setting": "/srv/disks"}
    node.call("file_storage_dir_create", file_storage_dir="/srv/disks/sub")
    node.call("blockdev_create", disk=disk_spec())
    node.call("blockdev_assemble", disk=disk_spec(), owner="web1")
    node.call("blockdev_grow", disk=disk_spec(), amount_mib=1)
    node.call("blockdev_find", disk=disk_spec())
    node.call("blockdev_convert", source=disk_spec(), target=disk_spec(), owner="web1")
    node.call("blockdev_steal", disk=disk_spec(), owner="web1", reason="test")
    node.call("node_verify", checks={"storage": [unit], "disks": [unit]})
    node.call("node_info", storage=[unit], hypervisors={})
    node.call("blockdev_shutdown", disk=disk_spec())
    node.call("blockdev_remove", disk=disk_spec())
    node.call("file_storage_dir_remove", file_storage_dir="/srv/disks/sub")
    assert seen == []


@pytest.mark.parametrize("old_format", ["raw", "qcow2"])
@pytest.mark.parametrize("new_format", ["raw", "qcow2"])
def test_a_disk_is_copied_to_any_format_and_compared(node, monkeypatch, old_format: str, new_format: str) -> None:
    old = disk_spec(size_mib=3, params={"format": old_format})
    place = "/srv/disks/web1/new.file.disk0"
    new = disk_spec(uuid="new", template="file", logical_id=["loop", place], size_mib=3, params={"format": new_format})
    for disk in (old, new):
        node.call("blockdev_create", disk=disk)
    paths = [node.call("blockdev_assemble", disk=disk, owner="web1").path for disk in (old, new)]
    command = ["qemu-io", "-f", old_format, "-c", "write -q -P 7 1536k 1M", paths[0]]
    subprocess.run(command, check=True, capture_output=True)
    for _ in range(2):
        node.call("blockdev_convert", source=old, target=new, owner="web1")
    compare = ["qemu-img", "compare", "-f", old_format, "-F", new_format, *paths]
    assert subprocess.run(compare, capture_output=True).returncode == 0
    assert os.stat(paths[1]).st_blocks * 512 < 3 * image_io.MIB, "holes stay holes"
    monkeypatch.setattr(image_io, "same_raw", lambda one, other: False)
    if old_format == new_format == "raw":
        with pytest.raises(BlockDeviceError, match=r"cannot be copied to .*: they differ after that"):
            node.call("blockdev_convert", source=old, target=new, owner="web1")


def test_storage_that_hangs_is_told_and_costs_one_thread(node, monkeypatch) -> None:
    monkeypatch.setattr(image_io, "HUNG_AFTER_S", 0.05)
    real, server, asked = image_io.space_mib, threading.Event(), []

    def space_mib(directory: str) -> tuple[int, int]:
        asked.append(directory)
        server.wait(10)
        return real(directory)

    async def ask() -> list[object]:
        found = [await node.make_call("node_info", storage=[unit], hypervisors={}) for _ in range(5)]
        with pytest.raises(BlockDeviceError, match="/srv/disks does not answer"):
            await node.make_call("blockdev_find", disk=disk_spec())
        server.set()
        return found

    monkeypatch.setattr(image_io, "space_mib", space_mib)
    unit = {"template": "sharedfile", "setting": "/srv/disks"}
    assert [info.storage[0].storage_size for info in node.run(ask())] == [None] * 5
    assert len(asked) == 1


def test_disks_in_directories_of_their_own_choice_are_listed(node) -> None:
    """``--file-storage-dir`` puts directories between the cluster's and the instance's."""
    disk = disk_spec("file", logical_id=["loop", "/srv/disks/fast/rack1/web1/d0.file.disk0"])
    node.call("blockdev_create", disk=disk)
    answer = node.call("node_verify", checks={"disks": [{"template": "file", "setting": "/srv/disks"}]})
    assert answer.disks == {"file /srv/disks": [disk.logical_id[1]]}


def test_verification_is_told_what_disks_lack(node) -> None:
    whole, short, missing = (
        disk_spec("file", uuid=name, size_mib=4, logical_id=["loop", f"/srv/disks/web1/{name}.file.disk0"])
        for name in ("whole", "short", "missing")
    )
    for disk in (whole, short):
        node.call("blockdev_create", disk=disk)
    os.truncate(node.paths.under(short.logical_id[1]), image_io.MIB)
    outside = disk_spec("file", uuid="outside", logical_id=["loop", "/etc/passwd"])
    disks = [whole, short, missing, outside]
    answer = node.call("node_verify", checks={"disk-status": disks}).disk_status
    assert set(answer) == {"short", "missing", "outside"}
    assert answer["missing"] is None
    assert "has 1 MiB of its 4 MiB" in answer["short"]
    assert "/etc/passwd" in answer["outside"]
