# SPDX-License-Identifier: BSD-2-Clause
"""Reading many job files gives what reading one gives."""

import gc
import os

import pytest

from ganeti.base.errors import JobFileCorrupted
from ganeti.base.paths import Paths
from ganeti.stores.job_files import JobFiles
from ganeti.stores.job_files_reader import JobFilesReader
from ganeti.wire.job_file import JobFile, OpcodeEntry, encode


def job(job_id: int) -> JobFile:
    entry = OpcodeEntry(
        input={"OP_ID": "OP_TEST_DUMMY"}, status="success", result=[1], log=[[1, [1, 2], "message", "x"]]
    )
    return JobFile(id=job_id, ops=[entry], end_timestamp=[3, 4], position=[5, 6])


@pytest.fixture
def files(tmp_path):
    files = JobFiles(Paths(str(tmp_path)))
    files.prepare()
    files.add([job(number) for number in (1, 2, 3)])
    return files


@pytest.fixture
def reader(files):
    with JobFilesReader(files) as reader:
        yield reader


def test_jobs_archived_jobs_and_jobs_that_are_not(files, reader):
    files.archive([2])
    for job_id in (1, 2, 4):
        assert reader.job(job_id) == files.read(job_id)
    assert reader.job(4) is None and reader.raw(2) is None


def test_a_file_of_somebody_elses_making(files, reader):
    with open(files.path(2), "wb") as stream:  # nulls for what is not there, keys of their own
        stream.write(b'{"id": 2, "ops": [{"input": {"OP_ID": "OP_X"}, "status": "error", "log": null}], "theirs": 1}')
    found = reader.job(2)
    assert found is not None and (found.status, found.ops[0].log) == ("error", [])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"id": 3, "ops": [{"input": {}, "status": "no such status"}]}', "no such status"),
        (b'{"id": 1, "ops": []}', "it says it is job 1"),
        (b'{"id": 3, "ops": [{"input": {"OP_ID": "\xff\xfe"}, "status": "success"}]}', "utf-8"),
        (b"{", "truncated"),
    ],
)
def test_damage_is_told_or_passed_over(files, reader, caplog, content, why):
    with open(files.path(3), "wb") as stream:
        stream.write(content)
    with pytest.raises(JobFileCorrupted, match=why):
        reader.job(3)
    assert reader.readable_job(3) is None
    assert why in caplog.text


def test_a_file_of_many_pieces_is_read_whole(files, reader):
    for size in (16 * 1024, 40_000, 3 * 16 * 1024):
        with open(files.path(1), "wb") as stream:
            stream.write(b"x" * size)
        assert reader.raw(1) == b"x" * size


def test_its_descriptor_is_closed(files):
    before = set(os.listdir("/proc/self/fd"))
    with JobFilesReader(files) as reader:
        reader.job(1)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_long_file_is_read_whole_and_not_piece_by_piece(files, reader, monkeypatch):
    content = b'{"id": 3, "ops": [], "log": "%s"}' % (b"x" * 3_000_000)
    with open(files.path(3), "wb") as stream:
        stream.write(content)
    reads = []
    read = os.read
    monkeypatch.setattr(os, "read", lambda *arguments: reads.append(1) or read(*arguments))
    assert reader.raw(3) == content
    assert len(reads) <= 2


def test_no_garbage_is_looked_for_while_a_long_log_is_read(files, reader):
    """In LuxiD each look goes through all that it remembers: 200 ms in all for the log of a verification."""
    long = job(3)
    long.ops[0].log += [[number, [1, 2], "message", "x"] for number in range(2, 20_000)]
    with open(files.path(3), "wb") as stream:
        stream.write(encode(long))
    looks = []
    gc.callbacks.append(look := lambda phase, info: looks.append(phase))
    try:
        found = [reader.job, files.read]
        gc.collect()
        looks.clear()
        for read in found:
            kept = read(3)
            assert len(kept.ops[0].log) == 19_999
    finally:
        gc.callbacks.remove(look)
    assert len(looks) <= 4, "each has one look afterwards at most"
    assert gc.isenabled()
