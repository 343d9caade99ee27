# SPDX-License-Identifier: BSD-2-Clause
"""What is not read out of a backup is known for what it is, and never given to a reader of something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.one_node import OneNode
from tests.fakes.unread_file_systems import btrfs, ntfs

from ganeti.node.backups import lvm_program, volumes

root = pytest.mark.skipif(os.geteuid() != 0, reason="a program that reads as nobody is started by root")
ROW = {"start_extent": 0, "extent_count": 4, "type": "striped", "stripe_count": 1, "stripes": ["pv0", 0]}


@root
@pytest.mark.parametrize(("kind", "image"), [("btrfs", btrfs), ("ntfs", ntfs)])
def test_a_file_system_without_a_reader_is_named(
    node: OneNode, tmp_path: Path, kind: str, image: Callable[[], bytes]
) -> None:
    path = tmp_path / "image"
    path.write_bytes(image())
    path.chmod(0o644)
    (found,) = node.run(volumes.file_systems(node.state.world, 0, str(path)))
    assert (found.kind, found.readable) == (kind, False)


@pytest.mark.parametrize(
    "segment",
    [
        ROW | {"stripe_count": 2, "stripes": ["pv0", 0, "pv1", 0]},
        ROW | {"stripe_count": 2, "stripes": ["pv0", 0, "pv0", 9]},
        ROW | {"type": "thin"},
        ROW | {"type": "mirror"},
        ROW | {"type": "raid1"},
        ROW | {"type": "cache"},
        ROW | {"stripes": ["pv1", 0]},
    ],
    ids=["striped", "striped on one disk", "thin", "mirror", "raid1", "cached", "on another disk"],
)
def test_a_volume_that_is_no_row_of_extents_has_no_pieces(segment: dict[str, Any]) -> None:
    def pieces(*segments: dict[str, Any]) -> Any:
        volume = {f"segment{number}": each for number, each in enumerate(segments, 1)}
        return lvm_program._pieces(volume | {"segment_count": len(segments)}, {"pv0": 1024}, 512)

    assert pieces(ROW) == [[1024, 2048]]
    assert pieces(segment) is None
    assert pieces(ROW, segment | {"start_extent": 4}) is None, "nor has one that is so in part"
