# SPDX-License-Identifier: BSD-2-Clause
"""Job files: 3.1's form in, the same out, and the status of a job from those of its opcodes."""

import json
from pathlib import Path

import pytest

from ganeti.base.errors import JobFileCorrupted
from ganeti.master.queue.events import WriteJob
from ganeti.wire.job_file import (
    JobFile,
    OpcodeEntry,
    combined_status,
    decode,
    encode,
    read_job_id,
    seconds,
    secrets_lost,
    secrets_of,
    timestamp,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "jobs"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("job-*")), ids=lambda path: path.name)
def test_files_of_3_1_come_back_as_they_were(path):
    raw = path.read_bytes()
    assert json.loads(encode(decode(raw))) == json.loads(raw)


def test_keys_nobody_knows_are_kept_and_our_own_only_written_when_they_say_something():
    plain = json.loads(encode(JobFile(id=3, ops=[OpcodeEntry(input={"OP_ID": "OP_X"})])))
    assert set(plain) == {"id", "ops", "received_timestamp", "start_timestamp", "end_timestamp"}
    plain["colour"], plain["ops"][0]["taste"] = "blue", "sweet"
    plain["attempt"], plain["position"] = 2, [1, 9]
    assert json.loads(encode(decode(json.dumps(plain).encode(), 3))) == plain


def test_a_job_that_is_logged_tells_no_secret():
    entry = OpcodeEntry(input={"OP_ID": "OP_X", "osparams_secret": {"key": "hush"}, "osparams_private": {"a": "hush"}})
    assert "hush" not in repr(WriteJob(JobFile(id=1, ops=[entry]))) and "OP_X" in repr(entry)


@pytest.mark.parametrize(
    ("value", "job_id"),
    [(7, 7), ("7", 7), (0, None), (-1, None), (True, None), ("\u00b2", None), ("9" * 400, None), (10**40, None)],
)
def test_job_ids_as_clients_write_them(value, job_id):
    assert read_job_id(value) == job_id


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([], "success"),
        (["success", "success"], "success"),
        (["queued", "queued"], "queued"),
        (["success", "queued"], "queued"),
        (["success", "waiting", "queued"], "waiting"),
        (["success", "running", "queued"], "running"),
        (["waiting", "running"], "running"),
        (["success", "error", "error"], "error"),
        (["running", "canceling"], "canceling"),
        (["canceled", "canceled"], "canceled"),
        (["error", "canceling"], "error"),
    ],
)
def test_status_of_a_job(statuses, status):
    assert combined_status(statuses) == status


def test_priority_is_that_of_the_first_opcode_that_has_not_ended():
    ops = [OpcodeEntry(input={}, status=status, priority=n) for n, status in enumerate(["success", "queued", "queued"])]
    assert JobFile(id=1, ops=ops).priority == 1
    for op in ops:
        op.status = "success"
    assert JobFile(id=1, ops=ops).priority == 2


def test_times_keep_microseconds():
    assert timestamp(1700000000.123456) == [1700000000, 123456]
    assert seconds([1700000000, 500000]) == 1700000000.5


def test_secret_parameters_are_redacted_on_disk_and_kept_in_memory():
    opcode = {"OP_ID": "OP_X", "osparams_secret": {"key": "hush"}, "osparams_private": {"a": "b"}}
    job = JobFile(id=1, ops=[OpcodeEntry(input=opcode)])
    stored = decode(encode(job))
    assert stored.ops[0].input["osparams_secret"] == {"key": "<redacted>"}
    assert stored.ops[0].input["osparams_private"] == {"a": "b"}
    assert job.ops[0].input["osparams_secret"] == {"key": "hush"}
    assert secrets_of(opcode) == {"osparams_secret": {"key": "hush"}}
    assert secrets_lost(stored) and not secrets_lost(job)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[1]",
        b'{"id": 1}',
        b'{"id": 1, "ops": 5}',
        b'{"id": "x", "ops": []}',
        b'{"id": 1, "ops": [1]}',
        b'{"id": 1, "ops": [{"input": {}, "status": "dancing"}]}',
        b'{"id": 2, "ops": []}',
        b'{"id": 1, "ops": [{"input": {}, "status": "queued"}',
    ],
)
def test_damage_is_told(raw):
    with pytest.raises(JobFileCorrupted, match="Job file 1 is damaged"):
        decode(raw, 1)
