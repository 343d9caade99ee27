# SPDX-License-Identifier: BSD-2-Clause
"""Providers of external storage that say no, hang or lie; and what a hypervisor is told."""

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.one_node import OneNode, disk_spec, instance_spec

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.model.new_disk import NewDisk
from ganeti.model.node_requests import DiskSpec
from ganeti.node.storage.ext import scripts
from ganeti.node.storage.ext.driver import ExternalDisks
from ganeti.node.storage.image_io import MIB

LOOPED = Path(__file__).resolve().parents[4] / "fakes/extstorage/looped"
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="the provider attaches loop devices"
)


class Storage:
    """A node with a provider, and the directory that it keeps volumes in."""

    def __init__(self, node: OneNode, top: Path) -> None:
        self.node, self.top = node, top
        top.mkdir()
        place = Path(node.paths.under("/srv/ganeti/extstorage"))
        place.mkdir(parents=True)
        (place / "looped").symlink_to(LOOPED)

    def disk(self, size_mib: int = 4, **changes: Any) -> DiskSpec:
        fields: dict[str, Any] = {"logical_id": ["looped", "vol1"], "size_mib": size_mib, "params": {}} | changes
        return disk_spec("ext", **fields | {"params": {"dir": str(self.top), **fields["params"]}})

    def fault(self, script: str, text: str) -> None:
        (self.top / f".fault.{script}").write_text(text + "\n")

    @property
    def calls(self) -> list[str]:
        return [line.split()[0] for line in (self.top / ".calls").read_text().splitlines()]

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.node.call(name, **arguments)


@pytest.fixture
def storage(node: OneNode, tmp_path: Path) -> Any:
    found = Storage(node, tmp_path / "volumes")
    yield found
    for fault in found.top.glob(".fault.*"):
        fault.unlink()
    found.call("blockdev_shutdown", disk=found.disk())
    with contextlib.suppress(BlockDeviceError):  # most tests leave a volume, some none
        found.call("blockdev_remove", disk=found.disk())


def test_scripts_are_told_what_3_1_tells_them(storage: Storage) -> None:
    disk = storage.disk(name="data")
    storage.call("blockdev_create", disk=disk)
    storage.call("blockdev_assemble", disk=disk, owner="web1")
    storage.call("blockdev_grow", disk=disk, amount_mib=4)
    storage.call("blockdev_assemble", disk=disk, owner="web1", for_migration=True)
    storage.call("blockdev_shutdown", disk=disk)
    told = [line for line in (storage.top / ".calls").read_text().splitlines() if not line.startswith(("att", "det"))]
    assert told == [
        "verify vol1 size= new= meta= cname=data exclusive= snapshot=/",
        "create vol1 size=4 new= meta= cname=data exclusive= snapshot=/",
        "open vol1 size= new= meta= cname=data exclusive=True snapshot=/",
        "setinfo vol1 size= new= meta=originstname+web1 cname=data exclusive= snapshot=/",
        "grow vol1 size=4 new=8 meta= cname=data exclusive= snapshot=/",
        "open vol1 size= new= meta= cname=data exclusive=False snapshot=/",
        "close vol1 size= new= meta= cname=data exclusive= snapshot=/",
    ]
    assert (Path(storage.node.paths.log_dir) / "extstorage/looped-create-vol1.log").exists()


def test_scripts_are_told_the_provider_and_the_access_and_find_local_tools() -> None:
    for params, access in (({"access": "userspace", "pool": "ssd"}, "userspace"), ({"pool": "ssd"}, "kernelspace")):
        env = scripts.environment(disk_spec("ext", logical_id=["san", "vol1"], params=params), {})
        told = {key: value for key, value in env.items() if key.startswith("EXTP_")}
        assert told == {"EXTP_PROVIDER": "san", "EXTP_ACCESS": access, "EXTP_POOL": "ssd"}
        assert "/usr/local/bin" in env["PATH"].split(":")


def test_what_serves_an_attached_volume_goes_on(node: OneNode, tmp_path: Path) -> None:
    told = tmp_path / "told"
    node.program("/provider/attach", f"(sleep 0.1; echo done >{told}) >/dev/null 2>&1 & echo /dev/one")
    directory = node.paths.under("/provider")
    provider = scripts.Provider(node.state.world, "served", directory, frozenset())
    disk = disk_spec("ext", logical_id=["served", "vol1"], params={})
    assert asyncio.run(provider.attach(disk)).path == "/dev/one"
    deadline = time.monotonic() + 10
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_script_verify_is_asked_for_a_check_of_the_parameters(storage: Storage) -> None:
    storage.fault("verify", '[ "$*" = parameters ] || { echo "usage: verify CHECK..."; exit 2; }')
    storage.call("blockdev_check_new", disks=[storage.disk()])


def test_a_look_leaves_a_volume_as_it_was(storage: Storage) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    assert storage.calls[-1] == "detach"
    storage.call("blockdev_assemble", disk=storage.disk(), owner="web1")
    assert storage.call("blockdev_find", disk=storage.disk()).size_mib == 4
    assert storage.calls[-1] == "attach"


def test_a_look_does_not_take_a_volume_from_a_guest_that_opens_it_meanwhile(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    size_of = ExternalDisks._size

    async def story() -> None:
        looks, goes_on = asyncio.Event(), asyncio.Event()

        async def slowly(driver: ExternalDisks, places: scripts.Places) -> int | None:
            looks.set()
            await goes_on.wait()
            return await size_of(driver, places)

        monkeypatch.setattr(ExternalDisks, "_size", slowly)
        look = asyncio.ensure_future(storage.node.make_call("blockdev_find", disk=storage.disk()))
        await looks.wait()
        monkeypatch.setattr(ExternalDisks, "_size", size_of)
        await storage.node.make_call("blockdev_assemble", disk=storage.disk(), owner="web1")
        goes_on.set()
        await look

    before = len(storage.calls)
    asyncio.run(story())
    assert "detach" not in storage.calls[before:]


def test_what_the_provider_does_not_take_is_not_made(storage: Storage) -> None:
    storage.fault("verify", "echo speed must be a number; exit 3")
    with pytest.raises(BlockDeviceError, match="the script verify for volume vol1 ended with status 3: speed must be"):
        storage.call("blockdev_create", disk=storage.disk(params={"speed": "fast"}))
    assert "create" not in storage.calls
    with pytest.raises(BlockDeviceError, match="Provider looped has no parameter colour: there are dir, speed"):
        storage.call("blockdev_create", disk=storage.disk(params={"colour": "red"}))
    with pytest.raises(BlockDeviceError, match="Node node1 has no provider other: install it below"):
        storage.call("blockdev_create", disk=storage.disk(logical_id=["other", "vol1"]))
    for logical_id in (["../x", "vol1"], ["looped", "a/b"], ["looped"], [1, 2]):
        with pytest.raises(BlockDeviceError, match=r"it must be \[provider, name\]"):
            storage.call("blockdev_find", disk=storage.disk(logical_id=logical_id))


def test_a_provider_that_hangs_is_cut_off(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "QUICK_S", 0.5)
    storage.call("blockdev_create", disk=storage.disk())
    storage.fault("attach", "sleep 60")
    begun_s = time.monotonic()
    with pytest.raises(BlockDeviceError, match=r"did not end within 0.5 seconds and was stopped"):
        storage.call("blockdev_assemble", disk=storage.disk(), owner="web1")
    with pytest.raises(BlockDeviceError, match=r"did not end within 0.5 seconds"):
        storage.call("blockdev_find", disk=storage.disk())
    assert time.monotonic() - begun_s < 10


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo /etc/hosts; exit 0", "/etc/hosts is no block device"),
        ("echo /dev/nothing-here; exit 0", "names /dev/nothing-here, which is not there"),
        ("echo relative/path; exit 0", "which is no absolute path"),
        ("exit 0", "names neither a device nor a URI"),
        ("truncate -s 2M $volume", "should have 4 MiB and provider looped attaches one of 2 MiB"),
    ],
)
def test_an_attachment_that_cannot_be_is_refused(storage: Storage, text: str, sentence: str) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    storage.fault("attach", text)
    with pytest.raises(BlockDeviceError, match=sentence):
        storage.call("blockdev_assemble", disk=storage.disk(), owner="web1")


def test_a_provider_names_the_place_of_a_volume_without_looking_whether_it_is_there(storage: Storage) -> None:
    storage.fault("attach", '[ -e "$volume" ] || { echo /dev/nothing-here; exit 0; }')
    assert storage.call("blockdev_find", disk=storage.disk()) is None
    storage.call("blockdev_create", disk=storage.disk())
    assert storage.call("blockdev_find", disk=storage.disk()).size_mib == 4


def test_a_provider_names_the_uri_of_a_volume_without_looking_whether_it_is_there(storage: Storage) -> None:
    """As scripts for Ceph do, which make up the name of the image."""
    disk = storage.disk(params={"access": "userspace"})
    storage.fault("attach", 'echo; echo "kvm:file://$volume"; exit 0')
    assert storage.call("blockdev_find", disk=disk) is None
    storage.fault("create", "echo no space; exit 1")
    with pytest.raises(BlockDeviceError, match="no space"):
        storage.call("blockdev_create", disk=disk)
    storage.call("blockdev_find", disk=disk)
    storage.call("blockdev_remove", disk=disk)
    storage.fault("create", "exit 0")
    with pytest.raises(BlockDeviceError, match=r"it is not there, or cannot be reached: .*No such file"):
        storage.call("blockdev_create", disk=disk)
    (storage.top / ".fault.create").unlink()
    storage.call("blockdev_create", disk=disk)
    assert storage.call("blockdev_find", disk=disk).size_mib == 4
    assert storage.call("blockdev_assemble", disk=disk, owner="web1").uri == f"file://{storage.top}/vol1"
    (storage.top / "vol1").unlink()
    with pytest.raises(BlockDeviceError, match="No such file"):
        storage.call("blockdev_assemble", disk=disk, owner="web1")
    (storage.top / "vol1").touch()  # for the removal at the end


def test_a_volume_that_cannot_be_detached_is_not_taken_for_missing(storage: Storage) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    storage.fault("detach", "echo busy; exit 1")
    with pytest.raises(BlockDeviceError, match="detach for volume vol1 ended with status 1: busy"):
        storage.call("blockdev_find", disk=storage.disk())
    (storage.top / ".fault.detach").unlink()
    storage.call("blockdev_assemble", disk=storage.disk(), owner="web1")


def test_a_provider_that_says_yes_and_does_nothing_is_found_out(storage: Storage) -> None:
    storage.fault("create", "exit 0")
    with pytest.raises(BlockDeviceError, match="says that it made volume vol1 of 4 MiB, but it is not there"):
        storage.call("blockdev_create", disk=storage.disk())
    storage.fault("create", 'truncate -s 3M "$volume"; exit 0')
    with pytest.raises(BlockDeviceError, match="but it has 3 MiB"):
        storage.call("blockdev_create", disk=storage.disk())
    assert not (storage.top / "vol1").exists()
    (storage.top / ".fault.create").unlink()
    storage.call("blockdev_create", disk=storage.disk())
    storage.fault("grow", "exit 0")
    with pytest.raises(BlockDeviceError, match="has grown to 8 MiB, but it has 4 MiB"):
        storage.call("blockdev_grow", disk=storage.disk(), amount_mib=4)
    storage.fault("remove", "echo busy; exit 1")
    with pytest.raises(BlockDeviceError, match="ended with status 1: busy"):
        storage.call("blockdev_remove", disk=storage.disk())


def test_a_removal_that_a_broken_provider_refuses_is_not_taken_for_done(storage: Storage) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    for script in ("attach", "remove"):
        storage.fault(script, "echo no answer from the array >&2; exit 1")
    for _ in ("once", "again"):
        with pytest.raises(BlockDeviceError, match=r"vol1 may be there still: .*remove .*no answer from the array"):
            storage.call("blockdev_remove", disk=storage.disk())
    for script in ("attach", "remove"):
        (storage.top / f".fault.{script}").unlink()
    storage.call("blockdev_remove", disk=storage.disk())
    storage.call("blockdev_remove", disk=storage.disk())


def test_what_a_provider_did_not_make_needs_no_removal(storage: Storage) -> None:
    storage.fault("create", "echo no space; exit 1")
    with pytest.raises(BlockDeviceError, match="no space"):
        storage.call("blockdev_create", disk=storage.disk())
    storage.call("blockdev_remove", disk=storage.disk())
    (storage.top / ".fault.create").unlink()
    storage.call("blockdev_create", disk=storage.disk())
    storage.fault("remove", "echo busy; exit 1")
    with pytest.raises(BlockDeviceError, match=r"vol1 may be there still: .*busy"):
        storage.call("blockdev_remove", disk=storage.disk())


def test_a_volume_that_another_node_made_since_is_not_taken_for_gone(storage: Storage) -> None:
    """This node knows that it was not there; then it was there, whoever made it."""
    storage.fault("create", "echo no space; exit 1")
    with pytest.raises(BlockDeviceError, match="no space"):
        storage.call("blockdev_create", disk=storage.disk())
    note = Path(storage.node.paths.run_dir) / "extstorage/vol1.absent"
    assert note.exists()
    (storage.top / ".fault.create").unlink()
    storage.call("blockdev_create", disk=storage.disk())
    note.touch()  # as if the other node had made it
    storage.call("blockdev_find", disk=storage.disk())
    storage.fault("remove", "echo busy; exit 1")
    with pytest.raises(BlockDeviceError, match="may be there still"):
        storage.call("blockdev_remove", disk=storage.disk())


def test_a_hypervisor_is_given_a_uri_where_that_is_asked_for(storage: Storage) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    kernel = storage.call("blockdev_assemble", disk=storage.disk(), owner="web1")
    assert kernel.blockdev is None
    assert kernel.path.startswith("/dev/loop")
    direct = storage.call("blockdev_assemble", disk=storage.disk(params={"access": "userspace"}), owner="web1")
    assert direct.blockdev == {"driver": "file", "filename": f"{storage.top}/vol1"}
    assert direct.uri == f"file://{storage.top}/vol1"
    storage.fault("attach", 'echo; echo "kvm:file://$volume"; exit 0')
    assert storage.call("blockdev_find", disk=storage.disk()).size_mib == 4
    with pytest.raises(BlockDeviceError, match="use access=userspace, which provider looped offers for kvm"):
        storage.call("blockdev_assemble", disk=storage.disk(), owner="web1")


def test_a_new_volume_needs_a_provider_with_a_name() -> None:
    naming = ExternalDisks.traits.naming
    assert naming is not None
    assert naming(NewDisk("ext", "u", 1, "web1", asked={"provider": "san"})) == ["san", "u.ext.disk1"]
    for asked in ({}, {"provider": ""}, {"provider": "../x"}, {"provider": 7}):
        with pytest.raises(PrerequisiteError, match="Disk 1: provider"):
            naming(NewDisk("ext", "u", 1, "web1", asked=asked))


def kept(storage: Storage, *names: str) -> DiskSpec:
    """The disk, as the configuration names its snapshots."""
    return replace(storage.disk(), snapshots=dict.fromkeys(names, 1.0))


def test_the_script_snapshot_is_told_what_3_1_tells_it_and_going_back_copies_what_it_made(storage: Storage) -> None:
    instance = instance_spec(disks=[kept(storage, "one")])
    storage.call("blockdev_create", disk=storage.disk())
    volume = storage.top / "vol1"
    volume.write_bytes(b"a" * 4 * MIB)
    storage.call("instance_snapshot_take", instance=instance, name="one")
    told = [line for line in (storage.top / ".calls").read_text().splitlines() if line.startswith("snapshot")]
    assert told == ["snapshot vol1 size= new= meta= cname= exclusive= snapshot=vol1.snap-one/4"]
    volume.write_bytes(b"b" * 4 * MIB)
    storage.call("instance_snapshot_revert", instance=instance, name="one")
    assert volume.read_bytes() == b"a" * 4 * MIB
    storage.call("instance_snapshot_remove", instance=instance, name="one")
    assert not (storage.top / "vol1.snap-one").exists()


def test_a_disk_that_has_grown_is_zero_behind_its_snapshot(storage: Storage) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    (storage.top / "vol1").write_bytes(b"a" * 4 * MIB)
    storage.call("instance_snapshot_take", instance=instance_spec(disks=[kept(storage, "one")]), name="one")
    storage.call("blockdev_grow", disk=storage.disk(), amount_mib=1)
    (storage.top / "vol1").write_bytes(b"b" * 5 * MIB)
    grown = replace(kept(storage, "one"), size_mib=5)
    storage.call("instance_snapshot_revert", instance=instance_spec(disks=[grown]), name="one")
    assert (storage.top / "vol1").read_bytes() == b"a" * 4 * MIB + bytes(MIB)
    storage.call("blockdev_remove", disk=grown)
    assert not list(storage.top.glob("vol1*"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo no room; exit 4", "script snapshot for volume vol1 ended with status 4: no room"),
        ("exit 0", "says that it made snapshot one of volume vol1, but volume vol1.snap-one cannot be attached"),
        (
            'truncate -s 2M "$EXTP_DIR/$VOL_SNAPSHOT_NAME"; exit 0',
            "made snapshot one of volume vol1, but volume vol1.snap-one has 2 MiB of 4 MiB",
        ),
    ],
)
def test_a_snapshot_that_a_provider_does_not_make_leaves_nothing(storage: Storage, text: str, sentence: str) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    instance = instance_spec(disks=[kept(storage, "one")])
    storage.fault("snapshot", text)
    with pytest.raises(BlockDeviceError, match=sentence):
        storage.call("instance_snapshot_take", instance=instance, name="one")
    storage.call("instance_snapshot_remove", instance=instance, name="one")
    assert [path.name for path in storage.top.glob("vol1*")] == ["vol1"]


def test_a_disk_in_use_does_not_go_back(storage: Storage) -> None:
    storage.call("blockdev_create", disk=storage.disk())
    instance = instance_spec(disks=[kept(storage, "one")])
    storage.call("instance_snapshot_take", instance=instance, name="one")
    storage.call("blockdev_assemble", disk=storage.disk(), owner="web1")
    with pytest.raises(BlockDeviceError, match="is in use: close it first"):
        storage.call("instance_snapshot_revert", instance=instance, name="one")
    storage.call("blockdev_shutdown", disk=storage.disk())
    storage.call("instance_snapshot_remove", instance=instance, name="one")


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="volumes are shown as files by FUSE")
def test_a_volume_without_a_block_device_is_a_file_for_programs_that_know_no_uri(storage: Storage) -> None:
    """An OS definition, a conversion and wiping write to it; the disk goes back to its snapshot."""
    storage.fault("attach", '[ -e "$volume" ] || exit 1; echo; echo "kvm:file://$volume"; exit 0')
    disk = replace(kept(storage, "one"), params=storage.disk(params={"access": "userspace"}).params)
    storage.call("blockdev_create", disk=replace(disk, snapshots={}))
    source = disk_spec("sharedfile", size_mib=4)
    storage.call("blockdev_create", disk=source)
    Path(storage.node.paths.under(source.logical_id[1])).write_bytes(b"first".ljust(4 * MIB, b"."))
    storage.call("blockdev_convert", source=source, target=disk, owner="web1")
    storage.call("blockdev_shutdown", disk=disk)
    volume, instance = storage.top / "vol1", instance_spec(disks=[disk])
    assert volume.read_bytes().startswith(b"first.")
    storage.call("instance_snapshot_take", instance=instance, name="one")
    storage.call("blockdev_wipe", disk=disk, offset_mib=0, size_mib=4)
    assert not any(volume.read_bytes())
    storage.call("instance_snapshot_revert", instance=instance, name="one")
    assert volume.read_bytes().startswith(b"first.")
    assert not os.listdir(f"{storage.node.paths.run_dir}/shown")
    storage.call("instance_snapshot_remove", instance=instance, name="one")
