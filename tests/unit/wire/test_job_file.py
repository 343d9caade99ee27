# SPDX-License-Identifier: BSD-2-Clause
"""Job files: 3.1's form in, the same out, and the status of a job from those of its opcodes."""

import copy
import json
from pathlib import Path

import msgspec
import pytest

from ganeti.base.errors import JobFileCorrupted
from ganeti.master.query.jobs import JOBS, JobRow
from ganeti.master.queue.events import WriteJob
from ganeti.wire.job_file import (
    JobFile,
    OpcodeEntry,
    combined_status,
    decode,
    encode,
    put_secrets,
    read_job_id,
    redact,
    seconds,
    secrets_lost,
    secrets_of,
    shown,
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
    assert secrets_lost(stored) and not secrets_lost(job)


NESTED = [
    {"OP_ID": "OP_X", "osparams_secret": {"key": "hush"}},
    {"OP_ID": "OP_PLAN", "operation": {"OP_ID": "OP_X", "osparams_secret": {"key": "hush"}}},
    {"OP_ID": "OP_INSTANCE_MULTI_ALLOC", "instances": [{"pnode": "n1"}, {"osparams_secret": {"key": "hush"}}]},
    {"OP_ID": "OP_PLAN", "operation": {"instances": [{"osparams_secret": {"key": "hush", "other": "hush"}}] * 2}},
]


@pytest.mark.parametrize("opcode", NESTED, ids=["on top", "planned", "one of many", "many planned"])
def test_secrets_within_other_parameters_are_redacted_and_come_back(opcode):
    job = JobFile(id=1, ops=[OpcodeEntry(input=copy.deepcopy(opcode))])
    stored = encode(job)
    assert b"hush" not in stored and b"<redacted>" in stored
    assert job.ops[0].input == opcode, "the job keeps its secrets in memory"
    read = decode(stored)
    assert secrets_lost(read) and not secrets_lost(job)
    handed_over = msgspec.json.decode(msgspec.json.encode(secrets_of(opcode)))
    put_secrets(read.ops[0].input, handed_over)
    assert read.ops[0].input == opcode and not secrets_lost(read)


def test_an_opcode_without_secrets_is_given_as_it_is():
    opcode = {"OP_ID": "OP_PLAN", "operation": {"osparams_secret": {}, "osparams_private": {"a": "b"}}, "reason": [[1]]}
    assert redact(opcode) is opcode and secrets_of(opcode) == []


def test_private_parameters_are_stored_and_not_shown():
    """Whoever reads the remote API sees the parameters of all jobs, without a password where it needs none."""
    private = {"osparams_private": {"pw": "hush"}, "osparams_private_cluster": {"debian": {"pw": "hush"}}}
    opcode = {"OP_ID": "OP_PLAN", "operation": {**private, "osparams_secret": {"pw": "hush"}, "osparams": {"a": "b"}}}
    before = copy.deepcopy(opcode)
    for given in (opcode, {**opcode["operation"], "instances": [opcode["operation"]]}):
        told = shown(given)
        assert "hush" not in json.dumps(told)
        assert json.dumps(told).count("<redacted>") == json.dumps(given).count("hush")
    assert shown(opcode)["operation"]["osparams"] == {"a": "b"}
    assert opcode == before
    plain = {"OP_ID": "OP_X", "osparams_private": {}, "clear_osparams_private": True, "remove_osparams_private": ["pw"]}
    assert shown(plain) is plain
    (field,) = (each for each in JOBS.fields.values() if each.name == "ops")
    row = JobRow(1, JobFile(id=1, ops=[OpcodeEntry(input=opcode)]), False)
    assert "hush" not in json.dumps(field.get(row))


def test_no_depth_of_parameters_hides_a_secret():
    opcode = {"osparams_secret": {"key": "hush"}}
    for _ in range(3000):
        opcode = {"operation": opcode}
    told = redact(opcode)
    for _ in range(3000):
        told = told["operation"]
    assert told == {"osparams_secret": {"key": "<redacted>"}}


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
