# SPDX-License-Identifier: BSD-2-Clause
"""A volume group of a test's own on loop devices, with the real tools of LVM 2 (`tests/fakes/lvm/tool.py`)."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ganeti.noded.world import RealNodeWorld
from ganeti.ports.node_world import Completed

TOOLS = (
    *("lvchange", "lvconvert", "lvcreate", "lvextend", "lvremove", "lvrename", "lvs"),
    *("pvchange", "pvs", "vgcreate", "vgreduce", "vgs"),
)
TOOL = Path(__file__).parent / "lvm/tool.py"


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
        self.tools, self.dev, self.name = directory / "tools", dev, name
        self.tools.mkdir(parents=True)
        self.on_host = on_host()
        self.devices = [self._device(directory / f"pv{number}", size_mib) for number in range(physical)]
        if self.on_host:
            dev.mkdir(parents=True, exist_ok=True)
            (dev / "xenvg").symlink_to(f"/dev/{name}")
        else:
            self._stand_in()
        self.run("vgcreate", "-s", "1m", self.name, *self.devices)

    def _stand_in(self) -> None:
        settings = {"lvm": lvm_program(), "devices": self.devices, "dev": str(self.dev)}
        settings["library"] = os.environ.get("GANETI_LVM_LIBRARIES", "")
        (self.tools / "settings.json").write_text(json.dumps(settings))
        (self.tools / "locks").mkdir()
        shutil.copy(TOOL, self.tools / "tool.py")
        for tool in TOOLS:
            (self.tools / tool).symlink_to("tool.py")

    def run(self, tool: str, *words: str) -> str:
        program = tool if self.on_host else str(self.tools / tool)
        return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout

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
    """A node whose tools lie in a directory of the test."""

    tools: Path

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if (self.tools / argv[0]).exists():
            argv = [str(self.tools / argv[0]), *argv[1:]]
        return await super().run(argv, **options)
