# SPDX-License-Identifier: BSD-2-Clause
"""Named laws of the copies: what somebody was told of, and what a job acts upon, the candidates have already."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.replication import FakeReplication
from tests.fakes.thoroughness import examples
from tests.fakes.wconfd import fast_directory

from ganeti.base.errors import JobQueueError
from ganeti.base.paths import Paths
from ganeti.job import records as job_records
from ganeti.job.records import JobRecords
from ganeti.luxid.queue import copies as queue_copies
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master import operations
from ganeti.master.queue import events as ev
from ganeti.master.queue.machine import QueueMachine
from ganeti.master.queue.undo import record_line
from ganeti.model.configuration import Configuration
from ganeti.ports.context import UndoNodeCall
from ganeti.stores.job_files import JobFiles
from ganeti.wire.job_file import JobFile, OpcodeEntry, decode

operations.load()
JOBS = 6
TROUBLES = ("hold back", "let go", "away", "back")


class NoSpawner:
    is_there = False

    def request(self, job_id: int, attempt: int, operations: list[str]) -> socket.socket:
        raise OSError(11, "nobody forks here")


class Follower:
    configuration = Configuration()

    async def reached(self, position: tuple[int, int], timeout_s: float) -> bool:
        return True


class Clients:
    """Whoever asks LuxiD for something, and what the candidates have when the answer comes."""

    def __init__(self, paths: Paths) -> None:
        self.wconfd = FakeReplication(paths.queue_dir)
        machine = QueueMachine("/own", ev.Limits(active=1000))
        machine.held_back = True
        self.driver = QueueDriver(paths, machine, NoSpawner(), self.wconfd, Follower(), lambda *owner: None)
        self.driver.files.prepare()
        self.driver._next_id = 1
        self.given: list[int] = []
        self.acknowledged = 0

    def copy(self, job_id: int) -> JobFile:
        name = f"job-{job_id}"
        assert name in self.wconfd.copies, f"job {job_id} was acknowledged and no candidate has it"
        return decode(self.wconfd.copies[name])

    async def submit(self, count: int) -> None:
        makers = [lambda job_id: JobFile(id=job_id, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"})])] * count
        try:
            jobs = await self.driver.submit(makers)
        except JobQueueError:
            return
        self.acknowledged += 1
        for job in jobs:
            assert job.id not in self.given, "an id was given twice"
            self.given.append(job.id)
            self.copy(job.id)

    async def cancel(self, job_id: int) -> None:
        if (await self.driver.cancel(job_id, False))[0]:
            self.acknowledged += 1
            assert self.copy(job_id).status == "canceled"

    async def change_priority(self, job_id: int) -> None:
        if (await self.driver.change_priority(job_id, -10))[0]:
            self.acknowledged += 1
            assert self.copy(job_id).priority == -10

    async def drain(self, flag: int) -> None:
        try:
            await self.driver.set_drained(bool(flag))
        except JobQueueError:
            return
        self.acknowledged += 1
        assert ("drain" in self.wconfd.copies) == os.path.exists(f"{self.driver.files.directory}/drain")

    def trouble(self, what: str) -> None:
        match what:
            case "hold back":
                self.wconfd.hold_back()
            case "let go":
                self.wconfd.let_go()
            case _:
                self.wconfd.away = what == "away"


REQUESTS = st.tuples(st.sampled_from(["submit", "cancel", "change_priority", "drain"]), st.integers(1, JOBS))
STEPS = st.lists(REQUESTS | st.sampled_from(TROUBLES) | st.just("wait"), max_size=25)


@settings(max_examples=examples(60, quick=25), deadline=None)
@given(steps=STEPS)
def test_what_a_client_was_told_of_the_candidates_have(steps: list[Any]) -> None:
    """Whatever is held back, away, or asked for meanwhile; and when all is well again, every copy is as it is here."""

    async def scenario(root: Path) -> None:
        clients = Clients(Paths(str(root)))
        asked: list[asyncio.Future[None]] = []
        for step in steps:
            if isinstance(step, tuple):
                asked.append(asyncio.ensure_future(getattr(clients, step[0])(step[1])))
            elif step == "wait":
                await asyncio.gather(*asked)
            else:
                clients.trouble(step)
            await asyncio.sleep(0)
        await asyncio.gather(*asked)
        clients.trouble("let go")
        clients.trouble("back")
        while not clients.acknowledged:  # a busy machine may take longer than WITHIN_S
            await clients.drain(0)
            await clients.submit(1)
        here = {f"job-{job_id}" for job_id in clients.driver.files.ids()}
        assert {name for name in clients.wconfd.copies if name != "drain"} == here
        await clients.driver._tasks.cancel()

    with fast_directory() as root, patch.multiple(queue_copies, WITHIN_S=0.02, AGAIN_S=0.001):
        asyncio.run(asyncio.wait_for(scenario(root), 60))


class Actor:
    """A job that checks, whenever it acts, what would be known of it if its machine were lost at that moment."""

    def __init__(self, paths: Paths) -> None:
        files = JobFiles(paths)
        files.prepare()
        self.job = JobFile(id=1, attempt=2, ops=[OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"}, status="running")])
        files.write(self.job, durable=True)
        self.wconfd = FakeReplication(paths.queue_dir)
        self.records = JobRecords(paths, self.job, self.wconfd)
        self.pushed = 0

    async def act(self) -> None:
        await self.records.begin()
        self.check()

    async def push(self) -> None:
        number = self.records.log.next_number
        await self.records.append(record_line(number, 0, 2, UndoNodeCall(f"undo {number}", "n1", "remove", {})))
        self.pushed = max(self.pushed, number)
        self.check()

    async def undo(self) -> None:
        if unspoken := self.records.log.unspoken():
            await self.records.append({"undone": unspoken[-1]}, durable=False)

    def check(self) -> None:
        assert decode(self.wconfd.copies["job-1"]).begun == 2, "it could be run twice"
        lines = self.wconfd.copies.get("job-1.undo", b"").count(b'"record"')
        assert lines >= self.pushed, "a step would be left without a name"


@settings(max_examples=examples(60, quick=25), deadline=None)
@given(st.lists(st.sampled_from(["act", "push", "undo", "hold back", "let go", "away", "back"]), max_size=20))
def test_a_job_acts_only_when_the_candidates_know_that_it_has_begun_and_how_to_undo_it(steps: list[str]) -> None:
    async def scenario(root: Path) -> None:
        actor = Actor(Paths(str(root)))
        doing: list[Awaitable[None]] = []
        troubles: dict[str, Callable[[], None]] = {
            "hold back": actor.wconfd.hold_back,
            "let go": actor.wconfd.let_go,
            "away": lambda: setattr(actor.wconfd, "away", True),
            "back": lambda: setattr(actor.wconfd, "away", False),
        }
        for step in steps:
            if step in troubles:
                troubles[step]()
            else:
                doing.append(asyncio.ensure_future(getattr(actor, step)()))
            await asyncio.sleep(0)
        troubles["let go"]()
        troubles["back"]()
        await asyncio.gather(*doing)
        await actor.push()
        actor.job.ops[0].status = "success"
        await actor.records.save(actor.job)
        assert decode(actor.wconfd.copies["job-1"]).status == "success"

    with fast_directory() as root, patch.object(job_records, "_ASK_AGAIN_S", 0.001):
        asyncio.run(asyncio.wait_for(scenario(root), 60))
