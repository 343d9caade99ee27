# SPDX-License-Identifier: BSD-2-Clause
"""gzip in the process of a transfer: the format of the program, in both directions; damage is said."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

import pytest

from ganeti.base.errors import TransportError
from ganeti.tools.import_export import gzip_stream

isal = gzip_stream.library()
pytestmark = pytest.mark.skipif(isal is None, reason="the library isal is not installed")
CONTENTS = {
    "nothing": b"",
    "one byte": b"x",
    "zeros": bytes(5_000_000),
    "random": random.Random(1).randbytes(3_000_001),
    "both": random.Random(2).randbytes(400_000) + bytes(3_000_000) + b"end" * 70_001,
}


def reading(data: bytes, size: int) -> Callable[[], bytes]:
    chunks = iter([data[at : at + size] for at in range(0, len(data), size)])
    return lambda: next(chunks, b"")


def read_all(read: Callable[[], bytes]) -> bytes:
    return b"".join(iter(read, b""))


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("size", [4099, 262144])
def test_what_is_packed_here_gzip_unpacks_and_the_other_way_round(content: bytes, size: int) -> None:
    packed = read_all(gzip_stream.packed(isal, reading(content, size)))
    assert gzip.decompress(packed) == content
    for stream in (packed, gzip.compress(content, 6), gzip.compress(content[:1000]) + gzip.compress(content[1000:])):
        assert read_all(gzip_stream.unpacked(isal, reading(stream, size))) == content


def test_a_small_chunk_never_becomes_a_huge_one() -> None:
    stream = gzip.compress(bytes(200_000_000), 9)
    read = gzip_stream.unpacked(isal, reading(stream, 262144))
    sizes = [len(piece) for piece in iter(read, b"")]
    assert sum(sizes) == 200_000_000 and max(sizes) <= 1024 * 1024


@pytest.mark.parametrize("size", [10, 262144])
def test_zeros_behind_a_stream_are_passed_over(size: int) -> None:
    assert read_all(gzip_stream.unpacked(isal, reading(gzip.compress(b"content") + bytes(512), size))) == b"content"


def test_a_stream_that_was_cut_or_changed_is_refused() -> None:
    stream = gzip.compress(CONTENTS["both"])
    with pytest.raises(TransportError, match="end too early"):
        read_all(gzip_stream.unpacked(isal, reading(stream[:-5], 262144)))
    changed = bytearray(stream)
    changed[len(changed) // 4] ^= 0x55
    for wrong in (bytes(changed), b"no gzip at all", stream + b"rest that is none"):
        with pytest.raises(TransportError, match=r"damaged|end too early"):
            read_all(gzip_stream.unpacked(isal, reading(wrong, 262144)))
