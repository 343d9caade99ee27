# SPDX-License-Identifier: BSD-2-Clause
"""kill -9 of the real configuration daemon at every point of a commit: nothing is lost, nothing is done twice."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fakes.wconfd import TagCluster, fast_directory, prepare

from ganeti.base.paths import Paths
from ganeti.calls.wconfd_client import Committed, JobOwner, WConfdClient
from ganeti.system.livelock import LiveLock, job_lock_path

TREE = Path(__file__).resolve().parents[2]
PROGRAM = "import sys, tests.fakes.wconfd\nfrom ganeti.daemons.wconfd import main\nsys.exit(main(sys.argv[1:]))"
POINTS = ["commit-staged", "commit-durable", "commit-told", "publish-writing", "publish-patched", "publish-replaced"]
PATCHING = "publish-patching"
"""Reached by the third publication: the first two write the two files that then take turns."""
DEADLINE_S = 30.0
LOCK = [("node/a", "exclusive")]


@contextmanager
def daemon(root: Path, pause_at: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The daemon in the foreground, stopping itself at *pause_at*; killed in the end."""
    environment = {
        **os.environ,
        "GANETI_ROOTDIR": str(root),
        "GANETI_HOSTNAME": "node1.example.com",
        "PYTHONPATH": str(TREE),
    }
    if pause_at:
        environment["GANETI_PAUSE_AT"] = pause_at
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "-f", "--no-voting", "--yes-do-it"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def until_stopped(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() < deadline, "the daemon never reached the point"
        await asyncio.sleep(0.005)  # nobody tells of a stopped process


def published_tags(paths: Paths) -> list[str]:
    return json.loads(Path(paths.config_file).read_bytes())["cluster"]["tags"]


@pytest.mark.daemons
@pytest.mark.parametrize("point", [*POINTS, PATCHING])
def test_killed_at(point):
    earlier = ["first", "second"] if point == PATCHING else []
    with fast_directory() as root:
        paths = prepare(root)
        lock = LiveLock(job_lock_path(paths.livelock_dir, 1, 1))
        owner = JobOwner(1, lock.path, 1, os.getpid())
        client = WConfdClient(paths.wconfd_socket, patience_s=DEADLINE_S)

        async def go() -> tuple[Committed, dict[str, str]]:
            with daemon(root) as first:
                await client.try_locks(owner.for_locks, LOCK)
                assert (await client.commit(owner, 1, TagCluster(tag="acknowledged"), True)).result == 2
                await client.wait_published(await client.position())
                first.kill()
            with daemon(root, pause_at=point) as second:
                for step, tag in enumerate(earlier, 2):
                    await client.wait_published((await client.commit(owner, step, TagCluster(tag=tag), True)).position)
                last = 2 + len(earlier)
                commit = asyncio.ensure_future(client.commit(owner, last, TagCluster(tag="in-flight"), True))
                await until_stopped(second)
                second.kill()
                second.wait()
                assert published_tags(paths)[:2] == ["prod", "acknowledged"], (
                    "whatever was being done, the file is whole"
                )
                with daemon(root):
                    answer = await commit
                    repeated = await client.commit(owner, last, TagCluster(tag="in-flight"), True)
                    assert repeated == answer
                    assert await client.last_step(1) == (1, last)
                    await client.wait_published(answer.position)
                    locks = await client.list_locks(owner.for_locks)
                    await client.close()
                    return answer, locks

        answer, locks = asyncio.run(go())
        lock.close()
        assert answer.result == 3 + len(earlier)
        assert published_tags(paths) == ["prod", "acknowledged", *earlier, "in-flight"]
        assert locks == dict(LOCK)
        log = Path(f"{paths.log_dir}/wconf-daemon.log").read_text()
        assert log.count("is imported as") == 1, "only the first start found a file that is not ours"
