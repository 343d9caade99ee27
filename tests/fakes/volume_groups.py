# SPDX-License-Identifier: BSD-2-Clause
"""A volume group of a test's own on loop devices, with the real tools of LVM 2 (`tests/fakes/logical_volumes.py`)."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fakes.logical_volumes import TOOLS, StandIn

from ganeti.base.errors import CommandError
from ganeti.noded.world import RealNodeWorld
from ganeti.ports.node_world import Completed


def lvm_program() -> str | None:
    """The real one; ``GANETI_LVM`` names one that is not installed."""
    return os.environ.get("GANETI_LVM") or shutil.which("lvm", path="/usr/sbin:/sbin:/usr/bin")


def why_not() -> str:
    """Why no volume group can be made here; empty where one can."""
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        return "volume groups of tests lie on loop devices"
    if not lvm_program():
        return "the package lvm2 is missing"
    if on_host() and subprocess.run(["vgs", "xenvg"], capture_output=True, check=False).returncode == 0:
        return "this machine has a volume group xenvg of its own"
    return ""


def on_host() -> bool:
    """Whether volumes are made by the kernel of this machine (``make test-host``), without a stand-in."""
    return bool(os.environ.get("GANETI_TEST_HOST")) and os.path.exists("/dev/mapper/control")


class VolumeGroup:
    """The group xenvg on some physical volumes, with extents of 1 MiB.

    The kernel of the machine knows it by *name*, where no stand-in makes the volumes.
    """

    def __init__(
        self, directory: Path, dev: Path, *, physical: int = 2, size_mib: int = 33, name: str = "xenvg"
    ) -> None:
        self.dev, self.name, self.on_host = dev, name, on_host()
        directory.mkdir(parents=True)
        self.devices = [self._device(directory / f"pv{number}", size_mib) for number in range(physical)]
        self.tools: StandIn | None = None
        if self.on_host:
            dev.mkdir(parents=True, exist_ok=True)
            (dev / "xenvg").symlink_to(f"/dev/{name}")
        else:
            self.tools = StandIn(lvm_program() or "lvm", directory, self.devices, dev)
        self.run("vgcreate", "-s", "1m", self.name, *self.devices)

    def run(self, tool: str, *words: str) -> str:
        if self.tools is None:
            return subprocess.run([tool, *words], check=True, capture_output=True, text=True).stdout
        status, said, errors = self.tools.call(tool, list(words))
        assert status == 0, f"{tool} {' '.join(words)} ended with status {status}: {errors}"
        return said

    def volumes(self) -> list[str]:
        return sorted(self.run("lvs", "--noheadings", "-o", "lv_name", self.name).split())

    def close(self) -> None:
        if self.on_host:
            self.run("vgremove", "--force", "--yes", self.name)
        for link in () if self.on_host else self.dev.glob("xenvg/*"):
            subprocess.run(["losetup", "-d", os.readlink(link)], check=False)
        for device in self.devices:
            subprocess.run(["losetup", "-d", device], check=False)

    def _device(self, path: Path, size_mib: int) -> str:
        with path.open("wb") as file:
            file.truncate(size_mib * 2**20)
        words = ["losetup", "-f", "--show", str(path)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class ToolWorld(RealNodeWorld):
    """A node whose tools of LVM are those of a volume group; None are the machine's own."""

    tools: StandIn | None

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if self.tools is None or argv[0] not in TOOLS:
            return await super().run(argv, **options)
        status, said, errors = self.tools.call(argv[0], list(argv[1:]))
        if status and options.get("check", True):
            raise CommandError(f"{argv[0]} ended with status {status}: {' '.join((said + errors).split())}")
        return Completed(tuple(argv), status, said, errors)
