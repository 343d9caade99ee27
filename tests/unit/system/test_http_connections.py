# SPDX-License-Identifier: BSD-2-Clause
"""What a client of our daemons makes of answers: whole ones, early ones, and what is none."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from ganeti.base.errors import NodeTimeoutError
from ganeti.system.http_client import BrokenError, HttpClient
from ganeti.system.http_connections import ConnectError, Place, Pool, Request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Gives each request of a connection its answer, after which it goes on, or not."""

    def __init__(self, *answers: bytes, goes_on: bool = True) -> None:
        self.answers = list(answers)
        self.goes_on = goes_on
        self.connections = 0
        self.port = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers and (head := await reader.readuntil(b"\r\n\r\n")):
                self.requests.append(head + await self.body(reader, head))
                writer.write(self.answers.pop(0))
                await writer.drain()
                if not self.goes_on:
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def body(self, reader: asyncio.StreamReader, head: bytes) -> bytes:
        if b"Content-Length: " in head:
            return await reader.readexactly(int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]))
        return await reader.readuntil(b"0\r\n\r\n") if b"chunked" in head else b""


def play(server: Any, story: Callable[[HttpClient, int], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        client = HttpClient(None, lambda host: "127.0.0.1")
        try:
            server.port = listening.sockets[0].getsockname()[1]
            return await story(client, server.port)
        finally:
            await client.close()
            listening.close()

    return asyncio.run(asyncio.wait_for(go(), 20))


def post(client: HttpClient, port: int, body: Any = None, limit_s: float = 5.0) -> Awaitable[tuple[int, bytes]]:
    body = pieces(b"{}") if body is None else body  # what is short goes another way
    return client.post("node1", port, "/version", body, limit_s=limit_s, connect_s=5.0, headers={"X-Sent": "1"})


def get(client: HttpClient, port: int, limit_bytes: int = 100) -> Awaitable[tuple[int, bytes]]:
    return client.get("node1", port, "/", limit_s=5.0, connect_s=5.0, limit_bytes=limit_bytes)


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for each in given:
        yield each


def test_requests_follow_each_other_on_one_connection():
    chunks = b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTold: 1\r\n\r\n"
    chunked = b"HTTP/1.1 201 Made\r\ntransfer-encoding: Chunked\r\n\r\n" + chunks
    server = Server(OK, chunked, b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"HTTP/1.1 204 No\r\n\r\n", OK)

    async def story(client: HttpClient, port: int) -> Any:
        return [await post(client, port, pieces(*body)) for body in ([b"{}"], [], [b"ab", b"", b"c"], [])] + [
            await get(client, port)
        ]

    answers = play(server, story)
    assert answers == [(200, b"ok"), (201, b"abc0123456789"), (200, b"ok"), (204, b""), (200, b"ok")]
    assert server.connections == 1
    assert server.requests[0] == (
        b"POST /version HTTP/1.1\r\nHost: node1:%d\r\nContent-Type: application/json\r\nX-Sent: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" % server.port
    )
    assert server.requests[2].endswith(b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert server.requests[4] == b"GET / HTTP/1.1\r\nHost: node1:%d\r\n\r\n" % server.port


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.0 200 OK\r\n\r\nall", b"all"),
    ],
)
def test_a_connection_that_the_server_ends_is_not_used_again(answer, body):
    async def story(client: HttpClient, port: int) -> Any:
        return [await get(client, port), await get(client, port)]

    server = Server(answer, answer, goes_on=False)
    assert play(server, story) == [(200, body)] * 2
    assert server.connections == 2


def test_an_answer_may_come_before_the_whole_request():
    """A refused client reads why, however much it still has to send."""

    class Refusing(Server):
        async def body(self, reader: asyncio.StreamReader, head: bytes) -> bytes:
            return b""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    async def story(client: HttpClient, port: int) -> Any:
        return await post(client, port, endless())

    assert play(Refusing(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno", OK), story) == (413, b"no")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokk\r\n",
        b"220 mail.example.com\r\n\r\n",
        b"x" * 100_000,
    ],
)
def test_what_is_no_answer_is_a_broken_connection(answer):
    async def story(client: HttpClient, port: int) -> Any:
        with pytest.raises(BrokenError, match=r"broke|reset") as caught:
            await post(client, port)
        return caught.value.may_restart and caught.value.stale

    assert play(Server(answer, goes_on=False), story)


@pytest.mark.parametrize("head", [b"Content-Length: 200\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nc8\r\n", b"\r\n"])
def test_a_body_that_is_too_long_is_not_taken(head):
    async def story(client: HttpClient, port: int) -> None:
        with pytest.raises(BrokenError, match="sends more than 100 bytes"):
            await get(client, port)

    play(Server(b"HTTP/1.1 200 OK\r\n" + head + b"x" * 200, goes_on=False), story)


def test_a_server_that_does_not_answer_is_waited_for_in_vain():
    async def story(client: HttpClient, port: int) -> int:
        with pytest.raises(NodeTimeoutError, match="did not answer the call version within 0 seconds"):
            await post(client, port, limit_s=0.05)
        return (await post(client, port))[0]

    class Silent(Server):
        async def body(self, reader: asyncio.StreamReader, head: bytes) -> bytes:
            if len(self.requests) == 0:
                self.requests.append(b"")
                await reader.read()
            return await super().body(reader, head)

    assert play(Silent(OK, OK), story) == 200


def test_nobody_listens():
    async def story(client: HttpClient, port: int) -> BrokenError:
        with pytest.raises(BrokenError, match="Connection refused, is its node daemon running") as caught:
            await post(client, 1)
        return caught.value

    broken = play(Server(), story)
    assert broken.may_restart and not broken.stale and not broken.has_other


def test_a_piece_that_cannot_be_read_is_why_there_is_no_answer():
    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise FileNotFoundError(2, "gone")

    async def story(client: HttpClient, port: int) -> None:
        with pytest.raises(BrokenError, match="No such file"):
            await post(client, port, failing())

    play(Server(OK), story)
    gc.collect()


class Dark(Pool):
    """Some places take no connection, and do not say so."""

    async def _connected(self, place: Place, within_s: float) -> Any:
        if place.host.startswith("dark"):
            await asyncio.sleep(within_s)
            raise ConnectError(None)
        return await super()._connected(place, within_s)


def test_places_that_are_known_to_be_dark_leave_room_for_the_others() -> None:
    server = Server(OK, OK)

    async def story(client: HttpClient, port: int) -> Any:
        pool = Dark(None, most=2, kept_s=1.0)
        dark = [Place(f"dark{number}", "127.0.0.1", port) for number in range(2)]
        request = Request("POST", "/version", {}, b"{}")
        for place in dark:
            with pytest.raises(ConnectError):
                await pool.exchange(place, request, 0.001)
        waiting = [asyncio.ensure_future(pool.exchange(place, request, 60.0)) for place in dark]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(5.0):
                return await pool.exchange(Place("node1", "127.0.0.1", port), request, 5.0)
        finally:
            for each in waiting:
                each.cancel()
            pool.close()

    assert play(server, story) == (200, b"ok")
