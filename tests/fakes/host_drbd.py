# SPDX-License-Identifier: BSD-2-Clause
"""Two nodes on one machine whose kernel has DRBD (``make test-host``): both ends of each device are here.

Each node has a volume group on loop devices and an address of the loopback interface. The second node's group has
another name, since device names are the kernel's: its tools are told that one, and what they print is told back.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fakes import volume_groups
from tests.fakes.volume_groups import ToolWorld, VolumeGroup

from ganeti.base.paths import Paths
from ganeti.ports.node_world import Completed

FIRST_MINOR = 200
"""Of the tests: lower ones may be the machine's own."""
ADDRESSES = {"node1": "127.0.0.1", "node2": "127.0.0.2"}
GROUP, OTHER_GROUP = "xenvg", "xenvg_node2"


def why_not() -> str:
    """Why the kernel's own DRBD cannot be tried here; empty where it can."""
    if not volume_groups.on_host():
        return "DRBD lies on volumes of the kernel's device mapper, which this machine does not have"
    if shutil.which("drbdsetup") is None:
        return "the package drbd-utils is missing"
    if not os.path.exists("/proc/drbd") and (modprobe := shutil.which("modprobe", path="/usr/sbin:/sbin")):
        subprocess.run([modprobe, "drbd"], capture_output=True, check=False)
    if not os.path.exists("/proc/drbd"):
        return "the kernel module drbd cannot be loaded (modprobe drbd)"
    return ""


class HostWorld(ToolWorld):
    """One of the two nodes."""

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if self.node_name == "node1":
            return await super().run(argv, **options)
        done = await super().run([_there(word) for word in argv], **options)
        return Completed(tuple(argv), done.status, _back(done.stdout), _back(done.stderr))

    def now_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _there(word: str) -> str:
    return (
        OTHER_GROUP
        if word == GROUP
        else word.replace(f"{GROUP}/", f"{OTHER_GROUP}/").replace(f"={GROUP}", f"={OTHER_GROUP}")
    )


def _back(text: str) -> str:
    return text.replace(OTHER_GROUP, GROUP)


class HostNodes:
    """As `replicated_nodes.ReplicatedNodes`, without a stand-in."""

    def __init__(self, root: Path, size_mib: int = 300) -> None:
        self.root = root
        self.logged: list[str] = []
        self.groups = {
            name: VolumeGroup(root / name / "lvm", self._dev(name), physical=1, size_mib=size_mib, name=group)
            for name, group in (("node1", GROUP), ("node2", OTHER_GROUP))
        }
        for name in self.groups:
            Path(self.paths(name).sysconf_dir).mkdir(parents=True)
            for minor in range(FIRST_MINOR, FIRST_MINOR + 20):
                (self._dev(name) / f"drbd{minor}").symlink_to(f"/dev/drbd{minor}")

    def paths(self, name: str) -> Paths:
        return Paths(str(self.root / name / "root"))

    def _dev(self, name: str) -> Path:
        found = Path(self.paths(name).under("/dev"))
        found.mkdir(parents=True, exist_ok=True)
        return found

    def world(self, name: str) -> HostWorld:
        world = HostWorld(self.paths(name), name)
        world.tools = self.groups[name].tools
        world.log = self.logged.append  # type: ignore[method-assign]
        if not (proc := Path(world.paths.under("/proc"))).exists():
            proc.symlink_to("/proc")
        return world

    def restart(self, name: str) -> None:
        """What a loss of power leaves of a node's devices: none."""
        first = FIRST_MINOR + (0 if name == "node1" else 10)
        for minor in range(first, first + 10):
            for words in (["secondary", "--force"], ["down"]):
                subprocess.run(
                    ["drbdsetup", words[0], f"resource{minor}", *words[1:]], capture_output=True, check=False
                )

    def close(self) -> None:
        for name, group in self.groups.items():
            self.restart(name)
            with contextlib.suppress(subprocess.CalledProcessError):
                group.close()
