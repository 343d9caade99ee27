# SPDX-License-Identifier: BSD-2-Clause
"""A whole WConfD on the test's own event loop and in its own directory, with changes to send it."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ganeti.base.errors import PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.calls.wconfd_client import JobOwner, WConfdClient
from ganeti.model.configuration import Draft
from ganeti.model.objects import Disk
from ganeti.ports.config import Change
from ganeti.ports.nodes import NodesPort
from ganeti.system.livelock import LiveLock, job_lock_path
from ganeti.wconfd.service import Service
from ganeti.wconfd.start import make_directories, open_configuration

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "config" / "config-3.1.json"


class TagCluster(Change, frozen=True, kw_only=True):
    """Add a tag to the cluster; the answer is how many there are. Not repeatable on purpose."""

    tag: str

    def apply(self, draft: Draft) -> int:
        if self.tag in draft.cluster.tags:
            raise PrerequisiteError(f"Tag {self.tag} is there already")
        cluster = replace(draft.cluster, tags=[*draft.cluster.tags, self.tag])
        draft.put("cluster", cluster)
        return len(cluster.tags)


class AddDisk(Change, frozen=True, kw_only=True):
    """Put a disk; the answer is the disk."""

    disk: Disk

    def apply(self, draft: Draft) -> Disk:
        draft.put("disks", self.disk)
        return draft.disk(self.disk.uuid)


class FailByFault(Change, frozen=True, kw_only=True):
    """A change with a mistake in it."""

    def apply(self, draft: Draft) -> None:
        draft.put("cluster", replace(draft.cluster, tags=["half"]))
        raise ZeroDivisionError("a mistake")


class AnswerNonsense(Change, frozen=True, kw_only=True):
    """A change whose answer cannot be sent."""

    def apply(self, draft: Draft) -> object:
        draft.put("cluster", replace(draft.cluster, tags=["half"]))
        return object()


@dataclass
class Running:
    """A daemon, a client of it, and live jobs to act for."""

    paths: Paths
    service: Service
    client: WConfdClient
    locks: list[LiveLock] = field(default_factory=list)

    def job(self, job_id: int, attempt: int = 1) -> JobOwner:
        """A job whose lock file is held by this process."""
        path = job_lock_path(self.paths.livelock_dir, job_id, attempt)
        self.locks.append(LiveLock(path))
        return JobOwner(job_id, path, attempt, os.getpid())

    def die(self, owner: JobOwner) -> None:
        """What a killed process leaves: its lock file, unlocked."""
        for lock in self.locks:
            if lock.path == owner.lock_file:
                lock.close()

    def undo_records(self, job_id: int, text: str = "{}\n") -> Path:
        path = Path(self.paths.queue_dir) / f"job-{job_id}.undo"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@contextmanager
def fast_directory() -> Iterator[Path]:
    """A directory in memory where there is one: these tests sync a lot and are not about disks."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="ganeti-test-", dir=parent) as path:
        yield Path(path)


async def until(condition: Callable[[], Awaitable[bool] | bool], deadline_s: float = 5.0) -> None:
    """Wait for something that tells nobody when it happens."""
    async with asyncio.timeout(deadline_s):
        while True:
            held = condition()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.001)


def prepare(root: Path, *, fresh: bool = True) -> Paths:
    """A node's directories; if *fresh* and empty, with the golden configuration, as after an upgrade from 3.1."""
    paths = Paths(str(root))
    make_directories(paths)
    if fresh and not os.path.exists(paths.config_file):
        Path(paths.config_file).write_bytes(GOLDEN.read_bytes())
    return paths


@asynccontextmanager
async def running_wconfd(
    root: Path, nodes: NodesPort | None = None, patience_s: float = 5.0, *, fresh: bool = True, **more: Any
) -> AsyncIterator[Running]:
    """Start on what lies below *root*, or on the golden configuration; *more* is for the service."""
    paths = prepare(root, fresh=fresh)
    opened = open_configuration(paths)
    opened.accept()
    service = Service(paths, opened, nodes, **more)
    await service.start()
    running = Running(paths, service, WConfdClient(paths.wconfd_socket, patience_s))
    try:
        yield running
    finally:
        await running.client.close()
        await service.stop()
        for lock in running.locks:
            lock.close()
