# SPDX-License-Identifier: BSD-2-Clause
"""Nodes with a volume group each, and a stand-in for DRBD between them (`tests/fakes/drbd/tool.py`)."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.fakes.volume_groups import ToolWorld, VolumeGroup

from ganeti.base.errors import CommandError
from ganeti.base.paths import Paths
from ganeti.model.node_requests import DiskSpec
from ganeti.model.templates import PAIRED, UNSHARED
from ganeti.ports.node_world import Completed

TOOL = Path(__file__).parent / "drbd/tool.py"
TOOLS = ("drbdsetup", "drbdmeta", "drbdadm")
NINE, EIGHT = "9.1.7", "8.4.11"
ADDRESSES = {"node1": "192.0.2.1", "node2": "192.0.2.2", "node3": "192.0.2.3"}
UUIDS = {name: f"uuid-of-{name}" for name in ADDRESSES}


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("drbd_stand_in", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STAND_IN = _module()


class ReplicatedWorld(ToolWorld):
    """A node whose kernel goes on while other programs run."""

    settings: dict[str, Any]
    commands: list[list[str]]

    elapsed_s = 0.0

    def now_s(self) -> float:
        return self.elapsed_s

    async def sleep(self, seconds: float) -> None:
        self.elapsed_s += seconds

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        self.commands.append(list(argv))
        if argv[0] in TOOLS:
            status, said = STAND_IN.call(self.settings, argv[0], list(argv[1:]))
            if status:
                raise CommandError(f"{argv[0]} ended with status {status}: {said.strip()}")
            return Completed(tuple(argv), status, said, "")
        module = STAND_IN.Module(self.settings)
        with module.opened():
            module.advance()
        return await super().run(argv, **options)


class ReplicatedNodes:
    """Some nodes, each below a directory of its own."""

    def __init__(
        self, root: Path, version: str, names: Sequence[str] = ("node1", "node2"), size_mib: int = 300
    ) -> None:
        self.root, self.version = root, version
        self.groups: dict[str, VolumeGroup] = {}
        self.logged: list[str] = []
        self.commands: dict[str, list[list[str]]] = {name: [] for name in names}
        for name in names:
            paths = self.paths(name)
            dev = Path(paths.under("/dev"))
            dev.mkdir(parents=True)
            Path(paths.sysconf_dir).mkdir(parents=True)
            self.groups[name] = VolumeGroup(root / name / "lvm", dev, physical=1, size_mib=size_mib)
            with STAND_IN.Module(self.settings(name)).opened():
                pass

    def paths(self, name: str) -> Paths:
        return Paths(str(self.root / name / "root"))

    def settings(self, name: str) -> dict[str, Any]:
        paths = self.paths(name)
        return {
            "node": name,
            "version": self.version,
            "states": str(self.root / "states.json"),
            "dev": paths.under("/dev"),
            "proc": paths.under("/proc/drbd"),
            "options": str(TOOL.with_name("options.json")),
        }

    def world(self, name: str) -> ReplicatedWorld:
        world = ReplicatedWorld(self.paths(name), name)
        world.tools = self.groups[name].tools if name in self.groups else None
        world.settings, world.commands = self.settings(name), self.commands.setdefault(name, [])
        world.log = self.logged.append  # type: ignore[method-assign]
        return world

    def restart(self, name: str) -> None:
        """A node loses its power, and has it again."""
        off = self.root / f"off-{name}"
        off.touch()
        other = next(each for each in self.groups if each != name)
        with STAND_IN.Module(self.settings(other)).opened():
            off.unlink()
        with STAND_IN.Module(self.settings(name)).opened():
            pass  # its /proc/drbd no longer shows what the kernel had before

    def close(self) -> None:
        for group in self.groups.values():
            group.close()


def disk(index: int = 0, size_mib: int = 4, nodes: tuple[str, str] = ("node1", "node2"), **changes: Any) -> DiskSpec:
    parts = [("data", size_mib), ("meta", 128)]
    children = [
        DiskSpec(
            uuid=f"{part}-{index}",
            template=UNSHARED,
            logical_id=["xenvg", f"uuid-{index}.disk{index}_{part}"],
            size_mib=size,
            index=index,
        )
        for part, size in parts
    ]
    values: dict[str, Any] = {
        "uuid": f"uuid-{index}",
        "template": PAIRED,
        "logical_id": [*(UUIDS[node] for node in nodes), 11000 + index, index, index + 10, "secret"],
        "size_mib": size_mib,
        "index": index,
        "children": children,
        "copies": {node: ADDRESSES[node] for node in nodes},
        "holders": {UUIDS[node]: node for node in nodes},
        "primary": nodes[0],
    }
    return DiskSpec(**values | changes)
