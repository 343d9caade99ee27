# SPDX-License-Identifier: BSD-2-Clause
"""Clients that want too much: strangers, long bodies, slow ones; each is answered and let go."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ganeti.system import http_server
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer

HEAD = b"POST /%s HTTP/1.1\r\nHost: node1\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(autouse=True)
def short_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "LINGER_S", 0.05)


def ask(sent: bytes, **options: Any) -> tuple[bytes, list[bytes]]:
    """Give the whole answer, until the server closes, and the bodies that were handled."""

    async def story() -> tuple[bytes, list[bytes]]:
        handled: list[bytes] = []

        async def handle(request: HttpRequest) -> HttpReply:
            handled.append(request.body)
            return HttpReply(200, b"done")

        def door(request: HttpRequest) -> HttpReply | None:
            return HttpReply(403, b"stranger") if request.path == "/stranger" else None

        server = HttpServer(handle, address="127.0.0.1", port=0, tls=None, door=door, **options)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        async with asyncio.timeout(5):
            answer = await reader.readuntil(b"done") if b"GOOD" in sent else await reader.read()
        writer.close()
        await server.close()
        return answer, handled

    return asyncio.run(story())


def test_a_stranger_is_refused_before_the_body_has_come() -> None:
    answer, handled = ask(HEAD % (b"stranger", 60_000_000) + b"begin")
    assert b" 403 " in answer
    assert handled == []


def test_a_body_that_is_announced_too_long_is_not_waited_for() -> None:
    answer, handled = ask(HEAD % (b"version", http_server.BODY_LIMIT_BYTES + 1))
    assert b" 413 " in answer
    assert handled == []


def test_all_bodies_together_have_a_bound() -> None:
    """Of two clients with 60 bytes each, where 100 have room, the second is put off; then there is room again."""

    async def story() -> list[bytes]:
        begun, done = asyncio.Event(), asyncio.Event()

        async def handle(request: HttpRequest) -> HttpReply:
            begun.set()
            await done.wait()
            return HttpReply(200, b"done")

        server = HttpServer(handle, address="127.0.0.1", port=0, tls=None, bodies_limit_bytes=100)
        await server.start()

        async def ask_once() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(HEAD % (b"version", 60) + b"x" * 60)
            line = await reader.readline()
            writer.close()
            return line

        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            first = tasks.create_task(ask_once())
            await begun.wait()
            second = await ask_once()
            done.set()
            answers = [await first, second, await ask_once()]
        await server.close()
        return answers

    assert [line.split()[1] for line in asyncio.run(story())] == [b"200", b"503", b"200"]


def test_a_client_that_stops_in_the_middle_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_PAUSE_S", 0.05)
    answer, handled = ask(HEAD % (b"version", 10) + b"half")
    assert b" 408 " in answer
    assert handled == []


def test_a_whole_request_is_handled() -> None:
    answer, handled = ask(HEAD % (b"version", 4) + b"GOOD")
    assert b" 200 " in answer
    assert handled == [b"GOOD"]
    assert b"\r\nServer: Ganeti\r\n" in answer and b"Python" not in answer


@pytest.mark.parametrize(
    ("request_bytes", "status", "path"),
    [
        (b"FOO /2/info HTTP/1.1\r\nHost: a\r\n\r\n", 501, "/2/info"),
        (b"GET /2/info HTTP/1.1\r\nHost: a\r\nLong: " + b"a" * 9000 + b"\r\n\r\n", 431, "/"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431, "/"),
        (b"GET /2/info HTTP/1.1\r\nno header\r\n\r\n", 400, "/"),
    ],
)
def test_what_cannot_be_read_is_refused_as_other_requests_are(request_bytes: bytes, status: int, path: str) -> None:
    def refusal(request: HttpRequest, status: int, sentence: str, headers: object) -> HttpReply:
        return HttpReply(status, f"[{request.path}, {sentence}]".encode())

    answer, handled = ask(request_bytes, refusal=refusal)
    assert b" %d " % status in answer.splitlines()[0] and handled == []
    assert b"Content-Type: application/json\r\n" in answer and f"[{path}, ".encode() in answer
    assert b"Server: Ganeti\r\n" in answer and b"aiohttp" not in answer


@pytest.mark.parametrize(
    ("request_bytes", "said"),
    [
        (b"GET /2/info HTTP/1.1\r\n\r\n", b"Missing 'Host' header in request\n"),
        (b"GET /2/info HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"Duplicate 'Host' header found\n"),
        (b"GET /2/\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", b"Invalid char in url path\n"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"Invalid character in Content-Length\n"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_to_who_writes_a_client(request_bytes: bytes, said: bytes) -> None:
    answer, handled = ask(request_bytes)
    assert b" 400 " in answer.splitlines()[0] and handled == []
    assert answer.endswith(b"\r\n\r\nThis is no HTTP request: " + said)


def test_what_is_no_request_is_not_told_of_the_library() -> None:
    answer, handled = ask(b"\0\1\2\r\n\r\n")
    assert b" 400 " in answer and handled == []
    assert b"\r\nServer: Ganeti\r\n" in answer and b"aiohttp" not in answer


def test_a_client_that_is_gone_in_the_middle_is_no_fault_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """A daemon that ends while it asks: its connection is closed, here before the whole question has come."""

    async def story() -> None:
        begun = asyncio.Event()

        async def handle(request: HttpRequest) -> HttpReply:
            raise AssertionError("half a request was handled")

        def door(request: HttpRequest) -> HttpReply | None:
            begun.set()
            return None

        server = HttpServer(handle, address="127.0.0.1", port=0, tls=None, door=door)
        await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEAD % (b"version", 10) + b"half")
        async with asyncio.timeout(5):
            await begun.wait()
            writer.transport.abort()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)
        await server.close()

    asyncio.run(story())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(("bound", "client"), [("::", "127.0.0.1"), ("::", "::1"), ("::1", "::1")])
def test_all_addresses_of_ipv6_are_those_of_ipv4_too(bound: str, client: str) -> None:
    async def story() -> bytes:
        async def handle(request: HttpRequest) -> HttpReply:
            return HttpReply(200, b"done")

        server = HttpServer(handle, address=bound, port=0, tls=None)
        await server.start()
        reader, writer = await asyncio.open_connection(client, server.port)
        writer.write(HEAD % (b"version", 0))
        async with asyncio.timeout(5):
            answer = await reader.readuntil(b"done")
        writer.close()
        await server.close()
        return answer

    assert b" 200 " in asyncio.run(story())


def coded(body: bytes, coding: str, length: int | None = None) -> bytes:
    head = b"POST /version HTTP/1.1\r\nHost: node1\r\nConnection: close\r\n"
    return (
        head
        + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
        % (coding.encode(), len(body) if length is None else length)
        + body
    )


def test_a_body_in_gzip_or_deflate_is_unpacked() -> None:
    assert ask_in_two(coded(gzip.compress(b"whole"), "gzip"), b"")[1] == [b"whole"]
    assert ask_in_two(coded(zlib.compress(b"whole"), "Deflate"), b"")[1] == [b"whole"]


@pytest.mark.parametrize("coding", ["br", "foo", "gzip, gzip", "zstd"])
def test_a_body_in_a_coding_that_is_not_known_is_refused_by_name(coding: str) -> None:
    answer, handled = ask(coded(b"half", coding))
    assert b" 415 " in answer.splitlines()[0] and b"gzip" in answer and handled == []


@pytest.mark.parametrize(("first", "second"), [(b"no gzip", b""), (b"n", b"o gzip")])
def test_a_damaged_body_is_refused_and_is_no_fault(
    caplog: pytest.LogCaptureFixture, first: bytes, second: bytes
) -> None:
    answer, handled = ask_in_two(coded(first, "gzip", 7), second)
    assert b" 400 " in answer.splitlines()[0] and b"Content-Encoding" in answer and handled == []
    assert not caplog.records


def test_who_waits_to_be_told_to_send_the_body_is_told() -> None:
    head = b"POST /%s HTTP/1.1\r\nHost: node1\r\nConnection: close\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\n"
    answer, handled = ask_in_two(head % b"version", b"GOOD", b"100 Continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ") and handled == [b"GOOD"]
    answer, handled = ask(head % b"stranger")
    assert b" 403 " in answer.splitlines()[0] and handled == []
    answer, handled = ask(b"GET /version HTTP/1.1\r\nHost: node1\r\nExpect: cake\r\n\r\n")
    assert b" 417 " in answer.splitlines()[0] and handled == []


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9"])
def test_other_versions_of_http_are_refused(version: bytes) -> None:
    answer, handled = ask(b"GET /version %s\r\nHost: node1\r\n\r\n" % version)
    assert b" 505 " in answer.splitlines()[0] and handled == []


def ask_in_two(first: bytes, second: bytes, awaited: bytes = b"") -> tuple[bytes, list[bytes]]:
    """As `ask`, where *second* is sent once the server has read the first piece, and said *awaited*."""

    async def story() -> tuple[bytes, list[bytes]]:
        handled: list[bytes] = []
        begun = asyncio.Event()

        def door(request: HttpRequest) -> HttpReply | None:
            begun.set()
            return None

        async def handle(request: HttpRequest) -> HttpReply:
            handled.append(request.body)
            return HttpReply(200, b"done")

        server = HttpServer(handle, address="127.0.0.1", port=0, tls=None, door=door)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(first)
        async with asyncio.timeout(5):
            await begun.wait()
            if awaited:
                await reader.readuntil(awaited)
            writer.write(second)
            answer = await reader.read()
        writer.close()
        await server.close()
        return answer, handled

    return asyncio.run(story())


def test_head_of_an_answer_without_end_ends_with_its_headers() -> None:
    ended = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"piece"
        finally:
            ended.append(True)

    async def story() -> bytes:
        async def handle(request: HttpRequest) -> HttpReply:
            chunks = pieces()
            return HttpReply(200, await anext(chunks), chunks=chunks)

        server = HttpServer(handle, address="127.0.0.1", port=0, tls=None)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"HEAD /3/events HTTP/1.1\r\nHost: node1\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
        await server.close()
        return answer

    answer = asyncio.run(story())
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n") and b"piece" not in answer and ended
