# SPDX-License-Identifier: BSD-2-Clause
"""The job that the spawner rehearses: it is carried out whole, stops nowhere, and nothing is left of it."""

import logging
import os
import tempfile
import threading
from pathlib import Path

import pytest

from ganeti.base.paths import Paths
from ganeti.job import rehearsal, world
from ganeti.master import operations
from ganeti.node.catalogue import build_catalogue
from ganeti.stores.job_files import JobFiles
from ganeti.system import pause_points
from ganeti.system.environment import Environment
from ganeti.wire.job_file import JobFile

HERE = Environment(Paths("/nonexistent"), "node1.example.com")
POINTS = ("job-locked", "job-greeted", "job-confirmed", "job-before-claim", "job-before-end", "job-after-end")


@pytest.fixture(autouse=True)
def spawner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    operations.load()
    monkeypatch.setattr(world, "_catalogue", build_catalogue())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def shown() -> tuple[bytes, bytes]:
    return Path("/proc/self/comm").read_bytes(), Path("/proc/self/cmdline").read_bytes()


def test_the_job_succeeds_each_time_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[JobFile | None] = []
    carry_out = rehearsal._carry_out

    def look(environment: Environment, attempt: int) -> None:
        carry_out(environment, attempt)
        ended.append(JobFiles(environment.paths).read(1))

    monkeypatch.setattr(rehearsal, "_carry_out", look)
    before = os.listdir("/proc/self/fd"), threading.active_count(), shown(), logging.getLogger().handlers[:]
    rehearsal.rehearse(HERE)
    after = os.listdir("/proc/self/fd"), threading.active_count(), shown(), logging.getLogger().handlers[:]
    assert after == before and not os.listdir(tmp_path) and not caplog.records
    assert [job.status for job in ended if job is not None] == ["success"] * len(ended) and len(ended) > 1


def test_no_pause_point_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANETI_PAUSE_AT", ",".join(POINTS))
    stopped: list[int] = []
    monkeypatch.setattr(pause_points.signal, "pthread_kill", lambda thread, number: stopped.append(number))
    rehearsal.rehearse(HERE)
    assert not stopped
    pause_points.reach(POINTS[0])
    assert len(stopped) == 1


def test_where_it_cannot_be_had_the_spawner_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    rehearsal.rehearse(HERE)
    assert "the rehearsal of one failed" in caplog.text
