# SPDX-License-Identifier: BSD-2-Clause
"""The master is told that a copy is lost; the guest waits for that, but not for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from ganeti.mirrord import loss_reports
from ganeti.mirrord.loss_reports import LossReporter
from ganeti.node.storage.mirror.requests import PRIMARY, Opened
from ganeti.wire.loss_report import PATH, LossReport, read_loss_report

KEY = b"the key of the cluster"
DISK = Opened(uuid="disk", image="/srv/disk", role=PRIMARY, peer="node2")


class Master:
    """Answers as it is told to, by *say*."""

    def __init__(self) -> None:
        self.heard: list[LossReport] = []
        self.may_answer = asyncio.Event()
        self.faults = 0
        self.fault = b"503 Service Unavailable"
        self.name = "node1"
        self.addresses: Sequence[str] = ["127.0.0.1"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith(f"POST {PATH} ")
        length = int(head.partition("Content-Length: ")[2].split()[0])
        self.heard.append(read_loss_report(await reader.readexactly(length), time.time(), KEY))
        await self.may_answer.wait()
        self.faults -= 1
        writer.write(b"HTTP/1.1 " + (self.fault if self.faults >= 0 else b"202 Accepted") + b"\r\n\r\n")
        writer.close()


def play(story: Callable[[Master, LossReporter], Awaitable[None]]) -> None:
    async def played() -> None:
        master = Master()
        server = await asyncio.start_server(master.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reporter = LossReporter("node3", lambda: (master.name, master.addresses), lambda: KEY, port)
        try:
            await asyncio.wait_for(story(master, reporter), 60)
        finally:
            await reporter.close()
            server.close()

    asyncio.run(played())


def test_a_guest_waits_until_the_configuration_knows() -> None:
    async def story(master: Master, reporter: LossReporter) -> None:
        reporter.note(DISK, 6)
        waiting = asyncio.create_task(reporter.wait(DISK))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        reporter.note(DISK, 7)
        master.faults = 1
        master.may_answer.set()
        await waiting
        assert {report.generation for report in master.heard} == {6, 7} and master.heard[-1].generation == 7
        await reporter.wait(DISK)

    play(story)


def test_a_master_that_does_not_answer_is_waited_for_a_time_and_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_reports, "WAIT_S", 0.3)

    async def story(master: Master, reporter: LossReporter) -> None:
        reporter.note(DISK, 6)
        await reporter.wait(DISK)
        master.may_answer.set()
        monkeypatch.setattr(loss_reports, "WAIT_S", 60.0)
        await reporter.wait(DISK)
        assert master.heard[-1] == LossReport("node3", "disk", 6)

    play(story)


def test_nobody_waits_for_a_master_that_is_the_lost_node_or_for_none() -> None:
    async def story(master: Master, reporter: LossReporter) -> None:
        reporter.note(DISK, 6)
        master.name = "node2"
        await reporter.wait(DISK)
        master.name, master.addresses = "", []
        await reporter.wait(DISK)

    play(story)


def test_a_report_that_is_not_believed_is_seldom_repeated_and_a_newer_loss_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss_reports, "WAIT_S", 60.0)
    monkeypatch.setattr(loss_reports, "REFUSED_S", 0.3)
    monkeypatch.setattr(loss_reports, "_AGAIN_S", 50.0)

    async def story(master: Master, reporter: LossReporter) -> None:
        master.fault, master.faults = b"403 Forbidden", 1
        master.may_answer.set()
        reporter.note(DISK, 6)
        await asyncio.wait_for(reporter.wait(DISK), 30)
        assert [report.generation for report in master.heard] == [6]
        reporter.note(DISK, 7)
        monkeypatch.setattr(loss_reports, "REFUSED_S", 60.0)
        await asyncio.wait_for(reporter.wait(DISK), 30)
        assert [report.generation for report in master.heard] == [6, 7]

    play(story)


def test_the_pause_grows_longer_after_a_report_that_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_AGAIN_S", 0.01), ("_AT_MOST_S", 0.01), ("_DISBELIEVED_AT_MOST_S", 50.0)):
        monkeypatch.setattr(loss_reports, name, seconds)
    monkeypatch.setattr(loss_reports, "WAIT_S", 1.0)
    monkeypatch.setattr(loss_reports, "REFUSED_S", 1.0)

    async def story(master: Master, reporter: LossReporter) -> None:
        master.fault, master.faults = b"403 Forbidden", 1000
        master.may_answer.set()
        reporter.note(DISK, 6)
        await reporter.wait(DISK)
        assert 1 < len(master.heard) < 10

    play(story)


def test_a_guest_waits_for_its_own_report_while_that_of_another_disk_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The master is slow to note what it believes; that it refused another report a moment ago says nothing of it."""
    for name, seconds in (("WAIT_S", 60.0), ("REFUSED_S", 0.1), ("_AGAIN_S", 50.0)):
        monkeypatch.setattr(loss_reports, name, seconds)
    other = Opened(uuid="other", image="/srv/other", role=PRIMARY, peer="node2")

    async def story(master: Master, reporter: LossReporter) -> None:
        master.fault, master.faults = b"403 Forbidden", 1
        master.may_answer.set()
        reporter.note(other, 6)
        await reporter.wait(other)
        master.may_answer.clear()
        for disk, generation in ((DISK, 6), (other, 7)):
            reporter.note(disk, generation)
            waiting = asyncio.create_task(reporter.wait(disk))
            done, _ = await asyncio.wait([waiting], timeout=0.5)
            assert not done
            master.may_answer.set()
            await waiting
            master.may_answer.clear()

    play(story)
