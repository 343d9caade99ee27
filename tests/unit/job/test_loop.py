# SPDX-License-Identifier: BSD-2-Clause
"""The loop of job processes: no descriptor before its first wait, and awake for signals and threads from then on."""

import asyncio
import os
import signal
import threading

import pytest

from ganeti.job.loop import JobLoop

WITHIN_S = 10.0


@pytest.fixture
def loop():
    loop = JobLoop()
    yield loop
    loop.close()


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


async def use_everything_that_waits_for_nothing() -> int:
    asyncio.get_running_loop().call_later(60.0, print)
    await asyncio.sleep(0)
    return await asyncio.ensure_future(asyncio.sleep(0, 7))


def test_work_that_never_waits_opens_nothing():
    before = open_descriptors()
    loop = JobLoop()
    assert loop.run_until_complete(use_everything_that_waits_for_nothing()) == 7
    assert open_descriptors() == before
    loop.close()
    assert open_descriptors() == before


def test_a_loop_made_before_a_fork_waits_in_both_processes(loop):
    loop.run_until_complete(asyncio.sleep(0))
    child = os.fork()
    if child == 0:
        loop.run_until_complete(asyncio.wait_for(asyncio.to_thread(int), WITHIN_S))
        os._exit(0)
    loop.run_until_complete(asyncio.wait_for(asyncio.to_thread(int), WITHIN_S))
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_thread_wakes_it(loop, rounds):
    async def go() -> None:
        for _ in range(rounds):
            done = asyncio.get_running_loop().create_future()
            thread = threading.Thread(target=loop.call_soon_threadsafe, args=(done.set_result, None))
            thread.start()
            thread.join()
            await asyncio.wait_for(done, WITHIN_S)

    loop.run_until_complete(go())


@pytest.mark.parametrize("delay_s", [0.0, 0.05])
def test_a_signal_wakes_it(loop, delay_s):
    async def go() -> None:
        done = asyncio.get_running_loop().create_future()
        signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon_threadsafe(done.set_result, None))
        if delay_s:  # while it polls
            threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        else:  # before it does
            os.kill(os.getpid(), signal.SIGUSR1)
        await asyncio.wait_for(done, WITHIN_S)

    before = signal.getsignal(signal.SIGUSR1)
    try:
        loop.run_until_complete(go())
    finally:
        signal.signal(signal.SIGUSR1, before)
