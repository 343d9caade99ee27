# SPDX-License-Identifier: BSD-2-Clause
"""Undo logs on disk: synced before the step, whole after a crash, kept while something is outstanding."""

import errno
import os
from pathlib import Path

import pytest
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.base.errors import ExecutionError, JobFileCorrupted
from ganeti.base.paths import Paths
from ganeti.master.queue.undo import record_line
from ganeti.ports.context import UndoNodeCall
from ganeti.stores.job_files import JobFiles
from ganeti.stores.undo_files import UndoFile, clear_moot, jobs_with_undo, outstanding_undo, settle_for_good, undo_path
from ganeti.wire.job_file import JobFile, OpcodeEntry


def line(number: int) -> dict[str, object]:
    return record_line(number, 0, 1, UndoNodeCall(f"undo {number}", "n1", "remove", {"number": number}))


@pytest.fixture
def paths(tmp_path):
    paths = Paths(str(tmp_path))
    os.makedirs(paths.queue_dir)
    return paths


def test_a_job_that_creates_nothing_makes_no_file(paths):
    UndoFile(paths, 3).clear()
    assert jobs_with_undo(paths) == [] and outstanding_undo(paths) == []


def test_lines_are_synced_before_append_returns(paths, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr("ganeti.stores.undo_files.os.fdatasync", lambda descriptor: synced.append(descriptor))
    undo = UndoFile(paths, 3)
    undo.append(line(1))
    undo.append({"undone": 1}, durable=False)
    assert len(synced) == 1 and os.stat(undo.path).st_mode & 0o777 == 0o600
    assert jobs_with_undo(paths) == [3]


def test_a_line_cut_short_does_not_garble_what_follows(paths):
    UndoFile(paths, 3).append(line(1))
    with open(undo_path(paths, 3), "ab") as file:
        file.write(b'{"record": 2, "opco')
    undo = UndoFile(paths, 3)
    undo.append(line(2))
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [2, 1]


def test_a_full_disk_leaves_the_log_as_it_was(paths, monkeypatch):
    undo = UndoFile(paths, 3)
    undo.append(line(1))
    real = os.write
    monkeypatch.setattr("ganeti.stores.undo_files.os.write", lambda descriptor, data: real(descriptor, data[:10]))
    with pytest.raises(ExecutionError, match="No space left"):
        undo.append(line(2))
    monkeypatch.undo()
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [1]
    undo.append(line(3))
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [3, 1]


def test_a_record_that_a_loss_of_power_tore_was_never_begun(paths):
    """Seed 10119 with 3 nodes: the disk failed while record 2 was synced, and then the power went."""
    UndoFile(paths, 3).append(line(1))
    with open(undo_path(paths, 3), "ab") as file:
        file.write(b'{"record": 2, "opcode"' + bytes(4096) + b'"x"}\n' + b'{"undone": 1}\n')
    undo = UndoFile(paths, 3)
    assert [item.number for item in undo.log.owed(None)] == [1]
    undo.append(line(2))
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [2, 1]


def test_records_pushed_together_are_torn_together(paths):
    """A loss of power may let the end of a write arrive, and not its beginning."""
    UndoFile(paths, 3).append(line(1))
    path = Path(undo_path(paths, 3))
    begin = path.stat().st_size
    undo = UndoFile(paths, 3)
    undo.append(line(2), line(3), line(4))
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [4, 3, 2, 1]
    data = path.read_bytes()
    path.write_bytes(data[: begin + 3] + bytes(40) + data[begin + 43 :])
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [1]


def test_zeros_before_a_record_that_was_synced_are_damage(paths):
    for number in (1, 2, 3):
        UndoFile(paths, 3).append(line(number))
    path = Path(undo_path(paths, 3))
    data = path.read_bytes()
    second = data.index(b"\n") + 1
    path.write_bytes(data[:second] + bytes(20) + data[second + 20 :])
    with pytest.raises(JobFileCorrupted, match="Line 2 of the undo log is damaged"):
        UndoFile(paths, 3)
    (left,) = outstanding_undo(paths)
    assert "damaged" in left.reason


def test_what_a_failing_disk_did_not_let_go_goes_before_the_next_line(paths, monkeypatch):
    undo = UndoFile(paths, 3)
    undo.append(line(1))
    real = os.write

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("ganeti.stores.undo_files.os.write", lambda descriptor, data: real(descriptor, data[:10]))
    monkeypatch.setattr("ganeti.stores.undo_files.os.ftruncate", fails)
    for number in (2, 3):
        with pytest.raises(ExecutionError):
            undo.append(line(number))
    monkeypatch.undo()
    undo.append(line(4))
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [4, 1]


def test_what_was_given_up_stays_and_is_named(paths):
    undo = UndoFile(paths, 3)
    undo.append(line(1))
    undo.append({"given_up": 1, "reason": "stuck"})
    undo.clear()
    (left,) = outstanding_undo(paths)
    assert (left.job_id, left.sentence, left.reason) == (3, "undo 1", "stuck")
    undo.append({"undone": 1})
    undo.clear()
    assert outstanding_undo(paths) == [] and not os.path.exists(undo.path)


def test_a_damaged_log_is_outstanding_too(paths):
    with open(undo_path(paths, 4), "w") as file:
        file.write("{]\n")
    (left,) = outstanding_undo(paths)
    assert left.job_id == 4 and "damaged" in left.reason


@pytest.mark.parametrize(("status", "left"), [("success", []), ("error", ["undo 1"])])
def test_records_of_a_job_that_ended_without_a_process(paths, status, left):
    undo = UndoFile(paths, 3)
    undo.append(line(1))
    undo.append(line(2))
    undo.append({"undone": 2})
    settle_for_good(undo, JobFile(id=3, ops=[OpcodeEntry(input={}, status=status)]))
    assert [item.sentence for item in outstanding_undo(paths)] == left
    assert os.path.exists(undo.path) == bool(left)


def test_a_note_waits_for_space_and_undoing_goes_on(paths, monkeypatch):
    undo = UndoFile(paths, 3)
    undo.append(line(1))
    undo.append(line(2))
    monkeypatch.setattr("ganeti.stores.undo_files.os.write", lambda descriptor, data: 0)
    undo.append({"given_up": 2, "reason": "because"})
    monkeypatch.undo()
    assert [item.number for item in undo.log.owed(None)] == [1]
    assert [item.number for item in UndoFile(paths, 3).log.owed(None)] == [2, 1]
    undo.append({"undone": 1})
    assert UndoFile(paths, 3).log.owed(None) == []
    assert [item.reason for item in outstanding_undo(paths)] == ["because"]


def test_records_of_an_ended_job_that_nobody_will_carry_out_are_named(paths):
    UndoFile(paths, 3).append(line(1))
    (left,) = outstanding_undo(paths)
    assert left.reason.startswith("the job's file is not there; remove ")
    file = JobFile(id=3, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"}, status="error")])
    JobFiles(paths).write(file, durable=False)
    assert [item.sentence for item in outstanding_undo(paths)] == ["undo 1"]


@pytest.mark.parametrize(
    "damaged", [b"[]\n", b"{]\n", b'{"record": "x"}\n', b'{"record": 1, "opcode": 0}\n', b"[" * 10**5 + b"\n"]
)
def test_damage_shows_when_the_log_is_read(paths, damaged):
    UndoFile(paths, 3).append(line(1))
    with open(undo_path(paths, 3), "ab") as file:
        file.write(damaged)
    with pytest.raises(JobFileCorrupted, match="is damaged"):
        UndoFile(paths, 3)


def test_what_a_later_job_has_made_moot_is_told_no_more(paths):
    """And the log is gone with the last such step, so that the job is archived as any other."""
    view = configuration()
    add_instance(view, "web1")
    records = [
        UndoNodeCall("close", node, "instance_disks_shutdown", {"instance": {"name": "web1", "uuid": "uuid-web1"}})
        for node in ("uuid-node1", "uuid-node2")
    ]
    undo = UndoFile(paths, 3)
    undo.append(*(record_line(number, 0, 1, each) for number, each in enumerate(records, 1)))
    undo.append({"given_up": 1, "reason": "no answer"}, {"given_up": 2, "reason": "no answer"})
    failed = JobFile(id=3, ops=[], end_timestamp=(100, 0))

    def later(op_id):
        entry = OpcodeEntry(input={"OP_ID": op_id, "instance_name": "web1"}, status="success", exec_timestamp=(200, 0))
        return JobFile(id=4, ops=[entry])

    assert clear_moot(UndoFile(paths, 3), failed, later("OP_INSTANCE_STARTUP"), view)
    assert [item.number for item in UndoFile(paths, 3).log.given_up()] == [2], "node2 was none of its matter"
    assert not clear_moot(UndoFile(paths, 3), failed, later("OP_INSTANCE_STARTUP"), view)
    view.remove("instances", "uuid-web1")
    assert clear_moot(UndoFile(paths, 3), failed, later("OP_INSTANCE_REMOVE"), view)
    assert jobs_with_undo(paths) == [] and outstanding_undo(paths) == []
