# SPDX-License-Identifier: BSD-2-Clause
"""An image for which a sparse disk has no room is refused before the disk is touched."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.node import images

MIB = 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Four MiB, of which the first holds data."""
    path = tmp_path / "disk"
    path.write_bytes(b"old" * (MIB // 3))
    os.truncate(path, 4 * MIB)
    return path


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """One MiB is free."""
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_bavail=256, f_frsize=4096))


def test_what_does_not_fit_leaves_the_disk_as_it_was(tmp_path: Path, disk: Path, little_room: None) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"new" * MIB)
    before = disk.read_bytes()
    with pytest.raises(BlockDeviceError, match=r"disk cannot be filled: No space left on device"):
        images.copy_onto(Paths(str(tmp_path)), str(image), str(disk))
    assert disk.read_bytes() == before


def test_what_fits_into_data_and_free_room_is_written(tmp_path: Path, disk: Path, little_room: None) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"a" * 2 * MIB + bytes(MIB))  # one MiB over data, one into a hole, one of zeros
    assert images.copy_onto(Paths(str(tmp_path)), str(image), str(disk)) == 3 * MIB
    assert disk.read_bytes() == image.read_bytes() + bytes(MIB)
