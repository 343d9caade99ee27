# SPDX-License-Identifier: BSD-2-Clause
"""The manifest of a backup: what it holds, on which backup it builds, and the code that shows that nobody changed it.

A manifest is ``{"backup": {…}, "mac": "…"}``; the code is HMAC-SHA256 over the bytes of the first value as they stand
in the file. A proof, which says when the backup was booted and what came of it, is a file of the same form.
"""

import hmac
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ganeti.wire.sealing import derived

FORMAT = 1
_MANIFEST, _PROOF = "manifest", "proof"


class BackupDisk(msgspec.Struct, frozen=True, kw_only=True):
    """One disk as one backup has it: the chunks that changed since the backup before."""

    uuid: str = ""
    """Of the instance's disk, whose place among the others may change."""
    size: int
    """In bytes."""
    chunks: int
    chunk_bytes: int
    """Of the file with the sealed chunks."""
    index_bytes: int
    index_sha256: str


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    format: int = FORMAT
    parent: str = ""
    """Id of the backup that has the rest; empty where this one has everything."""
    generation: int = 0
    """Part of its files' names: it grows when chunks of a removed backup are taken in."""
    instance_uuid: str
    instance_name: str
    created: float
    """Since 1970, in seconds."""
    key_id: str
    frozen: bool
    """Whether the guest's agent had its file systems written out."""
    read: int = 0
    """Bytes of the disks that were read to make it."""
    disks: list[BackupDisk]
    instance: str
    """What the instance is, sealed, in base64: the text of an export's `config.ini`."""

    @property
    def size(self) -> int:
        return sum(disk.size for disk in self.disks)

    @property
    def stored_bytes(self) -> int:
        return sum(disk.chunk_bytes + disk.index_bytes for disk in self.disks)


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    backup: str
    instance_uuid: str
    key_id: str
    proved: float
    """When, in seconds since 1970."""
    good: bool
    sign: str
    """What the guest showed of itself, or why it is no proof."""
    took: float
    """Seconds from the beginning to the sign of life."""


class _Sealed(msgspec.Struct, frozen=True):
    backup: msgspec.Raw
    mac: str


class UnreadableBackupError(Exception):
    """Says why a manifest cannot be used."""


Kind = TypeVar("Kind", Backup, Proof)


def encode(value: Backup | Proof, keys: Mapping[str, str]) -> str:
    """*keys* are those of the cluster, in hexadecimal."""
    data = msgspec.json.encode(value)
    mac = _mac(data, value, keys[value.key_id])
    return msgspec.json.encode(_Sealed(msgspec.Raw(data), mac)).decode()


def decode(text: str, kind: type[Kind], keys: Mapping[str, str]) -> Kind:
    """Raises `UnreadableBackupError`."""
    try:
        sealed = msgspec.json.decode(text, type=_Sealed)
        plain: Any = msgspec.json.decode(sealed.backup)
        if isinstance(plain, dict) and plain.get("format", FORMAT) != FORMAT:
            raise UnreadableBackupError("a later release made it")
        value = msgspec.json.decode(sealed.backup, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as err:
        raise UnreadableBackupError("its manifest is damaged") from err
    key = keys.get(value.key_id)
    if key is None:
        raise UnreadableBackupError(f"it is sealed with the key {value.key_id}, which this cluster does not have")
    if not hmac.compare_digest(sealed.mac, _mac(bytes(sealed.backup), value, key)):
        raise UnreadableBackupError("its manifest is not what was written")
    return value


def _mac(data: bytes, value: Backup | Proof, key: str) -> str:
    purpose = _MANIFEST if isinstance(value, Backup) else _PROOF
    return hmac.new(derived(bytes.fromhex(key), purpose, value.instance_uuid), data, "sha256").hexdigest()
