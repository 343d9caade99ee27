# SPDX-License-Identifier: BSD-2-Clause
"""What the daemon takes from MonDs: a new report of each node that is believed, whatever the others send."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ganeti.maintd.report_polling import LOAD_PATH, ReportPoller
from ganeti.model.objects import Node
from ganeti.node.collectors.diagnose import signed
from ganeti.system.http_client import BrokenError, HttpClient
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer

KEY = b"key"
EVACUATE = {"status": "evacuate"}


class Mond:
    """In place of the HTTP client: what each node answers."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Exception | int] = {}

    async def get(self, host: str, port: int, path: str, **_: Any) -> tuple[int, bytes]:
        answer = self.answers[host]
        if isinstance(answer, Exception):
            raise answer
        return (answer, b"") if isinstance(answer, int) else (200, answer)


def node(name: str) -> Node:
    return Node(uuid=f"uuid-{name}", name=name, primary_ip="10.0.0.1", secondary_ip="10.0.0.1", group="g")


def told(name: str, time_s: float, key: bytes = KEY) -> bytes:
    return json.dumps({"signed": signed(EVACUATE, name, key, time_s)}).encode()


class Clock:
    now_s = 1e9

    def __call__(self) -> float:
        return self.now_s


def look(poller: ReportPoller, *names: str) -> dict[str, Any]:
    return asyncio.run(poller.poll([node(name) for name in names], 5.0))


def test_one_that_is_not_believed_spoils_no_other() -> None:
    mond, clock = Mond(), Clock()
    poller = ReportPoller(mond, lambda: KEY, clock)  # type: ignore[arg-type]
    mond.answers = {
        "a": told("a", 1e9),
        "b": told("b", 1e9, b"forged"),
        "c": told("a", 1e9),
        "d": told("d", 1e9 - 1e6),
        "e": BrokenError("no route"),
        "f": b"{",
        "g": 404,
    }
    assert look(poller, *mond.answers) == {"uuid-a": EVACUATE}
    assert poller.refused == {"signature": 1, "node": 1, "time": 1, "unreadable": 1}


def test_a_report_counts_once_and_an_older_one_not_at_all() -> None:
    mond, clock = Mond(), Clock()
    poller = ReportPoller(mond, lambda: KEY, clock)  # type: ignore[arg-type]
    mond.answers = {"a": told("a", 1e9)}
    assert look(poller, "a") and not look(poller, "a"), "the same report is no second look"
    mond.answers = {"a": told("a", 1e9 - 10)}
    assert not look(poller, "a"), "an old report that is sent again is nothing new"
    mond.answers = {"a": told("a", 1e9 + 5)}
    assert look(poller, "a")


def test_after_a_clock_was_set_back_reports_count_again() -> None:
    mond, clock = Mond(), Clock()
    poller = ReportPoller(mond, lambda: KEY, clock)  # type: ignore[arg-type]
    mond.answers = {"a": told("a", 1e9)}
    assert look(poller, "a")
    clock.now_s = 1e9 - 86400
    assert not look(poller, "a") and poller.refused == {"time": 1}
    mond.answers = {"a": told("a", 1e9 - 86400)}
    assert look(poller, "a") == {"uuid-a": EVACUATE}


def test_loads_are_taken_where_they_can_be_read() -> None:
    mond = Mond()
    poller = ReportPoller(mond, lambda: KEY, Clock())  # type: ignore[arg-type]
    mond.answers = {"a": b'{"data": {"web1": 0.5, "web2": -1}}', "b": b"nonsense", "c": b'{"data": [1]}', "d": 404}
    assert asyncio.run(poller.loads([node(name) for name in mond.answers])) == {"web1": 0.5, "web2": 0.0}
    assert LOAD_PATH.startswith("/1/report/")


def test_a_gigabyte_is_cut_off() -> None:
    async def answer(request: HttpRequest) -> HttpReply:
        return HttpReply(200, b"x" * 3_000_000)

    async def scenario() -> None:
        server = HttpServer(answer, address="127.0.0.1", port=0, tls=None, early=True)
        await server.start()
        client = HttpClient(None, lambda host: "127.0.0.1")
        try:
            with pytest.raises(BrokenError, match="more than 1000000 bytes"):
                await client.get("a", server.port, "/", limit_s=10, connect_s=5, limit_bytes=1_000_000)
            status, body = await client.get("a", server.port, "/", limit_s=10, connect_s=5, limit_bytes=4_000_000)
            assert (status, len(body)) == (200, 3_000_000)
        finally:
            await client.close()
            await server.close()

    asyncio.run(scenario())
