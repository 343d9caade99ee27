# SPDX-License-Identifier: BSD-2-Clause
"""What a job must not lose is at the candidates before the next thing happens."""

import asyncio
import os

import pytest
from tests.fakes.replication import FakeReplication
from tests.fakes.wconfd import until

import ganeti.node.actions
from ganeti.base.errors import DeposedError, ExecutionError
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.job import nodes as job_nodes
from ganeti.job import records as job_records
from ganeti.job import wconfd as job_wconfd
from ganeti.job.nodes import JobNodes
from ganeti.job.records import JobRecords
from ganeti.job.wconfd import JobWConfdClient
from ganeti.master.queue.undo import record_line
from ganeti.node.actions.registry import REGISTRY
from ganeti.ports.context import UndoNodeCall
from ganeti.stores.job_files import JobFiles
from ganeti.wire.job_file import JobFile, OpcodeEntry, decode

import_all(ganeti.node.actions)


def line(number: int) -> dict[str, object]:
    return record_line(number, 0, 3, UndoNodeCall(f"undo {number}", "n1", "remove", {}))


class Bed:
    def __init__(self, paths):
        self.files = JobFiles(paths)
        self.files.prepare()
        self.job = JobFile(id=7, attempt=3, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DUMMY"}, status="running")])
        self.files.write(self.job, durable=True)
        self.wconfd = FakeReplication(paths.queue_dir)
        self.records = JobRecords(paths, self.job, self.wconfd)

    @property
    def copy(self) -> JobFile:
        return decode(self.wconfd.copies["job-7"])


@pytest.fixture
def in_loop(tmp_path, monkeypatch):
    monkeypatch.setattr(job_records, "_ASK_AGAIN_S", 0.01)

    def run(scenario):
        async def go():
            await scenario(Bed(Paths(str(tmp_path))))

        asyncio.run(asyncio.wait_for(go(), 10))

    return run


def test_a_job_that_has_begun_says_so_everywhere_before_anything_happens_and_only_once(in_loop):
    async def scenario(bed):
        bed.wconfd.hold_back()
        both = [asyncio.ensure_future(bed.records.begin()) for _ in range(2)]
        await until(lambda: len(bed.wconfd.calls) == 1)
        assert bed.files.read(7).begun == 3 and bed.wconfd.copies == {}
        await asyncio.sleep(0)
        assert not any(task.done() for task in both)
        bed.wconfd.let_go()
        await asyncio.gather(*both)
        await bed.records.begin()
        assert bed.copy.begun == 3 and len(bed.wconfd.calls) == 1

    in_loop(scenario)


def test_a_first_commit_takes_the_mark_along(in_loop):
    async def scenario(bed):
        assert bed.records.mark() == ("job-7", "job-7.undo")
        assert bed.files.read(7).begun == 3 and bed.wconfd.calls == []
        assert bed.records.mark(), "whether it came to the members is not known until the commit is answered"
        bed.records.marked()
        assert bed.records.mark() == ()
        await bed.records.begin()
        assert bed.wconfd.calls == []

    in_loop(scenario)


def test_a_record_is_everywhere_before_its_step_and_one_trip_does_for_the_mark_too(in_loop):
    async def scenario(bed):
        bed.wconfd.hold_back()
        append = asyncio.ensure_future(bed.records.append(line(1)))
        await until(lambda: len(bed.wconfd.calls) == 1)
        assert bed.records.log.has_records() and not append.done()
        bed.wconfd.let_go()
        await append
        assert bed.copy.begun == 3 and b'"undo 1"' in bed.wconfd.copies["job-7.undo"]
        await bed.records.begin()
        await bed.records.append({"undone": 1}, durable=False)
        assert len(bed.wconfd.calls) == 1, "neither needs a trip"
        bed.records.clear()
        bed.job.ops[0].status = "success"
        await bed.records.save(bed.job)
        assert bed.copy.status == "success" and list(bed.wconfd.copies) == ["job-7"]

    in_loop(scenario)


def test_a_job_that_has_changed_nothing_waits_for_nobody(in_loop):
    async def scenario(bed):
        bed.wconfd.hold_back()
        bed.job.ops[0].status = "success"
        bed.job.begun = 2  # an earlier process had begun, and was handed back
        await bed.records.save(bed.job)
        assert bed.files.read(7).status == "success" and bed.wconfd.calls == []

    in_loop(scenario)


def test_a_result_waits_as_long_as_it_takes(in_loop):
    async def scenario(bed):
        await bed.records.begin()
        bed.wconfd.away = True
        bed.job.ops[0].status = "success"
        saving = asyncio.ensure_future(bed.records.save(bed.job))
        await until(lambda: len(bed.wconfd.calls) >= 4)
        assert not saving.done() and bed.files.read(7).status == "success" and bed.copy.status == "running"
        bed.wconfd.away = False
        await saving
        assert bed.copy.status == "success"

    in_loop(scenario)


def test_the_end_of_a_job_waits_for_slow_members_but_not_for_a_daemon_that_is_away(in_loop):
    async def scenario(bed):
        await bed.records.append(line(1))
        bed.wconfd.hold_back()
        bed.job.ops[0].status = "success"
        ending = asyncio.ensure_future(bed.records.end(bed.job))
        await until(lambda: len(bed.wconfd.calls) == 2)
        assert bed.files.read(7).status == "success" and not ending.done()
        bed.wconfd.let_go()
        assert await ending and bed.copy.status == "success"
        bed.wconfd.away = True
        assert not await bed.records.end(bed.job)

    in_loop(scenario)


def test_the_end_of_a_job_without_records_is_left_to_luxid_to_copy(in_loop):
    async def scenario(bed):
        await bed.records.begin()
        bed.wconfd.hold_back()
        bed.job.ops[0].status = "success"
        assert await bed.records.end(bed.job)
        assert bed.files.read(7).status == "success" and len(bed.wconfd.calls) == 1

    in_loop(scenario)


def test_without_space_for_the_mark_nothing_begins(in_loop, monkeypatch):
    async def scenario(bed):
        def full(job, *, durable):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(bed.records._files, "write", full)
        for begin in (bed.records.begin(), bed.records.append(line(1))):
            with pytest.raises(ExecutionError, match="nothing is begun: No space left"):
                await begin
        assert bed.wconfd.calls == [] and not os.path.exists(f"{bed.files.directory}/job-7.undo")

    in_loop(scenario)


def test_only_calls_that_change_something_begin_a_job(monkeypatch):
    begun: list[str] = []
    asked: list[str] = []

    async def begin() -> None:
        begun.append(asked[-1] if asked else "")

    async def answer(self, node_uuid, call, /, **arguments):
        asked.append(call)

    async def go() -> None:
        monkeypatch.setattr(job_nodes.NodeClient, "call", answer)
        nodes = JobNodes(begin, Paths("/nowhere"), lambda: None, 7, 3, lambda: 1)
        for call in [name for name, declared in sorted(REGISTRY.items()) if not declared.changes]:
            await nodes.call("n1", call)
        assert begun == [] and "version" in asked
        await nodes.call("n1", "hooks_runner")
        await nodes.call("n1", "a_call_of_tomorrow")
        assert begun == [asked[-3], "hooks_runner"], "before the call"

    asyncio.run(go())


def test_a_job_of_a_deposed_master_ends_and_raises_nothing(monkeypatch):
    class Gone(BaseException):
        pass

    def leave(status: int) -> None:
        raise Gone(status)

    def refuse(self, method, *arguments):
        raise DeposedError("node2 is the master")

    monkeypatch.setattr(job_wconfd.os, "_exit", leave)
    monkeypatch.setattr(JobWConfdClient, "_ask_now", refuse)
    with pytest.raises(Gone) as gone:
        asyncio.run(JobWConfdClient("/nowhere").replicate_queue(["job-7"]))
    assert gone.value.args == (11,)
