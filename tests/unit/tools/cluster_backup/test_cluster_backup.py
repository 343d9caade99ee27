# SPDX-License-Identifier: BSD-2-Clause
"""A backup of the cluster's state: whole and verified or not there, and put back whole or not at all."""

import gzip
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.wconfd import GOLDEN

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.master.config.importing import read_foreign
from ganeti.stores.config_store import SqliteStore
from ganeti.tools.cluster_backup import archive, command, making, restoring

KEYS = {
    "ca.pem": "authority",
    "server.pem": "secret",
    "hmac.key": "secret",
    "rapi/users": "joe pw write",
    "rapi/tokens": "{}",
}


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Paths]:
    made = Paths(str(tmp_path / "node"))
    data = Path(made.data_dir)
    (data / "rapi").mkdir(parents=True)
    Path(made.queue_dir).mkdir()
    store = SqliteStore(made.config_database)
    store.commit([read_foreign(GOLDEN.read_bytes(), "filehash", None, 5.0).commit])
    for name, text in KEYS.items():
        (data / name).write_text(text)
        (data / name).chmod(0o440)
    (data / "ssconf_cluster_name").write_text(cluster_name())
    for number, status in ((1, "success"), (2, "running")):
        job = {"id": number, "ops": [{"status": status, "input": {}}]}
        (data / f"queue/job-{number}").write_text(json.dumps(job))
    (data / "queue/serial").write_text("2\n")
    yield made
    store.close()


def cluster_name() -> str:
    return str(json.loads(GOLDEN.read_bytes())["cluster"]["cluster_name"])


def master() -> str:
    plain = json.loads(GOLDEN.read_bytes())
    return str(plain["nodes"][plain["cluster"]["master_node"]]["name"])


@pytest.fixture
def backup(paths: Paths, tmp_path: Path) -> Path:
    path = tmp_path / "backup.tar.gz"
    making.make(paths, str(path))
    return path


def test_it_has_everything_and_only_root_reads_it(paths: Paths, backup: Path) -> None:
    manifest = making.verify(str(backup))
    names = {member.name for member in manifest.members}
    assert names >= {"config.data", *KEYS, "queue/job-1", "queue/serial", "ssconf_cluster_name"}
    assert manifest.cluster == cluster_name() and manifest.position == (1, 42)
    assert backup.stat().st_mode & 0o777 == 0o600


def test_a_running_writer_is_not_disturbed(paths: Paths, backup: Path) -> None:
    """The database's own files are as they were: nothing was written beside it."""
    assert {name for name in os.listdir(paths.data_dir) if name.startswith("config")} <= {
        "config.sqlite",
        "config.sqlite-wal",
        "config.sqlite-shm",
    }


@pytest.mark.parametrize("at", [0.02, 0.3, 0.6, 0.9, 0.995])
def test_a_damaged_one_is_refused(backup: Path, at: float) -> None:
    raw = bytearray(gzip.decompress(backup.read_bytes()))
    position = int(len(raw) * at)
    with tarfile.open(backup) as made:
        spans = [(member.offset_data, member.offset_data + member.size) for member in made.getmembers()]
    position = next((begin for begin, end in spans if begin >= position and end > begin), spans[-1][0])
    raw[position] ^= 1
    backup.write_bytes(gzip.compress(bytes(raw)))
    with pytest.raises(PrerequisiteError):
        making.verify(str(backup))


def holds_the_same(one: bytes, other: bytes) -> bool:
    """A few bits between the compressed bytes and their checksum say nothing."""
    try:
        return gzip.decompress(one) == gzip.decompress(other)
    except (OSError, EOFError, zlib.error):
        return False


def test_one_whose_compressed_bytes_are_damaged_is_refused(backup: Path) -> None:
    """Wherever a disk has written something else, but in the date and the name that gzip keeps in its header."""
    data = backup.read_bytes()
    first = data.index(b"\0", 10) + 1 if data[3] & 8 else 10
    for position in (*range(3), *range(first, len(data), len(data) // 150), len(data) - 1):
        for value in (data[position] ^ 0xFF, ord("x")):
            changed = data[:position] + bytes((value,)) + data[position + 1 :]
            if not holds_the_same(changed, data):
                backup.write_bytes(changed)
                with pytest.raises(PrerequisiteError, match=r"damaged|no backup|lacks"):
                    making.verify(str(backup))


@pytest.mark.parametrize("kept", [0, 10, 200, -100, -1])
def test_a_truncated_one_is_refused(backup: Path, kept: int) -> None:
    data = backup.read_bytes()
    backup.write_bytes(data[:kept])
    with pytest.raises(PrerequisiteError):
        making.verify(str(backup))


def test_what_holds_more_than_it_says_is_refused(backup: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw.tar"
    raw.write_bytes(gzip.decompress(backup.read_bytes()))
    (tmp_path / "more").write_text("x")
    with tarfile.open(raw, "a") as made:
        made.add(tmp_path / "more", "../../etc/cron.d/more")
    backup.write_bytes(gzip.compress(raw.read_bytes()))
    with pytest.raises(PrerequisiteError, match="more than its manifest says"):
        making.verify(str(backup))


def test_it_is_put_back(paths: Paths, backup: Path) -> None:
    data = Path(paths.data_dir)
    (data / "noded-epoch.json").write_text('{"epoch": 9}')
    with pytest.raises(PrerequisiteError, match="add --yes-do-it"):
        restoring.restore(paths, str(backup), master(), over=False)
    done = restoring.restore(paths, str(backup), master(), over=True)
    assert done.dropped == [2] and not (data / "queue/job-2").exists()
    assert (data / "queue/serial").read_text() == "20000\n", "nodes have answered jobs that the backup does not know"
    assert {name: (data / name).read_text() for name in KEYS} == KEYS
    assert json.loads((data / "config.data").read_bytes())["cluster"]["cluster_name"] == cluster_name()
    assert not (data / "config.sqlite").exists(), "WConfD must take config.data for what is wanted"
    assert (data / "noded-epoch.json").read_text() == '{"epoch": 9}'
    assert (Path(done.kept) / "config.sqlite").exists()


def test_an_empty_machine_gets_all_of_it(backup: Path, tmp_path: Path) -> None:
    other = Paths(str(tmp_path / "other"))
    done = restoring.restore(other, str(backup), master(), over=False)
    assert done.kept == "" and (Path(other.data_dir) / "server.pem").read_text() == "secret"


def test_another_machine_is_refused(paths: Paths, backup: Path) -> None:
    with pytest.raises(PrerequisiteError, match="restore it on a machine of that name"):
        restoring.restore(paths, str(backup), "elsewhere", over=True)


def test_a_full_disk_leaves_nothing(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(archived: tarfile.TarFile, content: archive.Content, time_s: float) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_add", full)
    with pytest.raises(OSError, match="No space"):
        making.make(paths, str(tmp_path / "backup.tar.gz"))
    assert not list(tmp_path.glob("*backup*"))


def test_one_that_cannot_be_read_back_leaves_the_former_one(
    paths: Paths, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = backup.read_bytes()

    def unreadable(path: str) -> archive.Manifest:
        assert backup.read_bytes() == former, "verified before it takes the place of the former one"
        raise PrerequisiteError(f"{path} is damaged", "wrong_state")

    monkeypatch.setattr(making, "verify", unreadable)
    with pytest.raises(PrerequisiteError, match=re.escape(f"{backup} is as it was")):
        making.make(paths, str(backup))
    assert backup.read_bytes() == former and [path.name for path in backup.parent.glob("*backup*")] == [backup.name]


@pytest.mark.parametrize("name", ["backup.tar.gz", "backup.tar.gz.new"])
def test_a_link_that_somebody_prepared_gets_no_key(paths: Paths, tmp_path: Path, name: str) -> None:
    place, foreign = tmp_path / "shared", tmp_path / "foreign"
    place.mkdir()
    foreign.write_text("")
    (place / name).symlink_to(foreign)
    making.make(paths, str(place / "backup.tar.gz"))
    assert foreign.read_text() == "" and not (place / "backup.tar.gz").is_symlink()


def test_only_older_backups_of_this_cluster_are_removed(tmp_path: Path) -> None:
    made = "one-20260103-000000.tar.gz"
    others = [
        "one-before-the-upgrade.tar.gz",
        "one-zone-20260101-000000.tar.gz",
        "one-20260101-000000.tar.gz.old",
        "oneX20260101-000000.tar.gz",
        "other-20260101-000000.tar.gz",
    ]
    for name in [made, "one-20260101-000000.tar.gz", "one-20260102-000000.tar.gz", *others]:
        (tmp_path / name).write_text("")
    assert making.prune(str(tmp_path), "one", 2, made) == ["one-20260101-000000.tar.gz"]
    (tmp_path / "one-20290101-000000.tar.gz").write_text("of a clock that was wrong")
    assert making.prune(str(tmp_path), "one", 1, made) == ["one-20260102-000000.tar.gz", "one-20290101-000000.tar.gz"]
    assert {path.name for path in tmp_path.iterdir()} == {made, *others}


def test_the_command(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GANETI_ROOTDIR", paths.root)
    place = tmp_path / "backups"
    place.mkdir()
    for day in ("01", "02"):
        (place / f"{cluster_name()}-202601{day}-000000.tar.gz").write_text("old")
    assert command.main(["backup", "--keep", "2", str(place)]) == 0
    assert "read back and verified" in capsys.readouterr().out
    names = sorted(path.name for path in place.iterdir())
    assert len(names) == 2 and names[0].endswith("20260102-000000.tar.gz")
    assert command.main(["backup", "--verify", str(place / names[1])]) == 0
    assert command.main(["backup", "--verify", str(place / names[0])]) == 1
    assert command.main(["backup", "--keep", "0", str(place)]) == 1
    capsys.readouterr()
    for words, sentence in (
        (["backup", str(tmp_path / "nowhere/file")], "nowhere: make it, or name another place"),
        (["backup", "--verify", str(tmp_path / "gone")], "gone: name one that gnt-cluster backup made"),
        (["backup", "--verify", str(place)], "backups is a directory: name one of its files"),
    ):
        assert command.main(words) == 1
        assert sentence in capsys.readouterr().err
    monkeypatch.setenv("GANETI_ROOTDIR", str(tmp_path / "empty"))
    assert command.main(["backup", str(tmp_path / "file")]) == 1
