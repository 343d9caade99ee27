# SPDX-License-Identifier: BSD-2-Clause
"""The parts of a disk that QEMU notes changes of: small, as long as their bitmaps are."""

import pytest

from ganeti.mirrord.storage_daemon import part_bytes

GIB = 2**30


@pytest.mark.parametrize(
    ("size", "length"),
    [(0, 4096), (64 * GIB, 4096), (64 * GIB + 1, 8192), (1024 * GIB, 65536), (100 * 1024 * GIB, 65536)],
)
def test_parts_grow_with_the_disk(size, length):
    assert part_bytes(size) == length
