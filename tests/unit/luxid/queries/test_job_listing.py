# SPDX-License-Identifier: BSD-2-Clause
"""Lists made in slices hold what a query made in one go holds, and let others have their turn."""

import asyncio
import json
from types import SimpleNamespace

import pytest
from tests.fakes.turns import turns_beside

from ganeti.base.paths import Paths
from ganeti.luxid.queries import slices
from ganeti.luxid.queries.job_listing import JobLists, JobSelection
from ganeti.master.query.filters import compile_filter
from ganeti.master.query.jobs import JOBS, JobRow
from ganeti.master.query.running import legacy_rows, run_query, selected
from ganeti.stores.job_files import JobFiles
from ganeti.wire.job_file import JobFile, OpcodeEntry

FIELDS = ["id", "status", "archived", "summary", "ops", "oplog", "end_ts", "no_such_field"]
COUNT = 40


def job(job_id: int, status: str) -> JobFile:
    opcode = {"OP_ID": "OP_TEST_DELAY", "duration": job_id, "some_secret": {"password": "open sesame"}}
    return JobFile(id=job_id, ops=[OpcodeEntry(input=opcode, status=status, log=[[1, [1, 2], "message", "ü"]])])


class Queue:
    """What a list needs of the queue: 1 to 40, of which 5 is live, 7 archived, 9 lost and 11 damaged."""

    def __init__(self, files: JobFiles) -> None:
        self.files = files
        self.live = job(5, "running")
        self.known = [number for number in range(1, COUNT + 1) if number != 7]
        self.machine = SimpleNamespace(
            jobs={5: SimpleNamespace(file=self.live)},
            status_of=lambda job_id: "known" if job_id in self.known else None,
        )

    def job_ids(self, *, archived: bool = False) -> list[int]:
        return list(self.known)


@pytest.fixture
def queue(tmp_path):
    files = JobFiles(Paths(str(tmp_path)))
    files.prepare()
    files.add([job(number, "error" if number % 3 == 0 else "success") for number in range(1, COUNT + 1) if number != 9])
    files.archive([7])
    with open(files.path(11), "w") as stream:
        stream.write("{")
    return Queue(files)


def listed(queue, wanted):
    return json.loads(b"".join(asyncio.run(JobLists(queue).rows(wanted)).parts))


def in_one_go(queue, ids, names, qfilter):
    """The rows as `run_query` makes them."""
    rows = []
    for job_id in ids:
        file = queue.live if job_id == 5 else None if job_id == 11 else queue.files.read(job_id)
        rows.append(JobRow(job_id, file, file is not None and job_id not in queue.known))

    async def collect(rows, fields):
        """Jobs have no live fields."""

    return asyncio.run(run_query(JOBS, rows, names, qfilter, collect))


@pytest.mark.parametrize(
    "qfilter", [None, ["=", "status", "error"], ["|", ["<", "id", 4], ["=", "status", "running"]], [">", "id", 1000]]
)
@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("slice_s", [0.0, 10.0])
def test_the_rows_are_those_of_a_query_in_one_go(queue, monkeypatch, qfilter, archived, slice_s):
    monkeypatch.setattr(slices, "_SLICE_S", slice_s)
    ids = [number for number in range(1, COUNT + 1) if number not in (9, 11) and (archived or number != 7)]
    _, expected = in_one_go(queue, ids, FIELDS, qfilter)
    predicate, _ = compile_filter(qfilter, JOBS.fields)
    got = listed(queue, JobSelection(selected(JOBS, FIELDS), predicate, archived=archived))
    assert got == json.loads(json.dumps(expected))
    assert "open sesame" not in json.dumps(got)


def test_a_place_is_kept_for_jobs_asked_for_that_do_not_exist(queue):
    names = ["id", "status", "archived"]
    fields, data = in_one_go(queue, [3, 9, 7, 11], names, None)
    predicate, _ = compile_filter(None, JOBS.fields)
    got = listed(queue, JobSelection(fields, predicate, [3, 9, 7, 11], plain=True))
    assert got == legacy_rows(JOBS, fields, data)
    assert got == [[3, "error", False], [9, None, False], [7, "success", True], [11, None, False]]


def test_others_have_their_turn(queue, monkeypatch):
    """Between two slices the loop runs: here a counter that counts as often as it is let."""
    monkeypatch.setattr(slices, "_SLICE_S", 0.0)

    async def go() -> int:
        with turns_beside() as turns:
            predicate, _ = compile_filter(None, JOBS.fields)
            await JobLists(queue).rows(JobSelection(selected(JOBS, ["id"]), predicate))
        return turns.count

    assert asyncio.run(go()) >= COUNT - 2
