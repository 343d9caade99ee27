# SPDX-License-Identifier: BSD-2-Clause
"""Commits of daemons: no life is mistaken for an earlier one, whatever the clock says."""

import asyncio

import pytest
from tests.fakes.wconfd import TagCluster, fast_directory, running_wconfd

from ganeti.base.errors import LockError, PrerequisiteError
from ganeti.calls import daemon_commits
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.system.livelock import LiveLock


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path


@pytest.fixture
def clock(monkeypatch):
    """Gives what the clock shows at each asking; the last time stays."""
    times = [1000]
    monkeypatch.setattr(daemon_commits.time, "time_ns", lambda: times.pop(0) if len(times) > 1 else times[0])
    return times


def run(scenario, root):
    async def go():
        async with running_wconfd(root) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


def life(daemon, name):
    """A daemon that has just started, with its lock file."""
    lock = LiveLock(f"{daemon.paths.livelock_dir}/{name}")
    daemon.locks.append(lock)
    return DaemonCommits(daemon.client, lock.path), lock


async def tag(commits, name):
    return (await commits.commit(TagCluster(tag=name))).result


def test_every_commit_is_a_step_of_its_own(root, clock):
    async def scenario(daemon):
        commits, _ = life(daemon, "luxi_1")
        assert [await tag(commits, name) for name in ("a", "b", "c")] == [2, 3, 4]
        assert await asyncio.gather(*(tag(commits, name) for name in ("d", "e"))) == [5, 6]
        assert await daemon.client.last_step(0) == (1000, 1)

    run(scenario, root)


def test_a_refusal_changes_nothing_and_the_next_commit_goes_on(root, clock):
    async def scenario(daemon):
        commits, _ = life(daemon, "luxi_1")
        with pytest.raises(PrerequisiteError, match="there already"):
            await tag(commits, "prod")
        assert await daemon.client.last_step(0) is None
        assert await tag(commits, "a") == 2
        assert await daemon.client.last_step(0) == (1000, 2)

    run(scenario, root)


@pytest.mark.parametrize("later", [1000, 500, 2000])
def test_a_new_life_gets_answers_of_its_own_whatever_the_clock_says(root, clock, later):
    async def scenario(daemon):
        first, lock = life(daemon, "luxi_1")
        assert await tag(first, "a") == 2
        lock.close()
        clock[:] = [later]
        second, _ = life(daemon, "luxi_2")
        assert [await tag(second, "b"), await tag(second, "c")] == [3, 4]

    run(scenario, root)


def test_two_daemons_commit_side_by_side(root, clock):
    async def scenario(daemon):
        clock[:] = [2000, 1000]
        one, _ = life(daemon, "luxi_1")
        other, _ = life(daemon, "maintd_1")
        found = [await tag(commits, name) for commits, name in ((one, "a"), (other, "b"), (one, "c"), (other, "d"))]
        assert found == [2, 3, 4, 5]

    run(scenario, root)


def test_the_dead_commit_nothing(root, clock):
    async def scenario(daemon):
        commits, lock = life(daemon, "luxi_1")
        lock.close()
        with pytest.raises(LockError, match="lock file"):
            await tag(commits, "a")
        assert await daemon.client.position() == (1, 42)

    run(scenario, root)
