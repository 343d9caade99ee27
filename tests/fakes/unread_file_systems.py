# SPDX-License-Identifier: BSD-2-Clause
"""The beginnings of file systems that are not read out of backups, as blkid knows them."""

from __future__ import annotations

import struct

_BTRFS_PLACE, _BTRFS_BYTES = 64 * 1024, 4096
IMAGE_BYTES = 4 * 1024 * 1024


def btrfs() -> bytes:
    """Its superblock, with the checksum that newer releases of blkid look at."""
    body = bytearray(_BTRFS_BYTES)
    body[0x20:0x30] = bytes(range(16))
    struct.pack_into("<QQ8sQ", body, 0x30, _BTRFS_PLACE, 1, b"_BHRfS_M", 7)
    struct.pack_into("<QQQQ", body, 0x70, IMAGE_BYTES, 16384, 6, 1)
    struct.pack_into("<IIII", body, 0x90, 4096, 16384, 16384, 4096)
    struct.pack_into("<I", body, 0, _crc32c(bytes(body[0x20:])))
    return (bytes(_BTRFS_PLACE) + bytes(body)).ljust(IMAGE_BYTES, b"\0")


def ntfs() -> bytes:
    """Its boot sector, and the two records that blkid reads."""
    image = bytearray(IMAGE_BYTES)
    image[0:11] = b"\xebR\x90NTFS    "
    struct.pack_into("<HB", image, 11, 512, 8)
    image[21] = 0xF8
    struct.pack_into("<QQQbxxxb", image, 40, IMAGE_BYTES // 512 - 1, 4, 8, -10, 1)
    struct.pack_into("<Q", image, 72, 0x1234567890)
    image[510:512] = b"\x55\xaa"
    for record in (0, 3):
        at = 4 * 4096 + record * 1024
        struct.pack_into("<4s16xHHII", image, at, b"FILE", 56, 1, 64, 1024)
        struct.pack_into("<I", image, at + 56, 0xFFFFFFFF)
    return bytes(image)


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
