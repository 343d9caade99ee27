# SPDX-License-Identifier: BSD-2-Clause
"""What LuxiD does when the machine's decisions cannot be carried out: no space, no descriptors, a fault of ours."""

import asyncio
import errno
import os
import shutil
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes.replication import FakeReplication
from tests.fakes.wconfd import until

from ganeti.base.errors import JobQueueError
from ganeti.base.paths import Paths
from ganeti.luxid.queue import copies as queue_copies
from ganeti.luxid.queue import driver as queue_driver
from ganeti.luxid.queue import locks as queue_locks
from ganeti.luxid.queue import starts as queue_starts
from ganeti.luxid.queue import watching as queue_watching
from ganeti.luxid.queue import writes as queue_writes
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master import operations
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.master.queue.undo import record_line
from ganeti.model.configuration import Configuration
from ganeti.ports.context import UndoNodeCall
from ganeti.stores import priority_messages
from ganeti.stores.undo_files import UndoFile, outstanding_undo, undo_path
from ganeti.wire.job_file import JobFile, OpcodeEntry, decode

operations.load()


class Spawner:
    """Takes requests; *others* are the processes' ends of their sockets."""

    is_there = True

    def __init__(self):
        self.others = {}
        self.error = None

    def request(self, job_id, attempt, operations):
        if self.error is not None:
            raise self.error
        ours, self.others[job_id] = socket.socketpair()
        ours.setblocking(False)
        return ours


class Follower:
    configuration = Configuration()

    async def reached(self, position, timeout_s):
        return True


class Bed:
    def __init__(self, paths, monkeypatch):
        self.spawner = Spawner()
        self.machine = QueueMachine("/own", ev.Limits(running=1, active=100))
        self.released = []
        self.wconfd = FakeReplication(paths.queue_dir)
        self.driver = QueueDriver(
            paths, self.machine, self.spawner, self.wconfd, Follower(), lambda *owner: self.released.append(owner)
        )
        self.driver.files.prepare()
        self.tell = self.driver._decisions.tell
        self.paths = paths
        self.full = False
        real = self.driver.files.write
        monkeypatch.setattr(
            self.driver.files, "write", lambda job, *, durable: self.no_space() or real(job, durable=durable)
        )

    def no_space(self):
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def submit(self, job_id, **more):
        file = JobFile(id=job_id, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY", "duration": 0, **more})])
        self.driver.files.add([file])
        self.driver._next_id = job_id + 1
        self.driver._stored([file])
        return self.machine.jobs.get(job_id)

    def on_disk(self, job_id):
        return self.driver.files.read(job_id)


@pytest.fixture
def bed(tmp_path, monkeypatch):
    """For use inside a loop; pauses are short."""
    for module, name in ((queue_starts, "_TROUBLE_PAUSE_S"), (queue_writes, "AGAIN_S"), (queue_watching, "AGAIN_S")):
        monkeypatch.setattr(module, name, 0.01)
    monkeypatch.setattr(queue_copies, "WITHIN_S", 0.05)
    monkeypatch.setattr(queue_copies, "AGAIN_S", 0.01)
    os.makedirs(tmp_path / "run")
    return Bed(Paths(str(tmp_path)), monkeypatch)


def in_loop(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_a_cancel_that_cannot_be_written_is_not_promised_and_is_written_when_there_is_space(bed):
    async def scenario():
        bed.submit(1)
        bed.full = True
        ok, sentence = await bed.driver.cancel(1, False)
        assert not ok and "No space left on device" in sentence
        assert bed.driver.job(1).status == "canceled" and bed.on_disk(1).status == "queued"
        assert await bed.driver.archiving.archive([1]) == 0, "its file would come back"
        for job_id in range(2, 80):  # it must not be forgotten like others that have ended
            bed.driver._announcements.recent[job_id] = bed.driver.job(1)
        bed.full = False
        await until(lambda: bed.on_disk(1).status == "canceled")
        assert await bed.driver.archiving.archive([1]) == 1

    in_loop(scenario)


def test_a_priority_that_cannot_be_told_or_written_is_not_promised(bed, monkeypatch):
    async def scenario():
        job = bed.submit(1)
        bed.full = True
        assert not (await bed.driver.change_priority(1, -10))[0]
        bed.full = False
        assert (await bed.driver.change_priority(1, -10))[0]
        job.phase, job.file.livelock = Phase.STARTED, "/lock"
        assert (await bed.driver.change_priority(1, -5))[0]
        monkeypatch.setattr(priority_messages, "leave", lambda *message: bed.no_space())
        bed.full = True
        ok, sentence = await bed.driver.change_priority(1, -4)
        assert not ok and "No space left on device" in sentence

    in_loop(scenario)


def test_a_job_whose_process_cannot_be_stored_runs_when_there_is_space(bed):
    async def scenario():
        job = bed.submit(1)
        bed.tell(ev.Granted(1))
        assert job.phase is Phase.ANNOUNCED
        bed.full = True
        bed.spawner.others[1].sendall(b'{"lock_file": "/lock-1", "pid": 4194305}\3')
        await until(lambda: job.phase in (Phase.QUEUED, Phase.ASKING))  # the pause is short
        assert bed.spawner.others[1].recv(100) == b"", "the process was not confirmed"
        assert (job.file.livelock, job.file.process_id, job.file.status) == (None, None, "queued")
        lack = bed.driver.writes.unwritable
        assert lack is not None and lack.reason == "No space left on device"
        with pytest.raises(OSError, match="No space left"):
            bed.driver.writes.write(ev.WriteJob(job.file, durable=True))
        assert bed.driver.writes.unwritable == lack, "since the first time"
        bed.full = False
        await until(lambda: job.phase is Phase.ASKING)
        bed.tell(ev.Granted(1))
        assert job.phase is Phase.ANNOUNCED and job.file.attempt == 2, "another process with another lock file"

    in_loop(scenario)


def test_a_start_without_descriptors_is_tried_again(bed):
    async def scenario():
        job = bed.submit(1)
        bed.spawner.error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        bed.tell(ev.Granted(1))
        await until(lambda: job.phase in (Phase.QUEUED, Phase.ASKING))  # the pause is short
        bed.spawner.error = None
        await until(lambda: job.phase is Phase.ASKING)
        bed.tell(ev.Granted(1))
        assert job.phase is Phase.ANNOUNCED and 1 in bed.spawner.others

    in_loop(scenario)


def test_an_operation_that_cannot_say_its_locks_does_not_keep_the_slot(bed, monkeypatch):
    def broken(file, view):
        raise KeyError("a mistake of ours")

    async def scenario():
        monkeypatch.setattr(queue_locks, "next_locks", broken)
        job = bed.submit(1)
        await until(lambda: job.phase is Phase.ANNOUNCED)  # its process meets the same, and writes it down

    in_loop(scenario)


def test_a_fault_of_the_machine_does_not_reach_who_tells_of_events(bed, monkeypatch):
    async def scenario():
        bed.submit(1)
        monkeypatch.setattr(bed.machine, "handle", lambda event, now_s: 1 / 0)
        bed.tell(ev.Granted(1))
        bed.tell(ev.Refused(1))

    in_loop(scenario)


@pytest.mark.parametrize("statuses", [[], ["success"]])
def test_a_dependency_archived_while_its_dependent_was_being_stored_counts(bed, statuses):
    async def scenario():
        bed.driver.files.add([JobFile(id=1, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"}, status="success")])])
        bed.machine.remember(1, "success", 1.0)
        assert await bed.driver.archiving.archive([1]) == 1
        job = bed.submit(2, depends=[[1, statuses]])
        assert job is not None and job.phase is Phase.ASKING

    in_loop(scenario)


def test_a_priority_that_came_after_the_end_leaves_nothing(bed):
    async def scenario():
        bed.submit(1)
        priority_messages.leave(bed.paths, 1, 5)
        await bed.driver.cancel(1, False)
        assert priority_messages.take(bed.paths, 1) is None

    in_loop(scenario)


def test_a_spawner_that_comes_while_the_queue_stops_starts_nothing(bed):
    async def scenario():
        bed.spawner.attach = lambda: None
        bed.driver._starts.attach()
        await bed.driver._starts.stop(0.0)
        bed.spawner.came()
        assert bed.machine.held_back

    in_loop(scenario)


def test_a_death_met_without_descriptors_is_looked_at_again(bed, monkeypatch):
    """Nothing else would tell of it: the job would keep its slot for ever."""

    async def scenario():
        job = bed.submit(1)
        bed.machine.handle(ev.Granted(1), 1.0)
        bed.machine.handle(ev.Greeted(1, "/lock-1", 4194305), 1.0)
        bed.driver.files.write(job.file, durable=False)
        with monkeypatch.context() as patch:
            patch.setattr(queue_watching, "is_alive", lambda path: os.open("/dev/null/none", os.O_RDONLY))
            bed.driver._watching._process_ended(1)
            assert job.phase is Phase.STARTED
        await until(lambda: job.phase is Phase.ENDED)
        assert "died" in job.file.ops[0].result[1][0]

    in_loop(scenario)


@pytest.mark.parametrize("many", [False, True])
def test_a_job_whose_file_cannot_be_moved_stays_in_the_lists(bed, monkeypatch, many):
    def fails(path, **how):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def archive():
        return await bed.driver.archiving.archive_many([1]) if many else await bed.driver.archiving.archive([1])

    async def scenario():
        bed.submit(1)
        await bed.driver.cancel(1, False)
        with monkeypatch.context() as patch:
            patch.setattr(os, "makedirs", fails)
            with pytest.raises(OSError, match="No space left"):
                await archive()
        assert bed.driver.job_ids() == [1]
        assert await archive() == 1 and bed.driver.job_ids() == []

    in_loop(scenario)


def new_job(job_id):
    return JobFile(id=job_id, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY", "duration": 0})])


def test_a_client_sees_the_id_and_the_machine_the_job_when_the_candidates_have_it(bed):
    async def scenario():
        bed.driver._next_id = 1
        bed.wconfd.hold_back()
        submitting = asyncio.ensure_future(bed.driver.submit([new_job, new_job]))
        await until(lambda: bed.wconfd.calls == [["job-1", "job-2"]])
        assert bed.driver.files.ids() == [1, 2] and not bed.machine.jobs and not submitting.done()
        bed.wconfd.let_go()
        assert [job.id for job in await submitting] == [1, 2]
        assert sorted(bed.wconfd.copies) == ["job-1", "job-2"] and sorted(bed.machine.jobs) == [1, 2]

    in_loop(scenario)


def test_a_queue_that_was_removed_gives_no_id_again(bed, caplog):
    """Nodes would answer with what they did for the former job of the number."""

    async def scenario():
        assert bed.driver._highest_id() == 0
        bed.driver._next_id = 41
        await bed.driver.submit([new_job, new_job])
        shutil.rmtree(bed.paths.queue_dir)
        bed.driver.files.prepare()
        assert bed.driver._highest_id() == 42
        assert "the queue knows jobs up to 0, and 42 has run" in caplog.text

    os.makedirs(bed.paths.run_dir)
    in_loop(scenario)


@pytest.mark.parametrize("trouble", ["held back", "away", "deposed"])
def test_a_job_that_the_candidates_cannot_store_is_refused_and_taken_back_everywhere(bed, trouble):
    async def scenario():
        bed.driver._next_id = 1
        bed.wconfd.away, bed.wconfd.deposed = trouble == "away", trouble == "deposed"
        if trouble == "held back":
            bed.wconfd.hold_back()
        with pytest.raises(JobQueueError, match=r"The job is not taken, .* submit the job again"):
            await bed.driver.submit([new_job])
        assert bed.driver.files.ids() == [] and not bed.machine.jobs
        bed.wconfd.away = bed.wconfd.deposed = False
        bed.wconfd.let_go()
        (job,) = await bed.driver.submit([new_job])
        assert job.id == 2, "an id is given once"
        assert list(bed.wconfd.copies) == ["job-2"]

    in_loop(scenario)


def test_a_job_that_cannot_be_taken_back_at_once_is_later(bed, monkeypatch):
    """Seed 1304 of the simulator: the disk failed while candidates did not answer, and these kept the job for good."""
    failing, remove = [OSError(5, "Input/output error")] * 2, bed.driver.files.remove

    def fail(job_ids):
        if failing:
            raise failing.pop()
        remove(job_ids)

    async def scenario():
        monkeypatch.setattr(bed.driver.files, "remove", fail)
        bed.driver._next_id = 1
        bed.wconfd.hold_back()
        with pytest.raises(JobQueueError, match=r"The job is not taken, .* submit the job again"):
            await bed.driver.submit([new_job])
        assert bed.driver.files.ids() == [1]
        bed.wconfd.let_go()
        await until(lambda: not bed.driver.files.ids())
        await until(lambda: len(bed.wconfd.calls) > 1 and not bed.wconfd.copies)
        assert not failing

    in_loop(scenario)


def test_a_cancel_or_a_priority_is_promised_when_the_candidates_know(bed):
    async def scenario():
        bed.submit(1)
        bed.submit(2)
        assert (await bed.driver.change_priority(1, -10))[0]
        assert decode(bed.wconfd.copies["job-1"]).priority == -10
        bed.wconfd.hold_back()
        for ok, sentence in (await bed.driver.change_priority(1, -5), await bed.driver.cancel(1, False)):
            assert not ok and "not every master candidate in sync knows that yet" in sentence
        assert bed.on_disk(1).status == "canceled", "it holds all the same"
        bed.wconfd.let_go()
        assert (await bed.driver.cancel(2, False))[0]
        assert {decode(bed.wconfd.copies[name]).status for name in ("job-1", "job-2")} == {"canceled"}

    in_loop(scenario)


def test_the_drain_flag_is_set_when_the_candidates_have_it(bed):
    async def scenario():
        await bed.driver.set_drained(True)
        assert bed.wconfd.copies == {"drain": b""}
        bed.wconfd.away = True
        with pytest.raises(JobQueueError, match="is open now, but not every master candidate"):
            await bed.driver.set_drained(False)
        bed.wconfd.away = False
        await until(lambda: not bed.wconfd.copies)

    in_loop(scenario)


def test_what_is_archived_is_archived_by_the_candidates_after_they_have_its_end(bed):
    async def scenario():
        bed.submit(1)
        bed.wconfd.hold_back()
        await bed.driver.cancel(1, False)
        assert await bed.driver.archiving.archive([1]) == 0, "they would archive what it was before"
        bed.wconfd.let_go()
        assert await bed.driver.archiving.archive([1]) == 1
        await until(lambda: bed.wconfd.archived == [1])

    in_loop(scenario)


def test_nothing_is_kept_of_a_renewal_that_was_read_and_of_no_other_job(bed):
    renewal = {"OP_ID": "OP_UPDATE_NODE_GROUP_CACHE", "group_name": "u1"}

    def ended(job_id, status, *opcodes):
        ops = [OpcodeEntry(input=opcode, status=status) for opcode in opcodes]
        bed.driver.files.add([JobFile(id=job_id, ops=ops)])
        bed.machine.remember(job_id, status, 1.0)

    async def scenario():
        delay = {"OP_ID": "OP_TEST_DELAY", "duration": 0}
        ended(1, "success", renewal, delay)
        ended(2, "error", renewal)
        ended(3, "success", renewal)
        ended(4, "success", renewal)
        bed.driver.files.write(bed.on_disk(4), durable=False)
        bed.driver.files.write(bed.on_disk(4), durable=False)
        bed.submit(5, OP_ID="OP_UPDATE_NODE_GROUP_CACHE")
        answers = [await bed.driver.archiving.forget_renewal(job_id) for job_id in range(1, 7)]
        assert answers == [False, False, True, True, False, False]
        assert bed.driver.job_ids(archived=True) == [1, 2, 5]
        assert {name for name in os.listdir(bed.paths.queue_dir) if "job" in name} == {"job-1", "job-2", "job-5"}
        assert bed.driver.files.highest_id() == 5
        await until(lambda: not bed.driver._copies.owes("job-4"))
        assert (bed.wconfd.archived, {"job-3", "job-4"} & set(bed.wconfd.copies)) == ([], set())

    in_loop(scenario)


def test_the_end_of_a_job_is_told_when_the_candidates_have_it(bed):
    async def scenario():
        job = bed.submit(1)
        bed.machine.handle(ev.Granted(1), 1.0)
        bed.machine.handle(ev.Greeted(1, "/lock-1", 4194305), 1.0)
        ended = replace(job.file, ops=[replace(job.file.ops[0], status="success")])
        bed.driver.files.write(ended, durable=True)
        bed.wconfd.hold_back()
        bed.driver._watching._file_replaced("job-1")
        await until(lambda: bed.wconfd.calls == [["job-1"]])
        assert job.phase is Phase.STARTED and bed.driver.job(1).status == "queued"
        bed.wconfd.let_go()
        await until(lambda: job.phase is Phase.ENDED)
        assert decode(bed.wconfd.copies["job-1"]).status == "success"

    in_loop(scenario)


@pytest.mark.parametrize("has_undo", [False, True])
def test_candidates_are_told_once_that_an_ended_job_has_no_records(bed, has_undo):
    """Only of those that go after the end was copied they hear a second time."""

    async def scenario():
        job = bed.submit(1)
        bed.machine.handle(ev.Granted(1), 1.0)
        bed.machine.handle(ev.Greeted(1, "/lock-1", 4194305), 1.0)
        undo = Path(undo_path(bed.paths, 1))
        if has_undo:
            undo.touch()
        ended = replace(job.file, begun=job.file.attempt, ops=[replace(job.file.ops[0], status="success")])
        bed.driver.files.write(ended, durable=True)
        bed.driver._watching.processes._descriptors[1] = os.open(os.devnull, os.O_RDONLY)  # it is there still
        bed.driver._watching._file_replaced("job-1")
        await until(lambda: job.phase is Phase.ENDED)
        undo.unlink(missing_ok=True)
        bed.driver._watching.processes._tell(1)
        copies = bed.driver._copies
        await until(lambda: not copies.owes("job-1.undo"))
        both = ["job-1", "job-1.undo"]
        assert bed.wconfd.calls == ([both, ["job-1.undo"]] if has_undo else [both])
        assert not bed.driver._watching._without_undo

    in_loop(scenario)


def test_a_new_life_of_the_queue_waits_for_the_copies_of_what_it_begins_with(bed, monkeypatch):
    monkeypatch.setattr(queue_driver, "_CONFIRM_S", 0.05)

    async def scenario():
        bed.driver.files.add([new_job(1), new_job(2)])
        bed.wconfd.hold_back()
        bed.spawner.attach = bed.spawner.close = lambda: None
        monkeypatch.setattr(bed.driver._locks, "start", lambda tasks: None)
        bed.driver.start()
        await bed.driver.confirm()  # not for ever
        bed.wconfd.let_go()
        await bed.driver.confirm()
        assert sorted(bed.wconfd.copies) == ["job-1", "job-2"] and bed.wconfd.calls[-1][0] == "drain"
        await bed.driver.stop()

    in_loop(scenario)


def test_steps_left_behind_go_when_a_later_job_has_made_them_moot(bed):
    """Its node is no part of the configuration any more."""

    async def scenario():
        failed = JobFile(id=1, ops=[OpcodeEntry(input={}, status="error")], end_timestamp=(100, 0))
        bed.driver.files.add([failed])
        undo = UndoFile(bed.paths, 1)
        undo.append(record_line(1, 0, 1, UndoNodeCall("close the disks", "uuid-gone", "instance_disks_shutdown", {})))
        undo.append({"given_up": 1, "reason": "no answer"})
        bed.driver._watching._clean_up(failed)
        assert [item.job_id for item in outstanding_undo(bed.paths)] == [1]
        bed.driver._watching._clean_up(JobFile(id=2, ops=[OpcodeEntry(input={}, status="success")]))
        assert outstanding_undo(bed.paths) == [] and not os.path.exists(undo_path(bed.paths, 1))

    in_loop(scenario)
