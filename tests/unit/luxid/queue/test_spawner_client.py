# SPDX-License-Identifier: BSD-2-Clause
"""A spawner that cannot work is started again at ever longer intervals, and the log says that jobs wait for it."""

import asyncio
import logging
import sys

import pytest

from ganeti.luxid.queue import spawner_client
from ganeti.luxid.queue.spawner_client import SpawnerClient


def test_one_that_always_ends_is_told_and_started_less_often(
    tmp_path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(spawner_client, "_RESTART_PAUSE_S", 0.001)
    pauses: list[float] = []

    async def play() -> None:
        client = SpawnerClient()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def noting(pause_s, callback, *arguments):
            pauses.append(pause_s)
            if len(pauses) == 4:
                ended.set()
            return call_later(pause_s, callback, *arguments)

        monkeypatch.setattr(loop, "call_later", noting)
        client.launch()
        client.attach()
        await ended.wait()
        client.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(play(), 30))
    assert pauses == sorted(pauses) and pauses[3] == 4 * pauses[1]
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said and "no job can begin: its log, jobs.log, says why" in said[0]


def test_one_that_has_lived_is_started_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawner_client, "_LIVES_S", 0.0)
    monkeypatch.setattr(spawner_client, "_RESTART_PAUSE_S", 0.001)
    monkeypatch.setattr(sys, "executable", "/bin/false")

    async def play() -> int | None:
        client = SpawnerClient()
        came = asyncio.Event()
        client.launch()
        client.attach()
        client.came = came.set
        await came.wait()
        try:
            return client.pid
        finally:
            client.close()

    assert asyncio.run(asyncio.wait_for(play(), 30)) is not None
