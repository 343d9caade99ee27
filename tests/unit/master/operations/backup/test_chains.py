# SPDX-License-Identifier: BSD-2-Clause
"""Incremental backups: which disks are read in part, what an interrupted restore leaves, and what a proof boots."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.node_answers import guest, node_facts
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.master.instance_spec import instance_spec
from ganeti.master.operations.backup.create import CreateBackup
from ganeti.master.operations.backup.description import description_of, sealed
from ganeti.master.operations.backup.list_files import ListFiles
from ganeti.master.operations.backup.prove import ProveBackup
from ganeti.master.operations.backup.restore import RestoreBackup
from ganeti.master.operations.instance.disks.snapshot import SnapshotInstance
from ganeti.master.operations.instance.power.startup import StartInstance
from ganeti.model.node_calls.backup_files import FileSystem
from ganeti.model.node_calls.backups import Chunk, ChunkPiece, Kept, KeptFiles, OpenedView, StoredDisk
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.objects import BACKUPS_KEY, Backups
from ganeti.model.parameters import Parameter
from ganeti.wire.backup_file import Backup, BackupDisk, encode
from ganeti.wire.sealing import DIGEST_BYTES, NONCE_BYTES

KEYS = {"k1": "11" * 32}
MIB = 1024 * 1024
STORED = StoredDisk(chunks=0, chunk_bytes=0, index_bytes=0, index_sha256="same")
MARK = "backup/20260101T000000Z-0001"


class Bed:
    """A cluster whose node3 keeps one backup of web1 and of its disks."""

    def __init__(self) -> None:
        self.ctx = FakeContext(configuration(), catalogue())
        self.config = self.ctx.config.config
        self.config.put("backups", BACKUPS_KEY, Backups(keys=KEYS))
        self.fills: list[dict[str, Any]] = []
        self.damaged = False
        self.handlers = self.ctx.nodes.handlers
        self.handlers["node_info"] = lambda name, **_: node_facts(storage_free_mib=100000)
        self.handlers["all_instances_info"] = lambda name, **_: []
        self.handlers["backup_chunks"] = lambda name, end, **_: plain(
            ChunkPiece(chunks=[Chunk(number=0, digest=b"d" * DIGEST_BYTES, data=b"sealed")], next=end)
        )
        self.handlers["backup_fill"] = self._fill

    def instance(self, disks: int, **values: Any) -> None:
        made = add_instance(self.config, "web1", template="local", admin_state="down")
        [disk] = self.config.instance_disks(made)
        uuids = [f"uuid-{letter}" for letter in "ab"[:disks]]
        for uuid in uuids:
            self.config.put("disks", uuid, replace(disk, uuid=uuid))
        self.config.put("instances", made.uuid, replace(made, disks=uuids, **values))

    def hypervisor(self, **traits: Any) -> None:
        known = self.ctx.catalogue.hypervisors
        known["pretend"] = dataclasses.replace(known["pretend"], **traits)

    def backed_up(self, *uuids: str, **hvparams: Any) -> None:
        view = self.ctx.config.view()
        spec = instance_spec(view, self.ctx.catalogue, view.find_instance("web1"))
        spec = replace(spec, hvparams=spec.hvparams | hvparams)
        disks = [
            BackupDisk(uuid=uuid, size=64 * MIB, chunks=0, chunk_bytes=0, index_bytes=0, index_sha256="same")
            for uuid in uuids
        ]
        parameters = self.ctx.catalogue.hypervisor(spec.hypervisor).parameters
        text = description_of(spec, "local", parameters, 1.0)
        backup = Backup(
            id="20260101T000000Z-0001",
            instance_uuid=spec.uuid,
            instance_name=spec.name,
            created=1.0,
            key_id="k1",
            frozen=False,
            disks=disks,
            instance=sealed(text, bytes.fromhex(KEYS["k1"]), spec.uuid, bytes(NONCE_BYTES)),
        )
        self.handlers["backup_stored"] = lambda name, **_: plain([STORED] * len(disks))
        kept = KeptFiles(instance_uuid=spec.uuid, id=backup.id, manifest=encode(backup, KEYS))
        self.handlers["backup_list"] = lambda name, **_: plain(Kept(backups=[kept] if name == "node3" else []))

    def _fill(self, name: str, **asked: Any) -> str:
        asked["mark"] = self.config.find_instance("web1").reverting
        self.fills.append(asked)
        if self.damaged:
            raise BlockDeviceError("The backup is damaged")
        return "boot"


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


@pytest.fixture
def bed() -> Bed:
    return Bed()


def restore(bed: Bed) -> None:
    run(RestoreBackup(instance_name="web1", in_place=True), bed.ctx)


def test_only_a_disk_that_was_in_the_backup_at_its_place_is_read_in_part(bed: Bed) -> None:
    """Disk 0 was removed, so that disk 1, whose changes were counted, stands in its place."""
    bed.instance(2)
    bed.backed_up("uuid-gone", "uuid-b")
    bed.handlers.update(
        instance_info=lambda name, **_: guest("web1"),
        backup_begin=lambda name, **_: "boot",
        backup_open=lambda name, **_: plain(OpenedView(frozen=False, dirty=[[(3, 1)], [(3, 1)]])),
        disk_bytes=lambda name, **_: 64 * MIB,
        backup_digests=lambda name, count, **_: plain(bytes(count * DIGEST_BYTES)),
        backup_scan=lambda name, first, known, **_: plain(
            ChunkPiece(chunks=[], next=first + len(known) // DIGEST_BYTES)
        ),
        backup_finish=lambda name, **_: plain([STORED, STORED]),
    )
    bed.hypervisor(can_copy_disks=True)
    published: list[str] = []
    bed.handlers["backup_publish"] = lambda name, manifest, **_: published.append(manifest)
    run(CreateBackup(instance_name="web1"), bed.ctx)
    said = [line for line in bed.ctx.lines if line.startswith("Reading disk")]
    assert said == [
        "Reading disk 0 of web1: all of it, 64.0 MiB",
        "Reading disk 1 of web1: what its guest has changed, 64 KiB",
    ]
    assert '"uuid":"uuid-a"' in published[0] and '"uuid":"uuid-b"' in published[0]


def test_a_backup_is_checked_as_a_whole_before_the_disks_are_written(bed: Bed) -> None:
    bed.instance(2)
    bed.backed_up("uuid-a", "uuid-b")
    bed.damaged = True
    with pytest.raises(BlockDeviceError, match="damaged"):
        restore(bed)
    assert [fill.get("writes", True) for fill in bed.fills] == [False]
    assert bed.config.find_instance("web1").reverting is None, "its disks are as they were"
    bed.damaged = False
    bed.fills.clear()
    restore(bed)
    order = [(fill["disk"].index, fill.get("writes", True), fill["mark"]) for fill in bed.fills]
    assert order == [(0, False, None), (1, False, None), (0, True, MARK), (1, True, MARK)]
    assert bed.config.find_instance("web1").reverting is None


@pytest.mark.parametrize("zeros", [False, True])
def test_zeros_are_written_where_a_new_disk_may_hold_what_was_there_before(bed: Bed, zeros: bool) -> None:
    known = bed.ctx.catalogue.templates
    known["local"] = dataclasses.replace(known["local"], new_disks_are_zeros=zeros)
    bed.instance(1)
    bed.backed_up("uuid-a")
    run(RestoreBackup(instance_name="web1", new_name="web2", pnode="node2", disk_template="local"), bed.ctx)
    assert {fill["zeroes"] for fill in bed.fills} == {not zeros}


def test_an_interrupted_restore_in_place_is_not_started_and_can_be_repeated(bed: Bed) -> None:
    bed.instance(1)
    bed.backed_up("uuid-a")

    def dies(name: str, *, writes: bool = True, **_: Any) -> str:
        if writes:
            raise BlockDeviceError("the node lost power")
        return "boot"

    bed.handlers["backup_fill"] = dies
    with pytest.raises(BlockDeviceError, match="lost power"):
        restore(bed)
    remedy = "gnt-backup restore --in-place --backup 20260101T000000Z-0001 web1"
    with pytest.raises(PrerequisiteError, match=remedy):
        run(StartInstance(instance_name="web1"), bed.ctx)
    bed.handlers["backup_fill"] = bed._fill
    restore(bed)
    assert bed.config.find_instance("web1").reverting is None


def test_a_snapshot_completes_what_a_restore_has_left(bed: Bed) -> None:
    bed.instance(1, reverting=MARK)
    bed.handlers["instance_snapshots"] = lambda node, instance: [[{"name": "before", "created_s": 1.0}]]
    bed.handlers["instance_info"] = lambda node, instance: None
    run(SnapshotInstance(action="revert", instance_name="web1", snapshot_name="before"), bed.ctx)
    assert bed.config.find_instance("web1").reverting is None


@pytest.mark.parametrize(("then", "refused"), [("ba", True), ("ac", True), ("ab", False), ("cd", False)])
def test_other_disks_than_were_backed_up_are_not_overwritten(bed: Bed, then: str, refused: bool) -> None:
    bed.instance(2)
    bed.backed_up(*(f"uuid-{letter}" for letter in then))
    if refused:
        with pytest.raises(PrerequisiteError, match=r"is not the disk that backup .* restore the backup as a new"):
            restore(bed)
        assert bed.fills == []
    else:
        restore(bed)


def test_a_trial_guest_has_nothing_outside_its_disks(bed: Bed) -> None:
    names = ("kvm_extra", "usb_devices", "cdrom_image_path", "boot_order")
    parameters = tuple(Parameter(name, "string", "") for name in names)
    bed.hypervisor(parameters=parameters)
    bed.instance(1)
    bed.backed_up("uuid-a", kvm_extra="-netdev user,id=n", usb_devices="host:1234:5678", boot_order="cdrom")
    started: list[InstanceSpec] = []
    bed.handlers["instance_start"] = lambda name, instance, **_: started.append(instance)
    bed.handlers["sign_of_life"] = lambda node, /, **_: "it is up"
    run(ProveBackup(instance_name="web1", pnode="node2"), bed.ctx)
    assert started[0].nics == [] and started[0].name == "proof.web1"
    assert [started[0].hvparams[name] for name in names] == ["", "", "", "disk"]


@pytest.mark.parametrize(("node", "room", "in_place"), [("node3", 64, True), ("node3", 63, False), (None, 64, True)])
def test_a_backup_boots_where_it_is_kept_if_all_that_its_guest_may_write_has_room(
    bed: Bed, node: str | None, room: int, in_place: bool
) -> None:
    bed.hypervisor(boots_backups=True)
    bed.instance(1)
    bed.backed_up("uuid-a")
    bed.handlers["backup_room"] = lambda name, **_: room * MIB
    bed.handlers["backup_check"] = lambda name, end, **_: end
    bed.handlers["sign_of_life"] = lambda node, /, **_: "it is up"
    run(ProveBackup(instance_name="web1", pnode=node), bed.ctx)
    assert ("node3 backup_boot" in bed.ctx.story, "node3 instance_start" in bed.ctx.story) == (in_place, not in_place)
    said = [line for line in bed.ctx.lines if line.startswith("Restoring the backup to boot it")]
    assert len(said) == (not in_place) and all("has room for 63 MiB" in line for line in said)


def test_a_place_that_a_backup_does_not_have_is_refused_with_those_it_has(bed: Bed) -> None:
    bed.instance(1)
    bed.backed_up("uuid-a")
    held = [
        FileSystem(disk=0, partition=1, offset=0, kind="ext4", readable=True),
        FileSystem(disk=0, partition=2, offset=4096, kind="xfs", readable=True, volume="rl/root"),
    ]
    bed.handlers.update(
        backup_serve=lambda node, /, **_: None,
        backup_unserve=lambda node, /, **_: None,
        backup_file_systems=lambda node, /, **_: plain(held),
    )
    found = run(ListFiles(instance_name="web1", volume="rl/root"), bed.ctx)
    assert [each["volume"] for each in found["file_systems"]] == ["rl/root"]
    sentence = "has nothing at that place: it has disk 0 partition 1, disk 0 partition 2 volume rl/root$"
    for asked in ({"volume": "rl/home"}, {"partition": 3}, {"partition": 3, "path": "/etc"}):
        with pytest.raises(PrerequisiteError, match=sentence):
            run(ListFiles(instance_name="web1", **asked), bed.ctx)


def test_what_cannot_be_read_is_named_with_the_remedy(bed: Bed) -> None:
    bed.instance(1)
    bed.backed_up("uuid-a")
    thin = FileSystem(disk=0, partition=2, offset=4096, volume="rl/thin")
    held = [FileSystem(disk=0, partition=1, offset=0, kind="ext4", readable=True), thin]
    held += [FileSystem(disk=1, partition=part, offset=part, kind=kind) for part, kind in ((1, "btrfs"), (2, "ntfs"))]
    bed.handlers.update(
        backup_serve=lambda node, /, **_: None,
        backup_unserve=lambda node, /, **_: None,
        backup_file_systems=lambda node, /, **_: plain(held),
        backup_files=lambda node, /, **_: None,
    )
    with pytest.raises(PrerequisiteError) as refused:
        run(ListFiles(instance_name="web1", path="/etc"), bed.ctx)
    assert str(refused.value).endswith(
        "has no /etc: disk 0 partition 1 can be read and does not have it; disk 0 partition 2 volume rl/thin (thin, "
        "striped, mirrored, or on another disk too) and disk 1 partition 1 (btrfs) and disk 1 partition 2 (ntfs) "
        "cannot be read here, only ext2, ext3, ext4, FAT and XFS can: restore the backup under a new name and look "
        "from inside (gnt-backup restore --no-nics)"
    )
    del held[0]
    sentence = (
        r"^/etc cannot be read out of backup \S+: disk 0 partition 2 .* cannot be read here, only ext2, .* --no-nics"
    )
    with pytest.raises(PrerequisiteError, match=sentence):
        run(ListFiles(instance_name="web1", path="/etc"), bed.ctx)
