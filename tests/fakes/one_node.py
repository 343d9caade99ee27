# SPDX-License-Identifier: BSD-2-Clause
"""A node of the test's own: everything below a directory that goes with the test."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import ganeti.node.actions
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.model.node_requests import DiskSpec, InstanceSpec
from ganeti.node.actions.registry import REGISTRY
from ganeti.node.state import NodeState
from ganeti.noded.world import RealNodeWorld

import_all(ganeti.node.actions)


class OneNode:
    """Calls as the daemon makes them: arguments decoded, handler run."""

    def __init__(self, root: Path, name: str = "node1") -> None:
        self.paths = Paths(str(root))
        self.logged: list[str] = []
        self.aborted: list[tuple[int, int]] = []
        self.stopped = False
        world = RealNodeWorld(self.paths, name)
        world.log = self.logged.append  # type: ignore[method-assign]
        self.state = NodeState(world, self, self)
        for directory in (self.paths.data_dir, self.paths.sysconf_dir, self.paths.under("/srv/disks")):
            Path(directory).mkdir(parents=True, exist_ok=True)
        Path(self.paths.file_storage_paths_file).write_text("/srv/disks\n")

    async def abort(self, job: int, attempt: int) -> int:
        self.aborted.append((job, attempt))
        return 2

    def stop_after_answer(self) -> None:
        self.stopped = True

    def call(self, name: str, /, **arguments: Any) -> Any:
        return asyncio.run(self.make_call(name, **arguments))

    async def make_call(self, name: str, /, **arguments: Any) -> Any:
        declared = REGISTRY[name]
        return await declared.run(self.state, declared.decode(arguments))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    def program(self, path: str, text: str, *, mode: int = 0o755) -> Path:
        """Write a shell script at a path below the root."""
        place = Path(self.paths.under(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(mode)
        return place

    def definition(self, name: str = "test", *, versions: str = "20", **scripts: str) -> Path:
        """Make a whole OS definition; *scripts* replace what its scripts do."""
        directory = f"/srv/ganeti/os/{name}"
        for script in ("create", "import", "export", "rename", "verify"):
            self.program(f"{directory}/{script}", scripts.get(script, ""))
        place = Path(self.paths.under(directory))
        (place / "ganeti_api_version").write_text(versions.replace(" ", "\n") + "\n")
        return place


def disk_spec(template: str = "sharedfile", index: int = 0, **changes: Any) -> DiskSpec:
    path = f"/srv/disks/web1/d{index}.file.disk{index}"
    values = {"uuid": f"d{index}", "template": template, "logical_id": ["loop", path], "size_mib": 1, "index": index}
    return DiskSpec(**{**values, **changes})


def instance_spec(**changes: Any) -> InstanceSpec:
    values: dict[str, Any] = {
        "name": "web1",
        "uuid": "i1",
        "hypervisor": "fake",
        "os": "test",
        "primary_node": "node1",
        "primary_node_uuid": "n1",
        "hvparams": {},
        "beparams": {"maxmem": 128, "minmem": 128, "vcpus": 1},
    }
    return InstanceSpec(**{**values, **changes})
