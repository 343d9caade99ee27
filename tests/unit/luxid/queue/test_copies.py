# SPDX-License-Identifier: BSD-2-Clause
"""Copies of the queue's files: asked for in batches and in order, until the candidates have them."""

import asyncio

import pytest
from tests.fakes.replication import FakeReplication
from tests.fakes.wconfd import until

from ganeti.luxid.queue import copies as queue_copies
from ganeti.luxid.queue.copies import QueueCopies
from ganeti.system.event_loop import Background


class Bed:
    def __init__(self):
        self.wconfd = FakeReplication("/nowhere")
        self.tasks = Background()
        self.copies = QueueCopies(self.wconfd, self.tasks)


@pytest.fixture
def in_loop(monkeypatch):
    monkeypatch.setattr(queue_copies, "AGAIN_S", 0.01)
    monkeypatch.setattr(queue_copies, "WITHIN_S", 0.05)

    def run(scenario):
        async def go():
            bed = Bed()
            await scenario(bed)
            await bed.tasks.cancel()

        asyncio.run(asyncio.wait_for(go(), 10))

    return run


def test_what_is_asked_for_while_a_call_is_under_way_shares_the_next_one(in_loop):
    async def scenario(bed):
        bed.wconfd.hold_back()
        first = bed.copies.soon(["job-1"])
        await until(lambda: len(bed.wconfd.calls) == 1)
        others = [bed.copies.soon(["job-2"]), bed.copies.soon(["job-1", "job-3"], [9]), bed.copies.soon(["job-2"])]
        assert bed.copies.owes("job-1") and bed.copies.owes("job-3") and not bed.copies.owes("job-4")
        bed.wconfd.let_go()
        assert await asyncio.gather(first, *others) == [""] * 4
        assert bed.wconfd.calls == [["job-1"], ["job-2", "job-1", "job-3"]] and bed.wconfd.archived == [9]
        assert not bed.copies.owes("job-1")

    in_loop(scenario)


def test_the_queues_are_compared_once_before_anything_is_said_to_be_everywhere(in_loop):
    async def scenario(bed):
        bed.wconfd.away = True
        assert await bed.copies.wait(["job-1"]) == "WConfD does not answer"
        assert bed.wconfd.calls == []
        bed.wconfd.away = False
        assert await bed.copies.wait(["job-1"]) == "" == await bed.copies.wait(["job-2"])
        assert bed.wconfd.compared == 1

    in_loop(scenario)


def test_who_waits_is_told_why_it_takes_so_long_and_the_files_go_out_later(in_loop):
    async def scenario(bed):
        bed.wconfd.hold_back()
        assert await bed.copies.wait(["job-1"]) == "not every master candidate in sync has answered"
        bed.wconfd.away = True
        bed.wconfd.let_go()
        assert await bed.copies.wait(["job-2"]) == "WConfD does not answer"
        bed.wconfd.away = False
        assert await bed.copies.wait(["job-3"], 5) == ""
        assert [name for call in bed.wconfd.story for name in call.split()[1:]] == ["job-1", "job-2", "job-3"]

    in_loop(scenario)


def test_a_deposed_master_gets_no_copies_and_nobody_waits_for_them(in_loop):
    async def scenario(bed):
        bed.wconfd.deposed = True
        assert await bed.copies.wait(["job-1"], 5) == "node2 is the master since epoch 7"
        assert await bed.copies.soon(["job-2"]) == "node2 is the master since epoch 7"

    in_loop(scenario)


def test_the_end_lets_go_out_what_can(in_loop):
    async def scenario(bed):
        await bed.copies.settle(5)
        assert bed.wconfd.calls == []
        bed.copies.soon(["job-1"])
        await bed.copies.settle(5)
        assert bed.wconfd.story[0] == "copied job-1"
        bed.wconfd.hold_back()
        bed.copies.soon(["job-2"])
        await bed.copies.settle(0.01)

    in_loop(scenario)
