# SPDX-License-Identifier: BSD-2-Clause
"""Disks shown as files by a real storage daemon: one that is killed leaves nothing that is in the way."""

import contextlib
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.fakes.one_node import OneNode

from ganeti.node.storage import shown

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse") or shutil.which(shown.PROGRAM) is None,
    reason="needs root, /dev/fuse and QEMU's storage daemon",
)


def test_a_daemon_that_is_killed_is_no_obstacle(tmp_path: Path) -> None:
    """Whether its disk is hidden or shown again next, at once, and while somebody has the file open."""
    node, image = OneNode(tmp_path), tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    world, disk = node.state.world, {"driver": "raw", "file": {"driver": "file", "filename": str(image)}}

    def kill(path: str) -> None:
        os.kill(int(Path(f"{path}.pid").read_text()), signal.SIGKILL)

    async def story() -> None:
        path = await shown.show(world, "d1", disk)
        held = os.open(path, os.O_RDONLY)
        try:
            kill(path)
            await shown.hide(world, "d1")
            assert os.listdir(os.path.dirname(path)) == []
            kill(await shown.show(world, "d1", disk))
            assert os.path.getsize(await shown.show(world, "d1", disk)) == 1 << 20
        finally:
            await shown.hide(world, "d1")
            with contextlib.suppress(OSError):
                os.close(held)
        assert os.listdir(os.path.dirname(path)) == []

    node.run(story())
