# SPDX-License-Identifier: BSD-2-Clause
"""The end of a guest's process is noticed by itself, and told until somebody takes it."""

from __future__ import annotations

import asyncio
import subprocess
import time

import pytest

from ganeti.mond import guest_end_reports
from ganeti.mond.guest_end_reports import GuestEndReporter, GuestEnds
from ganeti.node.hypervisors.interface import Sighting
from ganeti.wire.guest_report import GuestReport, read_guest_report

KEY = b"the key of the cluster"


def test_the_end_of_a_process_is_noticed_without_looking() -> None:
    async def scenario() -> None:
        noticed = asyncio.Event()

        async def look() -> None:
            noticed.set()

        ends = GuestEnds(look)
        with subprocess.Popen(["sleep", "600"]) as process:
            guest = Sighting(name="web1", started_s=0.0, cpu_time_s=0.0, resident_bytes=0, pid=process.pid)
            ends.follow([guest])
            process.kill()
            await asyncio.wait_for(noticed.wait(), 60)
        await ends.close()

    asyncio.run(scenario())


def test_a_report_is_sent_again_until_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_end_reports, "_AGAIN_S", (0.0, 0.0))
    bodies: list[bytes] = []

    async def scenario() -> None:
        taken = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
            bodies.append(await reader.readexactly(length))
            writer.write(b"HTTP/1.1 202 Accepted\r\n\r\n" if len(bodies) == 2 else b"HTTP/1.1 403 Forbidden\r\n\r\n")
            writer.close()
            if len(bodies) == 2:
                taken.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reporter = GuestEndReporter("node1", lambda: ["127.0.0.1"], lambda: KEY, server.sockets[0].getsockname()[1])
        reporter.tell(["web1"], ["web2"])
        await asyncio.wait_for(taken.wait(), 60)
        await reporter.close()
        server.close()

    asyncio.run(scenario())
    first, again = (read_guest_report(body, time.time(), KEY) for body in bodies)
    assert first == again == GuestReport("node1", ["web1"], ("web2",), first.time_s), "it says when that was so"
