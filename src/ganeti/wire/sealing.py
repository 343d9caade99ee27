# SPDX-License-Identifier: BSD-2-Clause
"""Chunks of backups, compressed, encrypted and bound to their place by a key of the cluster.

A sealed chunk is a nonce of 12 bytes and AES-256-GCM over a letter (``0`` as it is, ``z`` deflated) and the data. What
is authenticated beside it are the instance, the number of the disk and that of the chunk: a chunk that is moved to
another place is refused like one that is damaged. Keys of single instances are derived, so that nonces may be random.
"""

import hashlib
import hmac
import importlib
import zlib
from typing import Any

from ganeti.base.errors import BlockDeviceError

CHUNK_BYTES = 64 * 1024
NONCE_BYTES = 12
DIGEST_BYTES = 16
EMPTY_DIGEST = bytes(DIGEST_BYTES)
"""Stands for a chunk that holds nothing but zeros, or is in no backup."""
_LEVEL = 1
_TRIED_BYTES = 4096
"""What of a chunk shows whether deflating it by zlib is worth the time."""
_PLAIN, _DEFLATED = b"0", b"z"


def derived(key: bytes, purpose: str, instance_uuid: str) -> bytes:
    """A key of 32 bytes for one purpose and one instance."""
    return hmac.digest(key, f"ganeti backup {purpose} {instance_uuid}".encode(), "sha256")


class Sealing:
    """Seals and opens the chunks of one instance."""

    def __init__(self, key: bytes, instance_uuid: str) -> None:
        # Imported here because it is slow, and few processes make or read backups.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(derived(key, "seal", instance_uuid))
        self._digest_key = derived(key, "digest", instance_uuid)
        self._instance_uuid = instance_uuid
        self._isal = _fast_library()

    def digest(self, data: bytes) -> bytes:
        """Tells chunks apart, and nothing of their content to those without the key."""
        if not data.strip(b"\0"):
            return EMPTY_DIGEST
        return hashlib.blake2b(data, key=self._digest_key, digest_size=DIGEST_BYTES).digest()

    def seal(self, disk: int, number: int, data: bytes, nonce: bytes) -> bytes:
        """*nonce* is random, and never used again."""
        small = self._deflated(data)
        text = _DEFLATED + small if len(small) < len(data) else _PLAIN + data
        return nonce + self._cipher.encrypt(nonce, text, self._place(disk, number))

    def open(self, disk: int, number: int, sealed: bytes, digest: bytes) -> bytes:
        """Raises `BlockDeviceError` for a chunk that is not the one that was sealed for this place."""
        data = self.open_text(disk, number, sealed)
        if self.digest(data) != digest:
            raise damaged_chunk(disk, number)
        return data

    def open_text(self, disk: int, number: int, sealed: bytes) -> bytes:
        """The same without a digest, for what has only one version."""
        from cryptography.exceptions import InvalidTag

        try:
            text = self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], self._place(disk, number))
            return zlib.decompress(text[1:]) if text[:1] == _DEFLATED else text[1:]
        except (InvalidTag, ValueError, zlib.error) as err:
            raise damaged_chunk(disk, number) from err

    def _deflated(self, data: bytes) -> bytes:
        """Smaller where that is possible and costs little."""
        if self._isal is not None:
            return bytes(self._isal.compress(data, _LEVEL))
        begin = data[:_TRIED_BYTES]
        return zlib.compress(data, _LEVEL) if len(zlib.compress(begin, _LEVEL)) < len(begin) else data

    def _place(self, disk: int, number: int) -> bytes:
        return f"{self._instance_uuid} {disk} {number}".encode()


def _fast_library() -> Any:
    """ISA-L, which deflates in the format of zlib several times faster; None where it is not installed."""
    try:
        return importlib.import_module("isal.isal_zlib")
    except ImportError:
        return None


def damaged_chunk(disk: int, number: int) -> BlockDeviceError:
    return BlockDeviceError(
        f"The backup is damaged: what it holds of disk {disk} at {number * CHUNK_BYTES} bytes is not what was written. "
        "Choose an older backup (gnt-backup history)"
    )
