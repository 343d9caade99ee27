# SPDX-License-Identifier: BSD-2-Clause
"""The fingerprint of a `config.data` as it lies on disk: equal wherever the content is, however it is laid out (D6).

It is the sum, modulo 2^256, of the SHA-256 of every object (kind, uuid, JSON fragment) and every other top-level key,
so the order and spacing of the entries say nothing. It tells accident and administrator from us; it is no guard
against a forger. `master/config/fingerprint.py` keeps the same number up change by change.
"""

import hashlib

import msgspec

from ganeti.model.objects import KINDS, SINGLES

_MODULUS = 2**256
UNREADABLE = ""
"""Fingerprint of a file that is not laid out as a configuration."""


def fingerprint_of(data: bytes) -> str:
    """Of the whole file; `UNREADABLE` if it is not a configuration."""
    try:
        top = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        total = 0
        for key, raw in top.items():
            if key in SINGLES:
                total += summand(key, SINGLES[key], bytes(raw))
            elif key in KINDS:
                entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
                total += sum(summand(key, uuid, bytes(entry)) for uuid, entry in entries.items())
            else:
                total += summand("", key, bytes(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNREADABLE
    return total_text(total)


def summand(kind: str, key: str, data: bytes) -> int:
    """What one object adds; *kind* is empty for another top-level key."""
    return int.from_bytes(hashlib.sha256(f"{kind}\0{key}\0".encode() + data).digest())


def total_text(total: int) -> str:
    """The fingerprint as it is stored and compared."""
    return f"{total % _MODULUS:064x}"
