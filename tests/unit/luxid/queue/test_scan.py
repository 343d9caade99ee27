# SPDX-License-Identifier: BSD-2-Clause
"""What LuxiD finds when it starts: every job where it belongs, and a damaged file in nobody's way."""

import errno
import os

import pytest

from ganeti.base.errors import JobQueueError
from ganeti.base.paths import Paths
from ganeti.luxid.queue import scan as queue_scan
from ganeti.luxid.queue.scan import IssuedIds, PowerOn, scan
from ganeti.stores.job_files import JobFiles
from ganeti.stores.job_files_reader import JobFilesReader
from ganeti.stores.undo_files import damaged_jobs
from ganeti.wire.job_file import JobFile, OpcodeEntry, encode

ENDED = [1_700_000_000, 500_000]


def job(job_id: int, *statuses: str, **more: object) -> JobFile:
    ops = [OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY"}, status=status) for status in statuses]
    return JobFile(id=job_id, ops=ops, **more)


@pytest.fixture
def paths(tmp_path):
    return Paths(str(tmp_path))


@pytest.fixture
def files(paths):
    files = JobFiles(paths)
    files.prepare()
    return files


def store(files, *jobs):
    for each in jobs:
        with open(files.path(each.id), "wb") as stream:
            stream.write(encode(each))


def test_jobs_are_sorted_into_ended_and_unfinished(paths, files):
    store(
        files,
        job(1, "success", "success", end_timestamp=ENDED),
        job(2, "success", "error"),
        job(10, "canceled", "queued"),
        job(3, "success", "queued"),
        job(4, "queued"),
    )
    found, ended, archived = scan(paths, files)
    assert ended == [(1, "success", 1_700_000_000.5), (2, "error", 0.0), (10, "canceled", 0.0)]
    assert [(item.file.id, item.file.status, item.alive) for item in found] == [
        (3, "queued", False),
        (4, "queued", False),
    ]
    assert archived == {}


def test_an_unfinished_job_keeps_what_only_others_know(paths, files):
    store(files, job(1, "queued", unknown={"from_elsewhere": 7}))
    (item,), _, _ = scan(paths, files)
    assert item.file.unknown == {"from_elsewhere": 7}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"id": 2}',
        b'{"id": 2, "ops": 3}',
        b'{"id": 2, "ops": [{"status": "queued"}]}',
        b'{"id": 2, "ops": [{"status": "no such status", "input": {}}]}',
        b'{"id": 3, "ops": [{"status": "queued", "input": {}}]}',
        b'{"id": 2, "ops": [{"status": "queued", "input": {"OP_ID": "\xff\xfe"}}]}',
        b"\0" * 4096,
    ],
)
def test_a_damaged_file_is_set_aside_and_the_others_are_found(paths, files, content):
    store(files, job(1, "success"), job(3, "queued"))
    with open(files.path(2), "wb") as stream:
        stream.write(content)
    found, ended, _ = scan(paths, files)
    assert [item.file.id for item in found] == [3] and [job_id for job_id, _, _ in ended] == [1]
    assert not os.path.exists(files.path(2))
    assert damaged_jobs(paths) == [(2, f"{files.directory}/damaged-job-2")]
    with open(f"{files.directory}/damaged-job-2", "rb") as stream:
        assert stream.read() == content


def test_long_files_are_read_to_their_end(paths, files):
    long = job(1, "success", end_timestamp=ENDED)
    long.ops[0].log = [[serial, ENDED, "message", "x" * 100] for serial in range(5000)]
    store(files, long)
    assert scan(paths, files)[1] == [(1, "success", 1_700_000_000.5)]


def test_other_files_of_the_queue_are_no_jobs(paths, files):
    store(files, job(1, "success"))
    for name in (".job-2.new", "job-3.undo", "damaged-job-4", "job-05", "job-", "job-٣", "job-6 ", "job-+7"):
        with open(f"{files.directory}/{name}", "w") as stream:
            stream.write("{}")
    assert [job_id for job_id, _, _ in scan(paths, files)[1]] == [1]
    assert files.ids() == [1]


def test_archived_dependencies_are_known_by_their_status(paths, files):
    waiting = job(3, "queued")
    waiting.ops[0].input["depends"] = [[1, ["success"]], [2, []]]
    store(files, job(1, "error"), job(2, "success"), waiting)
    assert files.archive([1]) == 1
    _, _, archived = scan(paths, files)
    assert archived == {1: "error"}, "what is in the queue is known from its own file"


@pytest.mark.parametrize("handed_back", [False, True])
def test_a_process_that_ends_in_good_order_just_while_its_job_is_read_has_not_died(
    paths, files, monkeypatch, handed_back
):
    store(files, job(1, "running", livelock="/lock", process_id=77))

    def ends(lock_file):
        store(files, job(1, "queued") if handed_back else job(1, "success", end_timestamp=ENDED))
        return False

    monkeypatch.setattr(queue_scan, "is_alive", ends)
    found, ended, _ = scan(paths, files)
    assert [item.file.livelock for item in found] == [None] * handed_back
    assert [job_id for job_id, _, _ in ended] == [1] * (not handed_back)


def test_a_file_that_cannot_be_read_now_is_no_damaged_file(paths, files, monkeypatch):
    """Its job was acknowledged: LuxiD must rather not start than forget it."""
    store(files, job(1, "queued"))

    def fail(reader: object, job_id: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(JobFilesReader, "raw", fail)
    with pytest.raises(JobQueueError, match="job 1 cannot be read: Input/output error"):
        scan(paths, files)
    assert os.path.exists(files.path(1))


def test_a_machine_knows_its_own_processes_by_the_epoch_and_its_power(paths, files):
    os.makedirs(paths.run_dir)
    first = PowerOn(paths, 3)
    assert not first.is_known and not PowerOn(paths, 3).is_known, "nothing is taken up yet"
    first.remember()
    assert PowerOn(paths, 3).is_known and not PowerOn(paths, 4).is_known
    store(files, job(1, "running", livelock="/gone", begun=1))
    assert [item.foreign for item in scan(paths, files, foreign=True)[0]] == [True]


def test_ids_that_were_given_since_the_power_on_are_known_without_the_queue(paths):
    assert IssuedIds(paths, "one").highest() == 0
    os.makedirs(paths.run_dir)
    for job_id in (8, 12_345, 97):
        IssuedIds(paths, "one").note(job_id)
        assert IssuedIds(paths, "one").highest() == job_id
    assert IssuedIds(paths, "another cluster").highest() == 0
    with open(f"{paths.run_dir}/luxid-serial", "wb") as file:
        file.write(b"one \xff\n")
    assert IssuedIds(paths, "one").highest() == 0


def test_what_a_living_process_is_writing_stays(paths, files, monkeypatch):
    store(files, job(1, "running", livelock="/lock"), job(2, "queued"))
    for job_id in (1, 2, 3):
        open(f"{files.directory}/.job-{job_id}.new", "w").close()
    monkeypatch.setattr(queue_scan, "is_alive", lambda lock_file: True)
    scan(paths, files)
    assert [name for name in os.listdir(files.directory) if name.endswith(".new")] == [".job-1.new"]
