# SPDX-License-Identifier: BSD-2-Clause
"""A directory of backups: chains give the newest chunk of each number, merging keeps what they give."""

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from obstore.store import MemoryStore

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.backups import ChainLink, Chunk
from ganeti.node.backups import chunk_index
from ganeti.node.backups.bucket import Bucket
from ganeti.node.backups.directory import LARGEST_MANIFEST_BYTES, BackupDirectory
from ganeti.node.backups.object_store import BackupObjects
from ganeti.wire.sealing import DIGEST_BYTES, EMPTY_DIGEST

UUID = "6d1c1a2e-2a6e-4a3f-9b60-3a3a4e2b7c11"
NUMBERS = 3000


@pytest.fixture
def store(tmp_path: Path) -> BackupDirectory:
    return BackupDirectory(str(tmp_path / "kept"))


@pytest.fixture(params=["directory", "objects"])
def any_store(store: BackupDirectory, tmp_path: Path, request: pytest.FixtureRequest) -> BackupDirectory:
    """Both have the same laws; the objects are in memory, by the library that reaches a bucket."""
    if request.param == "directory":
        return store
    return BackupObjects(Bucket("s3://bucket", MemoryStore()), str(tmp_path / "spool"))


def chunk(number: int, data: bytes) -> Chunk:
    return Chunk(number=number, data=data, digest=(data or EMPTY_DIGEST).ljust(DIGEST_BYTES, b"."))


def make(store: BackupDirectory, backup: str, chunks: dict[int, bytes]) -> ChainLink:
    store.begin(UUID, backup, 1)
    offset, numbers = 0, sorted(chunks)
    for begin in range(0, len(numbers), 100):
        part = [chunk(number, chunks[number]) for number in numbers[begin : begin + 100]]
        offset = store.append(UUID, backup, 0, part, offset)
    (stored,) = store.finish(UUID, backup)
    assert stored.chunks == len(chunks)
    link = ChainLink(id=backup, generation=0, disks=1)
    store.publish(UUID, backup, 0, f"manifest of {backup}")
    return link


def content(store: BackupDirectory, chain: list[ChainLink]) -> dict[int, bytes]:
    found, first = {}, 0
    while first < NUMBERS:
        piece = store.chunks(UUID, chain, 0, first, NUMBERS)
        found.update({each.number: each.data for each in piece.chunks})
        first = piece.next
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_chain_is_its_newest_chunks_before_and_after_merging(any_store: BackupDirectory, seed: int) -> None:
    store = any_store
    draw = random.Random(seed)
    wanted: dict[int, bytes] = {}
    states, chain = [], list[ChainLink]()
    for number in range(4):
        chosen = draw.sample(range(NUMBERS), draw.choice([0, 1, 700, 2500]))
        changes = {each: b"" if draw.random() < 0.3 else f"{number} {each}".encode() for each in chosen}
        wanted |= changes
        chain.insert(0, make(store, f"b{number}", changes))
        states.append({each: data for each, data in wanted.items() if data})
    for number, state in enumerate(states):
        assert content(store, chain[3 - number :]) == state
    digests = store.digests(UUID, chain, 0, 10, 500)
    for place in range(500):
        data = states[-1].get(place + 10, b"")
        assert digests[place * DIGEST_BYTES :][:DIGEST_BYTES] == chunk(0, data).digest
    for oldest in range(3):
        older, newer = chain[-1], chain[-2]
        store.merge(UUID, older, newer, newer.generation + 1, keeps_zeros=False)
        chain[-2] = ChainLink(id=newer.id, generation=newer.generation + 1, disks=1)
        store.publish(UUID, newer.id, chain[-2].generation, f"another manifest of {newer.id}")
        assert store.remove(UUID, older.id)
        chain.pop()
        for number in range(oldest + 1, 4):
            assert content(store, chain[3 - number :]) == states[number]
    kept = store.listed()
    assert [each.id for each in kept.backups] == ["b3"] and kept.backups[0].manifest == "another manifest of b3"


def test_what_is_begun_is_no_backup_and_goes(any_store: BackupDirectory, tmp_path: Path) -> None:
    store = any_store
    make(store, "b0", {1: b"one"})
    store.begin(UUID, "b1", 1)
    store.append(UUID, "b1", 0, [chunk(1, b"two")], 0)
    kept = store.listed()
    assert ([each.id for each in kept.backups], kept.unfinished) == (["b0"], [(UUID, "b1")])
    with pytest.raises(BlockDeviceError, match="has 3 bytes, not 0"):
        store.append(UUID, "b1", 0, [chunk(2, b"three")], 0)
    for _ in range(2):
        store.discard(UUID, "b1")
        store.discard(UUID, "b0")
    assert [each.id for each in store.listed().backups] == ["b0"] and not store.listed().unfinished
    assert (store.remove(UUID, "b0"), store.remove(UUID, "b0")) == (True, False)
    assert [path for path in tmp_path.glob("*/*/*") if path.is_file()] == []


def test_nodes_with_the_same_file_system_say_so(tmp_path: Path) -> None:
    one = BackupDirectory(str(tmp_path / "kept"))
    assert one.listed().identity == "", "nothing is made by looking"
    make(one, "b0", {1: b"one"})
    (tmp_path / "elsewhere").symlink_to(tmp_path / "kept")
    other = BackupDirectory(str(tmp_path / "elsewhere"))
    assert one.listed().identity == other.listed().identity != ""
    shutil.copytree(tmp_path / "kept", tmp_path / "copied")
    assert BackupDirectory(str(tmp_path / "copied")).listed().identity not in ("", one.listed().identity)


def test_a_merge_of_what_is_merged_already_takes_nothing_away(store: BackupDirectory) -> None:
    """Another node with the same directory, or a daemon that was late, knows the backups as they were."""
    older, newer = make(store, "b0", {1: b"one", 2: b"two"}), make(store, "b1", {1: b"three"})
    store.merge(UUID, older, newer, 1, keeps_zeros=False)
    store.publish(UUID, "b1", 1, '{"backup": {"generation": 1}, "mac": ""}')
    store.remove(UUID, "b0")
    with pytest.raises((BlockDeviceError, OSError)):
        store.merge(UUID, older, newer, 1, keeps_zeros=False)
    assert content(store, [ChainLink(id="b1", generation=1, disks=1)]) == {1: b"three", 2: b"two"}


@pytest.mark.parametrize(
    ("uuid", "backup"), [("..", "b0"), (UUID, ".."), (UUID, "a/b"), (UUID, ""), (UUID, "x.new"), (UUID, "\0")]
)
def test_nothing_outside_the_directory_is_reached(any_store: BackupDirectory, uuid: str, backup: str) -> None:
    for act in (any_store.discard, any_store.remove, lambda *place: any_store.begin(*place, 1)):
        with pytest.raises(BlockDeviceError, match="cannot be the place of a backup"):
            act(uuid, backup)


def test_a_file_that_is_cut_is_told(store: BackupDirectory, tmp_path: Path) -> None:
    link = make(store, "b0", {number: b"data" for number in range(9)})
    chunks = tmp_path / "kept" / UUID / "b0/disk0.0.chunks"
    chunks.write_bytes(chunks.read_bytes()[:-1])
    with pytest.raises(BlockDeviceError, match="The backup is damaged"):
        store.chunks(UUID, [link], 0, 0, 9)


@pytest.mark.parametrize("damaged", ["b0", "b1"])
@pytest.mark.parametrize("file", ["disk0.0.index", "disk0.0.chunks"])
def test_nothing_is_merged_that_is_not_there(store: BackupDirectory, tmp_path: Path, damaged: str, file: str) -> None:
    older, newer = make(store, "b0", {1: b"one"}), make(store, "b1", {2: b"two"})
    (tmp_path / "kept" / UUID / damaged / file).unlink()
    with pytest.raises(FileNotFoundError, match=file):
        store.merge(UUID, older, newer, 1, keeps_zeros=False)
    with pytest.raises(FileNotFoundError, match=file):
        content(store, [newer, older])
    assert not list((tmp_path / "kept" / UUID).glob("*/*.1.*"))


def test_objects_that_are_gone_or_cut_are_told(tmp_path: Path) -> None:
    """A node that has read the backup before sees it, too; its indexes of backups that are gone go."""
    memory = MemoryStore()
    stores = [BackupObjects(Bucket("s3://bucket", memory), str(tmp_path / node)) for node in ("node1", "node2")]
    link = make(stores[0], "b0", {number: b"data" for number in range(9)})
    before = stores[1].stored(UUID, link)
    assert before[0].chunk_bytes == 36 and content(stores[1], [link]) == {number: b"data" for number in range(9)}
    memory.put(f"{UUID}/b0/disk0.0.chunks", b"d" * 35)
    assert stores[1].stored(UUID, link)[0].chunk_bytes == 35
    with pytest.raises(BlockDeviceError, match="The backup is damaged"):
        content(stores[1], [link])
    memory.delete(f"{UUID}/b0/disk0.0.chunks")
    with pytest.raises(FileNotFoundError):
        stores[1].stored(UUID, link)
    assert stores[0].remove(UUID, "b0")
    assert stores[1].listed().backups == [] and not (tmp_path / "node2" / UUID).exists()


def test_an_index_that_several_fetch_at_once_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one fetch has got a part of it, others fetch it, and read through the one that was there."""
    store = BackupObjects(Bucket("s3://bucket", MemoryStore()), str(tmp_path / "spool"))
    link = make(store, "b0", {number: b"data" for number in range(9)})
    before = store.stored(UUID, link)
    pieces, found, begun = Bucket.pieces, list[object](), list[str]()

    def slow(bucket: Bucket, key: str) -> Iterator[bytes]:
        data = b"".join(pieces(bucket, key))
        yield data[:40]
        begun.append(key)
        if len(begun) == 1:
            found.append(store.stored(UUID, link))
            found.append(content(store, [link]))
        yield data[40:]

    monkeypatch.setattr(Bucket, "pieces", slow)
    assert store.stored(UUID, link) == before
    assert before in found and {number: b"data" for number in range(9)} in found
    assert [path.name for path in (tmp_path / "spool").glob("*/*/*")] == ["disk0.0.index"]


def test_a_short_index_is_no_backup_of_zeros(any_store: BackupDirectory, tmp_path: Path) -> None:
    link = msgspec.structs.replace(make(any_store, "b0", {number: b"data" for number in range(9)}), chunks=[9])
    any_store.stored(UUID, link)
    assert len(content(any_store, [link])) == 9
    (index,) = tmp_path.glob("*/*/*/disk0.0.index")
    os.truncate(index, 36 * 8)
    for read in (lambda: content(any_store, [link]), lambda: any_store.digests(UUID, [link], 0, 0, 9)):
        with pytest.raises(BlockDeviceError, match="the index of disk 0 of b0 names 8 chunks, and its manifest 9"):
            read()


def test_a_large_object_is_no_manifest(tmp_path: Path) -> None:
    memory = MemoryStore()
    store = BackupObjects(Bucket("s3://bucket", memory), str(tmp_path))
    make(store, "b0", {1: b"one"})
    memory.put(f"{UUID}/b0/proof.json", b" " * (LARGEST_MANIFEST_BYTES + 1))
    assert [each.proof for each in store.listed().backups] == [""]
    memory.put(f"{UUID}/b0/manifest.json", b" " * (LARGEST_MANIFEST_BYTES + 1))
    assert [each.id for each in store.listed().backups] == ["b0"] and store.listed().backups[0].fault


def test_a_disk_that_the_older_backup_does_not_have_is_merged(store: BackupDirectory) -> None:
    older = make(store, "b0", {1: b"one"})
    store.begin(UUID, "b1", 2)
    store.append(UUID, "b1", 1, [chunk(3, b"three")], 0)
    store.finish(UUID, "b1")
    store.publish(UUID, "b1", 0, "manifest")
    merged = store.merge(UUID, older, ChainLink(id="b1", generation=0, disks=2), 1, keeps_zeros=False)
    assert [each.chunks for each in merged] == [1, 1]


def test_a_full_place_keeps_no_half_of_a_merge(
    store: BackupDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = make(store, "b0", {1: b"one"}), make(store, "b1", {2: b"two"})
    before = sorted((tmp_path / "kept").glob("*/*/*"))

    def full(path: str, *_: object) -> int:
        Path(f"{path}.chunks").write_bytes(b"on")
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(chunk_index, "append", full)
    with pytest.raises(OSError, match="No space left"):
        store.merge(UUID, older, newer, 1, keeps_zeros=False)
    assert sorted((tmp_path / "kept").glob("*/*/*")) == before
