# SPDX-License-Identifier: BSD-2-Clause
"""Short requests are answered at once; what looks otherwise is left to the general server, on the same connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from ganeti.base.errors import NodeTimeoutError
from ganeti.system import http_server
from ganeti.system.http_client import BrokenError, HttpClient
from ganeti.system.http_connections import SHORT_BYTES
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer

ADDRESS = "127.0.0.1"
SHORT = b"POST /version HTTP/1.1\r\nHost: node1\r\n%sContent-Length: %d\r\n\r\n%s"


class Bed:
    """A server, what came to its handler, and which connections the general server was given."""

    def __init__(self) -> None:
        self.handled: list[HttpRequest] = []
        self.answer = b"done"
        self.go_on: asyncio.Event | None = None
        self.came = asyncio.Event()
        self.is_over = False
        self.port = 0
        self.server = HttpServer(
            self.handle, address=ADDRESS, port=0, tls=None, door=self.door, short=frozenset({"sent-at"})
        )

    async def handle(self, request: HttpRequest) -> HttpReply:
        self.handled.append(request)
        self.came.set()
        if self.go_on is not None:
            await self.go_on.wait()
        return HttpReply(200, self.answer)

    def door(self, request: HttpRequest) -> HttpReply | None:
        return HttpReply(403, b"stranger") if request.path == "/stranger" else None

    async def close(self) -> None:
        if not self.is_over:
            self.is_over = True
            await self.server.close()

    @property
    def is_general(self) -> bool:
        """Whether the general server has a connection."""
        assert self.server._server is not None
        return bool(self.server._server.connections)


def play(story: Callable[[Bed], Awaitable[None]]) -> None:
    async def whole() -> None:
        bed = Bed()
        await bed.server.start()
        bed.port = bed.server.port
        try:
            async with asyncio.timeout(10):
                await story(bed)
        finally:
            await bed.close()

    asyncio.run(whole())


async def say(server: HttpServer, *pieces: bytes, answers: int = 1) -> list[tuple[bytes, bytes]]:
    """Send each piece by itself; give the status line and the body of so many answers."""
    reader, writer = await asyncio.open_connection(ADDRESS, server.port)
    writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(0)
    found = []
    for _ in range(answers):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        found.append((head.partition(b"\r\n")[0], await reader.readexactly(length)))
    writer.close()
    return found


async def post(client: HttpClient, bed: Bed, body: bytes, path: str = "/version", limit_s: float = 5.0) -> bytes:
    status, answer = await client.post(
        "node1", bed.port, path, body, limit_s=limit_s, connect_s=5.0, headers={"Sent-At": "17"}
    )
    return b"%d %s" % (status, answer)


def test_calls_of_one_caller_take_one_connection_and_long_ones_another() -> None:
    async def story(bed: Bed) -> None:
        client = HttpClient(None, lambda _: ADDRESS)
        for body in (b"{}", b"", b"x" * SHORT_BYTES):
            assert await post(client, bed, body) == b"200 done"
            assert (bed.handled[-1].body, bed.handled[-1].peer) == (body, ADDRESS)
            assert bed.handled[-1].headers["sent-at"] == "17"
        assert not bed.is_general
        bed.answer = b"a" * 1_000_000
        assert await post(client, bed, b"x" * (SHORT_BYTES + 1)) == b"200 " + bed.answer
        assert bed.is_general
        assert await post(client, bed, b"{}") == b"200 " + bed.answer
        assert await post(client, bed, b"{}", "/stranger") == b"403 stranger"
        assert await post(client, bed, b"{}") == b"200 " + bed.answer
        await client.close()

    play(story)


@pytest.mark.parametrize(
    "sent",
    [
        (SHORT % (b"Connection: close\r\n", 2, b"{}"),),
        (SHORT[:9], SHORT[9:] % (b"", 2, b"{}")),
        (b"GET" + SHORT[4:] % (b"", 2, b"{}"),),
        (SHORT % (b"Transfer-Encoding: chunked\r\n", 2, b"{}"),),
        (SHORT % (b"Content-Length: 2\r\n", 2, b"{}"),),
        (SHORT % (b"Sent-At : 1\r\n", 2, b"{}"),),
        (b"\x16\x03 no HTTP at all\r\n\r\n",),
    ],
    ids=["other header", "torn head", "other method", "chunked", "length twice", "odd header", "no HTTP"],
)
def test_what_is_written_otherwise_is_the_general_servers(sent: tuple[bytes, ...]) -> None:
    async def story(bed: Bed) -> None:
        plain = HttpServer(bed.handle, address=ADDRESS, port=0, tls=None, door=bed.door)
        await plain.start()
        expected = await say(plain, *sent)
        handled = [request.body for request in bed.handled]
        assert await say(bed.server, *sent) == expected
        assert [request.body for request in bed.handled] == handled * 2
        await plain.close()

    play(story)


def test_a_body_may_come_in_pieces_and_the_next_request_with_its_end() -> None:
    async def story(bed: Bed) -> None:
        one, other = SHORT % (b"", 6, b"abcdef"), SHORT % (b"", 2, b"gh")
        answers = await say(bed.server, one[:-3], one[-3:] + other, answers=2)
        assert [request.body for request in bed.handled] == [b"abcdef", b"gh"]
        assert answers == [(b"HTTP/1.1 200 OK", b"done")] * 2
        assert not bed.is_general

    play(story)


def test_the_rest_of_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_PAUSE_S", 0.05)

    async def story(bed: Bed) -> None:
        reader, _writer = await asyncio.open_connection(ADDRESS, bed.server.port)
        _writer.write(SHORT % (b"", 6, b"abc"))
        assert b" 408 " in await reader.read()
        assert not bed.handled

    play(story)


def test_a_connection_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "KEEPALIVE_S", 0.05)

    async def story(bed: Bed) -> None:
        reader, writer = await asyncio.open_connection(ADDRESS, bed.server.port)
        writer.write(SHORT % (b"", 2, b"{}"))
        assert (await reader.read()).endswith(b"done")
        client = HttpClient(None, lambda _: ADDRESS)
        for _ in range(2):  # the second finds the connection of the first closed, and opens another one
            assert await post(client, bed, b"{}") == b"200 done"
            await asyncio.sleep(0.2)
        await client.close()

    play(story)


def test_an_answer_that_does_not_come_in_time_is_taken_for_no_other_request() -> None:
    async def story(bed: Bed) -> None:
        client = HttpClient(None, lambda _: ADDRESS)
        bed.go_on = asyncio.Event()
        bed.answer = b"late"
        with pytest.raises(NodeTimeoutError, match="did not answer the call version"):
            await post(client, bed, b"{}", limit_s=0.05)
        bed.go_on.set()
        bed.answer = b"done"
        assert await post(client, bed, b"{}") == b"200 done"
        await client.close()

    play(story)


def test_a_server_that_ends_breaks_what_it_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SHUTDOWN_S", 0.05)

    async def story(bed: Bed) -> None:
        client = HttpClient(None, lambda _: ADDRESS)
        bed.go_on = asyncio.Event()
        asking = asyncio.ensure_future(post(client, bed, b"{}"))
        await bed.came.wait()
        await bed.close()
        with pytest.raises(BrokenError) as broken:
            await asking
        assert broken.value.may_restart and broken.value.stale
        with pytest.raises(BrokenError, match="Connection refused, is its node daemon running"):
            await post(client, bed, b"{}")
        await client.close()

    play(story)
