# SPDX-License-Identifier: BSD-2-Clause
"""Sealed chunks open in their own place alone, and manifests tell of every change."""

import os
import sys

import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.wire.backup_file import Backup, BackupDisk, Proof, UnreadableBackupError, decode, encode
from ganeti.wire.sealing import CHUNK_BYTES, EMPTY_DIGEST, NONCE_BYTES, Sealing

KEY, OTHER = bytes(range(32)), bytes(32)
UUID = "6d1c1a2e-2a6e-4a3f-9b60-3a3a4e2b7c11"
KEYS = {"k1": KEY.hex()}
BACKUP = Backup(
    id="b1",
    instance_uuid=UUID,
    instance_name="web1",
    created=1.5,
    key_id="k1",
    frozen=False,
    disks=[BackupDisk(size=CHUNK_BYTES, chunks=1, chunk_bytes=10, index_bytes=36, index_sha256="ab")],
    instance="",
)


@pytest.mark.parametrize("data", [b"text" * 1000, os.urandom(CHUNK_BYTES), b"x"])
def test_a_chunk_opens_in_its_place_with_its_key_alone(data: bytes) -> None:
    sealing = Sealing(KEY, UUID)
    sealed = sealing.seal(1, 7, data, os.urandom(NONCE_BYTES))
    digest = sealing.digest(data)
    assert data[:20] not in sealed or len(data) == 1
    assert sealing.open(1, 7, sealed, digest) == data
    elsewhere = Sealing(KEY, UUID.replace("6", "7"))
    for wrong, disk, number in ((sealing, 0, 7), (sealing, 1, 8), (elsewhere, 1, 7), (Sealing(OTHER, UUID), 1, 7)):
        with pytest.raises(BlockDeviceError, match=f"disk {disk} at {number * CHUNK_BYTES} bytes is not"):
            wrong.open(disk, number, sealed, digest)
    for broken in (sealed[:-1], sealed[:-1] + bytes([sealed[-1] ^ 1]), b"", sealed[:NONCE_BYTES]):
        with pytest.raises(BlockDeviceError, match="The backup is damaged"):
            sealing.open(1, 7, broken, digest)
    with pytest.raises(BlockDeviceError, match="The backup is damaged"):
        sealing.open(1, 7, sealed, sealing.digest(data + b"1"))


def test_what_one_library_deflates_the_other_node_opens_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    half = b"text" * 4000 + os.urandom(16000)
    there = Sealing(KEY, UUID)
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    missing = Sealing(KEY, UUID)
    for sealing, other in ((there, missing), (missing, there)):
        sealed = sealing.seal(0, 0, half, os.urandom(NONCE_BYTES))
        assert len(sealed) < len(half)
        assert other.open(0, 0, sealed, sealing.digest(half)) == half


def test_digests_tell_nothing_without_the_key() -> None:
    assert Sealing(KEY, UUID).digest(b"a") != Sealing(OTHER, UUID).digest(b"a")
    assert Sealing(KEY, UUID).digest(bytes(CHUNK_BYTES)) == EMPTY_DIGEST


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert decode(encode(BACKUP, KEYS), Backup, KEYS) == BACKUP
    proof = Proof(backup="b1", instance_uuid=UUID, key_id="k1", proved=2.0, good=True, sign="agent", took=1.0)
    assert decode(encode(proof, KEYS), Proof, KEYS) == proof


def test_every_changed_letter_of_a_manifest_is_noticed() -> None:
    text = encode(BACKUP, KEYS)
    for place in range(len(text)):
        changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        with pytest.raises(UnreadableBackupError):
            decode(changed, Backup, KEYS)
        with pytest.raises(UnreadableBackupError):
            decode(text[:place], Backup, KEYS)


def test_a_manifest_of_another_key_or_release_says_so() -> None:
    text = encode(BACKUP, KEYS)
    with pytest.raises(UnreadableBackupError, match="the key k1, which this cluster does not have"):
        decode(text, Backup, {"k2": KEY.hex()})
    with pytest.raises(UnreadableBackupError, match="not what was written"):
        decode(text, Backup, {"k1": OTHER.hex()})
    with pytest.raises(UnreadableBackupError, match="a later release made it"):
        decode(text.replace('"format":1', '"format":2'), Backup, KEYS)
