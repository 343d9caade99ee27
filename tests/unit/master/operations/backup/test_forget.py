# SPDX-License-Identifier: BSD-2-Clause
"""Removing backups: damage never becomes a whole backup, and nothing goes that another one may need."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import BlockDeviceError, PrerequisiteError
from ganeti.master.operations.backup.chains import GONE, find_backups
from ganeti.master.operations.backup.create import CreateBackup
from ganeti.master.operations.backup.forget import ForgetBackups
from ganeti.master.operations.backup.history import ListBackups
from ganeti.master.operations.backup.prove import ProveBackup
from ganeti.master.operations.backup.restore import RestoreBackup
from ganeti.model.node_calls.backups import Chunk
from ganeti.model.objects import BACKUPS_KEY, Backups
from ganeti.node.backups import directory
from ganeti.node.backups.directory import BackupDirectory
from ganeti.wire.backup_file import Backup, BackupDisk, encode
from ganeti.wire.sealing import DIGEST_BYTES

GONE_UUID = "6d1c1a2e-2a6e-4a3f-9b60-3a3a4e2b7c11"
WEB_UUID = "7d1c1a2e-2a6e-4a3f-9b60-3a3a4e2b7c12"
KEYS = {"k1": "ab" * 32}
KEEPER = "node3"


class Kept:
    """A real directory of backups behind the calls of node3."""

    def __init__(self, top: Path) -> None:
        self.top, self.store = top, BackupDirectory(str(top))
        self.ctx = FakeContext(configuration(), catalogue())
        self.ctx.config.config.put("backups", BACKUPS_KEY, Backups(keys=KEYS))
        self.ctx.nodes.handlers |= {
            f"backup_{name}": getattr(self, f"_{name}") for name in ("list", "merge", "publish", "remove", "stored")
        }

    def make(
        self,
        backup: str,
        parent: str,
        chunks: dict[int, bytes],
        uuid: str = GONE_UUID,
        name: str = "web",
        created: float | None = None,
    ) -> str:
        self.store.begin(uuid, backup, 1)
        made = [Chunk(number=number, data=data, digest=b"d" * DIGEST_BYTES) for number, data in sorted(chunks.items())]
        self.store.append(uuid, backup, 0, made, 0)
        (stored,) = self.store.finish(uuid, backup)
        manifest = Backup(
            id=backup,
            parent=parent,
            instance_uuid=uuid,
            instance_name=name,
            created=float(len(list(self.top.glob("*/*")))) if created is None else created,
            key_id="k1",
            frozen=False,
            disks=[BackupDisk(size=9 * 65536, **msgspec.structs.asdict(stored))],
            instance="",
        )
        self.store.publish(uuid, backup, 0, encode(manifest, KEYS))
        return backup

    def chain(self) -> None:
        for number in range(4):
            self.make(f"b{number}", f"b{number - 1}" if number else "", {number: b"%d" % number, 5: b"x%d" % number})

    def file(self, name: str, uuid: str = GONE_UUID) -> Path:
        return self.top / uuid / name

    def ids(self) -> list[str]:
        return [each.id for each in self.store.listed().backups]

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.top.glob("*/*/*")}

    def forget(self, **asked: Any) -> list[str]:
        gone: list[str] = run(ForgetBackups(**({"instance_name": "web"} | asked)), self.ctx)
        return gone

    def content(self, *backups: tuple[str, int]) -> dict[int, bytes]:
        found = asyncio.run(find_backups(self.ctx, self.ctx.config.view()))  # type: ignore[arg-type]
        links = {each.backup.id: each.link for each in found.backups}
        assert [(name, links[name].generation) for name, _ in backups] == list(backups)
        piece = self.store.chunks(GONE_UUID, [links[name] for name, _ in backups], 0, 0, 9)
        return {each.number: each.data for each in piece.chunks}

    def _list(self, node: str) -> Any:
        return msgspec.to_builtins(self.store.listed()) if node == KEEPER else {}

    def _merge(self, _: str, **asked: Any) -> Any:
        return msgspec.to_builtins(self._told(self.store.merge, **asked))

    def _publish(self, _: str, *, instance_uuid: str, id: str, generation: int, manifest: str, boot: str) -> None:
        self.store.publish(instance_uuid, id, generation, manifest)

    def _remove(self, _: str, *, instance_uuid: str, id: str) -> bool:
        return self.store.remove(instance_uuid, id)

    def _stored(self, _: str, **asked: Any) -> Any:
        return msgspec.to_builtins(self._told(self.store.stored, **asked))

    @staticmethod
    def _told(function: Any, **asked: Any) -> Any:
        try:
            return function(**asked)
        except OSError as err:
            raise BlockDeviceError(f"{err.filename}: {err.strerror}") from err


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_what_goes_is_merged_into_what_stays_alone(kept: Kept) -> None:
    kept.chain()
    assert kept.forget(keep=1) == ["b0", "b1", "b2"]
    assert kept.content(("b3", 3)) == {0: b"0", 1: b"1", 2: b"2", 3: b"3", 5: b"x3"}
    assert kept.ids() == ["b3"]
    assert len(kept.files()) == 3
    kept.ctx.story.clear()
    assert kept.forget(keep=0) == ["b3"] and not any("merge" in line for line in kept.ctx.story)


def test_one_in_the_middle_goes(kept: Kept) -> None:
    kept.chain()
    assert kept.forget(backup="b1") == ["b1"]
    assert kept.content(("b3", 0), ("b2", 1), ("b0", 0)) == {0: b"0", 1: b"1", 2: b"2", 3: b"3", 5: b"x3"}


def test_the_newest_backup_is_the_last_of_its_chain_whatever_the_clock_said(kept: Kept) -> None:
    kept.make("b0", "", {0: b"0"}, created=10.0)
    kept.make("b1", "b0", {1: b"1"}, created=2e9)
    kept.make("b2", "b1", {2: b"2"}, created=30.0)
    kept.make("b3", "b2", {3: b"3"}, created=20.0)
    assert kept.forget(keep=2) == ["b0", "b1"]
    assert kept.content(("b3", 0), ("b2", 2)) == {0: b"0", 1: b"1", 2: b"2", 3: b"3"}


def test_nodes_that_mount_the_same_directory_lose_nothing(kept: Kept) -> None:
    kept.chain()
    kept.ctx.nodes.handlers["backup_list"] = lambda _: msgspec.to_builtins(kept.store.listed())
    assert kept.forget(keep=2) == ["b0", "b1"]
    assert kept.content(("b3", 0), ("b2", 2)) == {0: b"0", 1: b"1", 2: b"2", 3: b"3", 5: b"x3"}


@pytest.mark.parametrize("damaged", ["b0", "b1", "b2", "b3"])
@pytest.mark.parametrize("file", ["disk0.0.index", "disk0.0.chunks"])
@pytest.mark.parametrize("cut", [False, True])
def test_damage_is_never_made_a_whole_backup(kept: Kept, damaged: str, file: str, cut: bool) -> None:
    kept.chain()
    path = kept.file(f"{damaged}/{file}")
    if cut:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    before = kept.files()
    with pytest.raises(PrerequisiteError, match=f"Backup {damaged} on node3 is damaged.*No backup is removed"):
        kept.forget(keep=1)
    assert kept.files() == before
    assert kept.forget(keep=0) == ["b0", "b1", "b2", "b3"], "all of them need nothing of each other"


def test_damage_elsewhere_is_no_hindrance(kept: Kept) -> None:
    kept.chain()
    kept.file("b3/disk0.0.index").unlink()
    assert kept.forget(keep=2) == ["b0", "b1"]
    assert kept.content(("b2", 2)) == {0: b"0", 1: b"1", 2: b"2", 5: b"x2"}


@pytest.mark.parametrize("how", ["damaged", "missing", "failing", "gone"])
def test_the_base_of_a_backup_that_cannot_be_read_stays(kept: Kept, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    kept.chain()
    manifest = kept.file("b1/manifest.json")
    if how == "damaged":
        manifest.write_text("{")
    elif how == "missing":
        manifest.unlink()
    else:
        where = manifest if how == "failing" else manifest.parent
        stat = directory.os.stat

        def failing(path: str, *more: Any, **also: Any) -> Any:
            if str(path) == str(where):
                raise OSError(116, "Stale file handle", str(path))
            return stat(path, *more, **also)

        monkeypatch.setattr(directory.os, "stat", failing)
    why = {"damaged": "its manifest is damaged", "missing": "it has no manifest"}.get(how, "Stale file handle")
    for asked in ({"backup": "b0"}, {"keep": 1}):
        with pytest.raises(PrerequisiteError, match=f"Backup b1 on node3 cannot be used .*{why}.*remove it first"):
            kept.forget(**asked)
    assert kept.ids() == ["b0", "b1", "b2", "b3"]
    with pytest.raises(PrerequisiteError, match="b2 on node3 may build on backup b1"):
        kept.forget(backup="b1")
    assert kept.ids() == ["b0", "b1", "b2", "b3"]


def test_a_backup_that_cannot_be_read_goes_when_it_is_named(kept: Kept) -> None:
    kept.chain()
    for name in ("b2", "b3"):
        kept.file(f"{name}/manifest.json").write_text("{")
    with pytest.raises(PrerequisiteError, match="b3 on node3 may build on backup b2"):
        kept.forget(backup="b2")
    assert kept.forget(backup="b3") == ["b3"] and kept.forget(instance_name="b2", backup="b2") == ["b2"]
    assert kept.forget(keep=1) == ["b0"]
    assert kept.content(("b1", 1)) == {0: b"0", 1: b"1", 5: b"x1"}


def test_all_names_of_a_gone_instance_take_one_lock(kept: Kept) -> None:
    config = kept.ctx.config.config
    kept.chain()
    kept.make("b9", "", {}, name="former")
    add_instance(config, "new")
    plans = [ForgetBackups(instance_name=name, keep=1).locks(config) for name in ("web", "b1", "former", "new")]
    assert [sorted(each.exclusive) for each in plans] == [[GONE], [GONE], [GONE], ["instance/new"]]
    for read in (RestoreBackup, ProveBackup):
        assert GONE in read(instance_name="b1", pnode="node1").locks(config).shared
    assert kept.forget(instance_name="b2", backup="b0") == ["b0"]


def test_an_instance_that_is_there_is_named_by_its_name_of_today(kept: Kept) -> None:
    config = kept.ctx.config.config
    made = msgspec.structs.replace(add_instance(config, "new"), uuid=WEB_UUID, name="today")
    config.put("instances", WEB_UUID, made)
    kept.make("b0", "", {1: b"1"}, WEB_UUID, "yesterday")
    for name in ("yesterday", "b0"):
        with pytest.raises(PrerequisiteError, match=f"'{name}' means backups of today: give that name"):
            kept.forget(instance_name=name, keep=0)
    kept.make("c0", "", {1: b"1"}, GONE_UUID, "yesterday")
    assert kept.forget(instance_name="yesterday", keep=0) == ["c0"]
    assert kept.forget(instance_name="today", keep=0) == ["b0"]


@pytest.mark.parametrize("damaged", ["b0", "b2"])
def test_a_new_backup_builds_on_no_damage(kept: Kept, damaged: str) -> None:
    config, ctx = kept.ctx.config.config, kept.ctx
    made = msgspec.structs.replace(add_instance(config, "new", admin_state="down"), uuid=WEB_UUID, name="web")
    config.put("instances", WEB_UUID, made)
    for number in range(3):
        kept.make(f"b{number}", f"b{number - 1}" if number else "", {number: b"1"}, WEB_UUID)
    asked = CreateBackup(instance_name="web")
    chain, *_ = asyncio.run(asked.gather(ctx, config))  # type: ignore[arg-type]
    assert [each.backup.id for each in chain] == ["b2", "b1", "b0"]
    kept.file(f"{damaged}/disk0.0.index", WEB_UUID).unlink()
    chain, *_ = asyncio.run(asked.gather(ctx, config))  # type: ignore[arg-type]
    assert chain == [] and "This backup has everything, and builds on none" in ctx.lines[-1]


def test_a_node_whose_place_for_backups_is_missing_is_named_before_anything_is_begun(kept: Kept) -> None:
    """A discard that fails for the same reason would be left behind by every try."""
    config, ctx = kept.ctx.config.config, kept.ctx
    made = msgspec.structs.replace(add_instance(config, "new", admin_state="down"), uuid=WEB_UUID, name="web")
    config.put("instances", WEB_UUID, made)
    listed = ctx.nodes.handlers["backup_list"]

    def unmounted(node: str) -> Any:
        if node == KEEPER:
            raise BlockDeviceError("No file system is mounted at /mnt/backups")
        return listed(node)

    ctx.nodes.handlers["backup_list"] = unmounted
    with pytest.raises(PrerequisiteError, match=f"{KEEPER} cannot keep a backup now: No file system is mounted"):
        run(CreateBackup(instance_name="web", node=KEEPER), ctx)
    with pytest.raises(PrerequisiteError, match=r"web has no backup yet \(No file system is mounted.*say which node"):
        run(CreateBackup(instance_name="web"), ctx)
    assert not [line for line in ctx.lines if "undo" in line]


def test_the_history_of_a_name_that_nobody_has_is_refused(kept: Kept) -> None:
    kept.make("b0", "", {0: b"0"})
    assert [row["id"] for row in run(ListBackups(instance_name="web"), kept.ctx)] == ["b0"]
    with pytest.raises(PrerequisiteError, match="There is no instance nosuch, nor a backup of one"):
        run(ListBackups(instance_name="nosuch"), kept.ctx)
    with pytest.raises(PrerequisiteError, match="There is no instance nosuch, nor a backup of one: gnt-backup history"):
        run(ForgetBackups(instance_name="nosuch", keep=1), kept.ctx)
