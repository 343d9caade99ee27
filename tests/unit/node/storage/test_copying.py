# SPDX-License-Identifier: BSD-2-Clause
"""A copy of a disk is equal to it, whatever the space of the new one was used for before, and has its size at least."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.fakes.one_node import OneNode

from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.node.storage import image_io
from ganeti.node.storage.copying import copy_disk

MIB = 1024 * 1024
CONTENT = os.urandom(MIB) + bytes(2 * MIB) + os.urandom(MIB) + bytes(MIB)


def disk(path: Path, image_format: str) -> AttachedDisk:
    spec = DiskSpec(uuid="d0", template="plain", logical_id=["xenvg", path.name], size_mib=5, index=0)
    return AttachedDisk(spec=spec, path=str(path), image_format=image_format)


@pytest.mark.parametrize("source_format", ["raw", "qcow2"])
@pytest.mark.parametrize("size_mib", [5, 8])
def test_what_a_volume_held_before_is_overwritten(
    node: OneNode, tmp_path: Path, source_format: str, size_mib: int
) -> None:
    """A volume is made of whole extents, so it may be larger than its disk."""
    raw, source, volume = tmp_path / "raw", tmp_path / "source", tmp_path / "volume"
    raw.write_bytes(CONTENT)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", source_format, raw, source], check=True)
    volume.write_bytes(b"formerly" * (size_mib * MIB // 8))
    node.run(copy_disk(node.state.world, disk(source, source_format), disk(volume, "raw"), is_zero=False))
    assert volume.read_bytes() == CONTENT.ljust(size_mib * MIB, b"\0")


@pytest.mark.parametrize("source_format", ["raw", "qcow2"])
def test_a_qcow2_image_becomes_as_large_as_what_it_is_copied_from(
    node: OneNode, tmp_path: Path, source_format: str
) -> None:
    raw, source, image = tmp_path / "raw", tmp_path / "source", tmp_path / "image"
    raw.write_bytes(CONTENT)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", source_format, raw, source], check=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "4M"], check=True)
    node.run(copy_disk(node.state.world, disk(source, source_format), disk(image, "qcow2"), is_zero=True))
    subprocess.run(["qemu-img", "compare", "-q", "-f", "raw", "-F", "qcow2", raw, image], check=True)
    assert image_io.inspect(str(image), "qcow2") == len(CONTENT)


def test_an_image_becomes_as_large_as_the_volume_that_it_is_copied_from(node: OneNode, tmp_path: Path) -> None:
    volume, image = tmp_path / "volume", tmp_path / "image"
    volume.write_bytes(CONTENT)
    image.write_bytes(b"")
    os.truncate(image, 4 * MIB)
    node.run(copy_disk(node.state.world, disk(volume, "raw"), disk(image, "raw"), is_zero=True))
    assert image.read_bytes() == CONTENT and image.stat().st_blocks * 512 < 3 * MIB
