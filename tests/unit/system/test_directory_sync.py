# SPDX-License-Identifier: BSD-2-Clause
"""Whoever waits is covered by a sync that began after they came; many share one."""

import asyncio
import threading

import pytest

from ganeti.system.directory_sync import DirectorySync
from ganeti.system.event_loop import Background


def test_those_who_come_during_a_sync_share_the_next_one():
    begun: list[int] = []
    may_end = threading.Semaphore(0)

    def sync(directory: str) -> None:
        begun.append(len(begun))
        may_end.acquire()

    async def story() -> None:
        tasks = Background()
        syncs = DirectorySync("/queue", tasks, sync)
        first = asyncio.ensure_future(syncs.wait())
        while not begun:  # noqa: ASYNC110 - a thread has no event for us
            await asyncio.sleep(0)
        others = [asyncio.ensure_future(syncs.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        may_end.release()
        await first
        assert not any(other.done() for other in others), "they came after that sync had begun"
        may_end.release()
        await asyncio.gather(*others)
        assert begun == [0, 1]
        await tasks.cancel()

    asyncio.run(story())


def test_a_failure_is_told_to_those_it_concerns_and_the_next_is_tried():
    failures = [OSError(5, "Input/output error"), None]

    def sync(directory: str) -> None:
        failure = failures.pop(0)
        if failure is not None:
            raise failure

    async def story() -> None:
        tasks = Background()
        syncs = DirectorySync("/queue", tasks, sync)
        with pytest.raises(OSError, match="Input/output"):
            await syncs.wait()
        await syncs.wait()
        await tasks.cancel()

    asyncio.run(story())
