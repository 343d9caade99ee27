# SPDX-License-Identifier: BSD-2-Clause
"""Documents keep their borders over both kinds of connection, whatever the pieces they come in."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

import ganeti
from ganeti.base.errors import TransportError
from ganeti.system import unix_socket
from ganeti.wire import framing_sync
from ganeti.wire.framing import Connection, MessageTooLong, encode
from ganeti.wire.framing_sync import SyncConnection


async def stream_pair(limit_bytes: int = framing_sync.MESSAGE_LIMIT_BYTES) -> tuple[Connection, socket.socket]:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    return Connection(reader, writer, limit_bytes), theirs


def received(chunks: list[bytes], count: int, limit_bytes: int = framing_sync.MESSAGE_LIMIT_BYTES) -> list:
    """What a `Connection` reads from these pieces, each sent only after the one before was taken."""

    async def go() -> list:
        connection, theirs = await stream_pair(limit_bytes)
        try:
            results = []

            async def feed() -> None:
                for chunk in chunks:
                    theirs.sendall(chunk)
                    await asyncio.sleep(0)
                theirs.shutdown(socket.SHUT_WR)

            feeder = asyncio.ensure_future(feed())
            for _ in range(count):
                results.append(await connection.receive())
            await feeder
            return results
        finally:
            connection.abort()
            theirs.close()

    return asyncio.run(go())


def test_documents_come_out_as_they_went_in_however_they_are_cut():
    documents = [{"a": "\x03 is escaped \n"}, [1, 2.5, None], "é"]
    data = b"".join(encode(document) for document in documents)
    assert received([data], 3) == documents
    assert received([data[i : i + 1] for i in range(len(data))], 3) == documents


def test_what_is_not_json_is_refused_and_what_follows_is_read():
    async def go() -> object:
        connection, theirs = await stream_pair()
        theirs.sendall(b"{nonsense\x03" + encode({"ok": True}))
        with pytest.raises(TransportError, match="not a JSON document"):
            await connection.receive()
        answer = await connection.receive()
        theirs.close()
        connection.abort()
        return answer

    assert asyncio.run(go()) == {"ok": True}


def test_an_endless_message_is_refused_at_the_limit():
    with pytest.raises(MessageTooLong, match="longer than 1000 bytes"):
        received([b"x" * 2000], 1, limit_bytes=1000)


def test_an_end_within_a_message_is_told_from_a_clean_end():
    with pytest.raises(TransportError, match="within a message"):
        received([b'{"half":'], 1)
    with pytest.raises(TransportError, match="closed the connection"):
        received([], 1)


def test_blocking_and_asynchronous_sides_understand_each_other_over_a_long_path(tmp_path):
    directory = tmp_path / ("deep" * 30) / ("deeper" * 20)
    directory.mkdir(parents=True)
    path = str(directory / "socket")
    assert len(path) > 200
    big = {"text": "x" * 5_000_000}
    answers = []

    def ask() -> None:
        with framing_sync.connect(path) as connection:
            connection.send(big)
            answers.append(connection.receive())
            connection.send(["second"])
            answers.append(connection.receive())

    async def go() -> None:
        async def echo(connection: Connection) -> None:
            while (data := await connection.receive_bytes()) is not None:
                await connection.send({"echo": msgspec.Raw(data)})

        server = await unix_socket.serve(path, echo)
        assert os.stat(path).st_mode & 0o777 == 0o660
        await asyncio.to_thread(ask)
        await server.close()
        assert not os.path.exists(path)

    asyncio.run(go())
    assert answers == [{"echo": big}, {"echo": ["second"]}]


def test_nobody_listening_is_said_with_the_path(tmp_path):
    path = str(tmp_path / "nobody")
    with pytest.raises(TransportError, match=rf"Cannot connect to {path}"):
        framing_sync.connect(path)
    with pytest.raises(TransportError, match=rf"Cannot connect to {path}"):
        asyncio.run(unix_socket.connect(path))


def test_a_socket_file_of_a_dead_daemon_is_replaced(tmp_path):
    path = str(tmp_path / "socket")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    dead.close()

    async def go() -> object:
        async def greet(connection: Connection) -> None:
            await connection.send("hello")

        server = await unix_socket.serve(path, greet)
        connection = await unix_socket.connect(path)
        greeting = await connection.receive()
        await connection.close()
        await server.close()
        return greeting

    assert asyncio.run(go()) == "hello"


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [(b"[1,\x03", "not JSON"), (b'{"half"', "closed the connection"), (b"x" * 200 + b"\x03", "more than 100 bytes")],
)
def test_the_blocking_side_names_what_is_wrong(sent, complaint):
    ours, theirs = socket.socketpair()
    connection = SyncConnection(ours, limit_bytes=100)
    theirs.sendall(sent[:150])
    sender = threading.Thread(target=lambda: (theirs.sendall(sent[150:]), theirs.shutdown(socket.SHUT_WR)))
    sender.start()
    with pytest.raises(TransportError, match=complaint):
        connection.receive()
    sender.join()
    connection.close()
    theirs.close()


def test_the_blocking_side_gives_up_in_time():
    ours, theirs = socket.socketpair()
    connection = SyncConnection(ours)
    connection.set_timeout(0.01)
    with pytest.raises(TransportError, match="in time"):
        connection.receive()
    connection.close()
    theirs.close()


def test_commands_pay_for_no_package_of_the_standard_library():
    program = (
        "import sys, os, errno, gc, time, _socket, _json, __future__\nsys.path[:0] = sys.argv[1:]\n"
        "before = set(sys.modules)\nimport ganeti.wire.framing_sync\nprint(*sorted(set(sys.modules) - before))"
    )
    source = str(Path(ganeti.__path__[0]).parent)
    done = subprocess.run([sys.executable, "-IS", "-c", program, source], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "ganeti.wire.framing_sync" in loaded
    assert all(name.split(".")[0] == "ganeti" for name in loaded)
