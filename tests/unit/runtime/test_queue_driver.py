# SPDX-License-Identifier: BSD-2-Clause
"""What LuxiD does when the machine's decisions cannot be carried out: no space, no descriptors, a fault of ours."""

import asyncio
import errno
import os
import socket

import pytest
from tests.fakes.wconfd import until

from ganeti.base.paths import Paths
from ganeti.master import operations
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import Phase, QueueMachine
from ganeti.model.configuration import Configuration
from ganeti.runtime import priority_messages, queue_driver, queue_watching, queue_writes
from ganeti.runtime.queue_driver import QueueDriver
from ganeti.wire.job_file import JobFile, OpcodeEntry

operations.load()


class Spawner:
    """Takes requests; *others* are the processes' ends of their sockets."""

    is_there = True

    def __init__(self):
        self.others = {}
        self.error = None

    def request(self, job_id, attempt):
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
        self.driver = QueueDriver(
            paths, self.machine, self.spawner, None, Follower(), lambda *owner: self.released.append(owner)
        )
        self.driver.files.prepare()
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
    for module, name in ((queue_driver, "_TROUBLE_PAUSE_S"), (queue_writes, "AGAIN_S"), (queue_watching, "AGAIN_S")):
        monkeypatch.setattr(module, name, 0.01)
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
        assert bed.driver.archive([1]) == 0, "its file would come back"
        for job_id in range(2, 80):  # it must not be forgotten like others that have ended
            bed.driver._recent[job_id] = bed.driver.job(1)
        bed.full = False
        await until(lambda: bed.on_disk(1).status == "canceled")
        assert bed.driver.archive([1]) == 1

    in_loop(scenario)


def test_a_priority_that_cannot_be_told_or_written_is_not_promised(bed, monkeypatch):
    async def scenario():
        job = bed.submit(1)
        bed.full = True
        assert not bed.driver.change_priority(1, -10)[0]
        bed.full = False
        assert bed.driver.change_priority(1, -10)[0]
        job.phase, job.file.livelock = Phase.STARTED, "/lock"
        assert bed.driver.change_priority(1, -5)[0]
        monkeypatch.setattr(priority_messages, "leave", lambda *message: bed.no_space())
        bed.full = True
        ok, sentence = bed.driver.change_priority(1, -4)
        assert not ok and "No space left on device" in sentence

    in_loop(scenario)


def test_a_job_whose_process_cannot_be_stored_runs_when_there_is_space(bed):
    async def scenario():
        job = bed.submit(1)
        bed.driver.granted(1)
        assert job.phase is Phase.ANNOUNCED
        bed.full = True
        bed.spawner.others[1].sendall(b'{"lock_file": "/lock-1", "pid": 4194305}\3')
        await until(lambda: job.phase is Phase.QUEUED)
        assert bed.spawner.others[1].recv(100) == b"", "the process was not confirmed"
        assert (job.file.livelock, job.file.process_id, job.file.status) == (None, None, "queued")
        bed.full = False
        await until(lambda: job.phase is Phase.ASKING)
        bed.driver.granted(1)
        assert job.phase is Phase.ANNOUNCED and job.file.attempt == 2, "another process with another lock file"

    in_loop(scenario)


def test_a_start_without_descriptors_is_tried_again(bed):
    async def scenario():
        job = bed.submit(1)
        bed.spawner.error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        bed.driver.granted(1)
        await until(lambda: job.phase is Phase.QUEUED)
        bed.spawner.error = None
        await until(lambda: job.phase is Phase.ASKING)
        bed.driver.granted(1)
        assert job.phase is Phase.ANNOUNCED and 1 in bed.spawner.others

    in_loop(scenario)


def test_an_operation_that_cannot_say_its_locks_does_not_keep_the_slot(bed, monkeypatch):
    def broken(file, view):
        raise KeyError("a mistake of ours")

    async def scenario():
        monkeypatch.setattr(queue_driver, "next_locks", broken)
        job = bed.submit(1)
        await until(lambda: job.phase is Phase.ANNOUNCED)  # its process meets the same, and writes it down

    in_loop(scenario)


def test_a_fault_of_the_machine_does_not_reach_who_tells_of_events(bed, monkeypatch):
    async def scenario():
        bed.submit(1)
        monkeypatch.setattr(bed.machine, "handle", lambda event, now_s: 1 / 0)
        bed.driver.granted(1)
        bed.driver.refused(1, ())

    in_loop(scenario)


@pytest.mark.parametrize("statuses", [[], ["success"]])
def test_a_dependency_archived_while_its_dependent_was_being_stored_counts(bed, statuses):
    async def scenario():
        bed.driver.files.add([JobFile(id=1, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"}, status="success")])])
        bed.machine.remember(1, "success", 1.0)
        assert bed.driver.archive([1]) == 1
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
        bed.driver._stopping = bed.machine.held_back = True
        bed.driver._spawner_came()
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
        return await bed.driver.archive_many([1]) if many else bed.driver.archive([1])

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
