# SPDX-License-Identifier: BSD-2-Clause
"""Whether a QEMU writes an image is told by the byte that it locks, and by no other."""

import fcntl
import os
import struct
from pathlib import Path

import pytest

from ganeti.node.storage.guest_locks import is_written


@pytest.mark.parametrize(("first_byte", "told"), [(101, True), (100, False), (201, False)])
def test_the_right_to_write_is_seen(tmp_path: Path, first_byte: int, told: bool) -> None:
    image = tmp_path / "image"
    image.touch()
    assert not is_written(str(image))
    holder = os.open(image, os.O_RDWR)
    fcntl.fcntl(holder, fcntl.F_OFD_SETLK, struct.pack("hhqqi0q", fcntl.F_RDLCK, os.SEEK_SET, first_byte, 1, 0))
    assert is_written(str(image)) is told
    os.close(holder)
    assert not is_written(str(image))


def test_what_cannot_be_opened_is_not_known_to_be_written(tmp_path: Path) -> None:
    assert not is_written(str(tmp_path / "missing"))
