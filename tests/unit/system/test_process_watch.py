# SPDX-License-Identifier: BSD-2-Clause
"""The end of a process is told, once, whatever goes wrong; signals reach the process that is meant."""

import asyncio
import errno
import os
import signal
import subprocess
import sys

import pytest

from ganeti.system import process_watch
from ganeti.system.process_watch import ProcessWatches

WITHIN_S = 10.0


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def watch(pid, act):
    """Watch a process as job 7; gives what *act* gives, once its end was told."""

    async def go():
        ended = asyncio.get_running_loop().create_future()
        watches = ProcessWatches(ended.set_result)
        watches.add(7, pid, None)
        try:
            answer = act(watches)
            async with asyncio.timeout(WITHIN_S):
                assert await ended == 7
            assert 7 not in watches and not watches.send(7, signal.SIGKILL)
            return answer
        finally:
            watches.close()

    return asyncio.run(go())


def test_a_signal_ends_it_and_the_end_is_told(sleeper):
    assert watch(sleeper.pid, lambda watches: watches.send(7, signal.SIGKILL))
    assert sleeper.wait(WITHIN_S) == -signal.SIGKILL


def test_one_that_is_gone_is_told_of_at_once_and_gets_no_signal(sleeper):
    sleeper.kill()
    sleeper.wait()
    assert not watch(sleeper.pid, lambda watches: watches.send(7, signal.SIGTERM))


def test_without_a_free_descriptor_it_is_tried_again(sleeper, monkeypatch):
    opened, refusals = os.pidfd_open, [errno.EMFILE]

    def open_later(pid):
        if refusals:
            raise OSError(refusals.pop(), "Too many open files")
        sleeper.kill()
        return opened(pid)

    monkeypatch.setattr(process_watch.os, "pidfd_open", open_later)
    monkeypatch.setattr(process_watch, "_AGAIN_S", 0.01)
    watch(sleeper.pid, lambda watches: None)
    assert not refusals and sleeper.wait(WITHIN_S) == -signal.SIGKILL
