# SPDX-License-Identifier: BSD-2-Clause
"""Jobs on real daemons that are handed back since their locks are taken: they go on later, whatever dies meanwhile."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.master_daemons import NODE_UUID, Master, children_of, running_master

from ganeti.wire.job_file import JobFile

pytestmark = pytest.mark.daemons
WANTED = [("cluster/BGL", "shared"), (f"node/{NODE_UUID}", "exclusive")]


def delay(seconds: float, **more: Any) -> dict[str, Any]:
    return {"OP_ID": "OP_TEST_DELAY", "duration": seconds, **more}


WITH_LOCK = {"no_locks": False, "on_nodes": [NODE_UUID]}
"""There is no node daemon: the opcode fails once it has its lock and has slept."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    with running_master(tmp_path / "cluster") as running:
        yield running


def submit_behind_a_holder(master: Master) -> tuple[int, int]:
    """Give a job that holds a lock, and one whose second opcode wants it."""
    holder = master.submit(delay(30, **WITH_LOCK))
    master.until(lambda: master.file(holder).status == "running", "the holder runs")
    return holder, master.submit(delay(0), delay(0, **WITH_LOCK))


def handed_back(master: Master, job_id: int) -> JobFile:
    master.until(lambda: master.file(job_id).wants, "the job is handed back")
    return master.file(job_id)


def went_on(master: Master, job_id: int) -> JobFile:
    """Wait for the end; the second opcode has had its lock, in another process, and nothing has counted as a death."""
    file = master.wait(job_id)
    assert file.ops[0].status == "success" and file.ops[1].exec_timestamp is not None, file.ops[1].result
    assert (file.attempt, file.deaths, file.wants) == (2, 0, None)
    return file


@pytest.mark.requirement("S1.81", "S1.90", "S2.6")
def test_a_job_is_handed_back_and_goes_on_when_its_lock_is_free(master: Master) -> None:
    holder, job_id = submit_behind_a_holder(master)
    file = handed_back(master, job_id)
    assert (file.status, file.wants) == ("queued", WANTED)
    assert [op.status for op in file.ops] == ["success", "queued"]
    master.luxi("CancelJob", holder, True)
    went_on(master, job_id)


def test_a_job_that_was_handed_back_is_cancelled(master: Master) -> None:
    _, job_id = submit_behind_a_holder(master)
    handed_back(master, job_id)
    assert master.luxi("CancelJob", job_id, False)[0] is True
    file = master.wait(job_id)
    assert [op.status for op in file.ops] == ["success", "canceled"]


def test_luxid_dies_after_a_job_was_handed_back(master: Master) -> None:
    holder, job_id = submit_behind_a_holder(master)
    handed_back(master, job_id)
    master.kill("luxid")
    master.start("luxid")
    master.luxi("CancelJob", holder, True)
    went_on(master, job_id)


@pytest.mark.parametrize("place", ["job-before-hand-back", "job-after-hand-back"])
def test_a_process_dies_while_it_hands_its_job_back(master: Master, place: str) -> None:
    master.kill("luxid", signal.SIGTERM)
    master.start("luxid", GANETI_PAUSE_AT=place)
    holder, job_id = submit_behind_a_holder(master)
    os.kill(stopped_job(master), signal.SIGKILL)
    if place == "job-after-hand-back":
        handed_back(master, job_id)
        master.luxi("CancelJob", holder, True)
        went_on(master, job_id)
    else:
        assert master.wait(job_id).ops[1].exec_timestamp is None
        master.luxi("CancelJob", holder, True)
    master.wait(holder)
    master.until(lambda: not master.luxi("Query", "lock", ["name"], None)["data"], "all locks are free")


def stopped_job(master: Master) -> int:
    """Wait for a job process that has stopped itself; gives its process id."""

    def stopped() -> int:
        (spawner,) = children_of(master.daemons["luxid"].pid)
        return next((pid for pid in children_of(spawner) if _state(pid) == "T"), 0)

    pid: int = master.until(stopped, "a job stops")
    return pid


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
