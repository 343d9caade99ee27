# SPDX-License-Identifier: BSD-2-Clause
"""Calls of LUXI about jobs, as a client of Ganeti's reads their answers."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ganeti.base.paths import Paths
from ganeti.luxid.queue_calls import QueueCalls
from ganeti.master.queue.submission import new_job
from ganeti.ports.luxid import CancelUnbegun


def calls_about_an_ended_job(root: Path) -> QueueCalls:
    job = new_job(7, [{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}], 5.0)
    queue: Any = SimpleNamespace(job=lambda _: job, machine=SimpleNamespace(jobs={}))
    return QueueCalls(Paths(str(root)), queue)


def test_of_several_jobs_those_that_have_not_begun_are_canceled_the_newest_first(tmp_path: Path) -> None:
    told: list[int] = []
    statuses = {1: "success", 2: "running", 3: "waiting", 4: "queued", 5: "queued"}

    async def cancel(job_id: int, kill: bool) -> tuple[bool, str]:
        told.append(job_id)
        return job_id != 4, ""

    queue: Any = SimpleNamespace(cancel=cancel, machine=SimpleNamespace(status_of=statuses.get))
    calls = QueueCalls(Paths(str(tmp_path)), queue)
    assert asyncio.run(calls.cancel_unbegun(CancelUnbegun([1, 2, 3, 4, 5, 6]))) == [3, 5]
    assert told == [5, 4, 3]


def test_a_job_without_news_has_an_empty_log(tmp_path: Path) -> None:
    calls = calls_about_an_ended_job(tmp_path)
    assert asyncio.run(calls.wait_for_job_change(7, ["id"], None, -1, 1.0)) == [[7], []]
