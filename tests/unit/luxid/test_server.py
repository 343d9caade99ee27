# SPDX-License-Identifier: BSD-2-Clause
"""LUXI connections: nonsense, haste, sloth and crowds. Whatever one client does, the others are answered."""

import asyncio
import json
import resource
import socket

import pytest

from ganeti.base.errors import GanetiError, TransportError
from ganeti.calls.serving import handlers_of, serves
from ganeti.luxid import server as luxi_server
from ganeti.luxid.arguments import JobId, Kill
from ganeti.luxid.server import LuxiServer
from ganeti.system import unix_socket
from ganeti.system.unix_socket import connect, serve
from ganeti.wire import framing_sync
from ganeti.wire.framing import Connection, encode
from ganeti.wire.luxi import MAX_MESSAGE_BYTES

END = b"\x03"
ECHO = encode({"method": "Echo", "args": [1]})


async def echo(args):
    return args


async def fault(args):
    raise ZeroDivisionError("by nothing")


async def refuse(args):
    raise GanetiError("Not today: come tomorrow")


async def surrogate(args):
    return "\ud800"


def serving(tmp_path, scenario, *, calls=None, streams=None):
    """Run *scenario(path, server)* beside a server."""

    async def go():
        server = LuxiServer({"Echo": echo, "Fault": fault, "Refuse": refuse, **(calls or {})}, streams)
        path = str(tmp_path / "luxi")
        await server.listen(path)
        try:
            async with asyncio.timeout(30):
                return await scenario(path)
        finally:
            await server.close()

    return asyncio.run(go())


async def exchange(path: str, data: bytes) -> list:
    """Send bytes, then give all answers until the server closes, or has answered as often as there are ends."""
    reader, writer = await asyncio.open_unix_connection(path, limit=MAX_MESSAGE_BYTES)
    try:
        writer.write(data)
        answers = []
        while len(answers) < max(1, data.count(END)):
            try:
                answers.append(json.loads((await reader.readuntil(END))[:-1]))
            except asyncio.IncompleteReadError as err:
                return [*answers, "closed"] if not err.partial else ["broken"]
        return answers
    finally:
        writer.close()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nonsense",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"method": "Echo", "args": ["\xff\xfe"]}',
        b'{"method": "Echo", "args": [1e999]}',
        b'{"method": "Echo", "args": [NaN]}',
        b'{"method": "Echo", "args": [1]} {}',
        b"[]",
        b"null",
        b'"Echo"',
        b"7",
        b"{}",
        b'{"method": null}',
        b'{"method": ["Echo"], "args": []}',
        b'{"method": "Echo", "args": {}}',
        b'{"method": "Echo", "args": "x"}',
        b'{"method": "Nosuch", "args": []}',
        b'{"method": "\\ud800", "args": []}',
        b'{"method": "", "args": []}',
        b'{"args": []}',
    ],
)
def test_what_is_no_request_gets_a_sentence_and_the_end_of_its_connection(tmp_path, data):
    async def scenario(path):
        other = await connect(path)
        answers = await exchange(path, data + END + ECHO)
        await other.send_bytes(ECHO)
        assert await other.receive() == {"success": True, "result": [1]}
        return answers

    answer, end = serving(tmp_path, scenario)
    assert answer["success"] is False and answer["result"].startswith("Failed to parse request: ")
    assert end == "closed"


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 30, "1" + "0" * 5000])
def test_numbers_of_any_length_are_read_or_refused(tmp_path, number):
    async def scenario(path):
        return (await exchange(path, b'{"method": "Echo", "args": [%s]}' % number.encode() + END))[0]

    answer = serving(tmp_path, scenario)
    assert answer["success"] is False or answer["result"] == [int(number)]


def test_faults_and_refusals_leave_the_connection_open(tmp_path):
    async def scenario(path):
        requests = [encode({"method": method, "args": []}) for method in ("Fault", "Refuse", "Odd", "Echo")]
        return await exchange(path, b"".join(requests))

    answers = serving(tmp_path, scenario, calls={"Odd": surrogate})
    assert [answer["success"] for answer in answers] == [False, False, False, True]
    assert answers[0]["result"][1] == ["The call Fault failed with an internal error: ZeroDivisionError: by nothing"]
    assert answers[1]["result"] == ["GenericError", ["Not today: come tomorrow"]]


def test_requests_sent_together_are_answered_in_order(tmp_path):
    async def slow(args):
        await asyncio.sleep(0)
        return args

    async def scenario(path):
        requests = [encode({"method": ("Slow", "Echo")[n % 2], "args": [n]}) for n in range(2000)]
        return await exchange(path, b"".join(requests))

    answers = serving(tmp_path, scenario, calls={"Slow": slow})
    assert [answer["result"] for answer in answers] == [[n] for n in range(2000)]


def test_a_message_over_the_limit_is_refused_and_those_below_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(luxi_server, "MAX_MESSAGE_BYTES", 1000)

    async def scenario(path):
        short = await exchange(path, encode({"method": "Echo", "args": ["x" * 900]}))
        return short, await exchange(path, encode({"method": "Echo", "args": ["x" * 1000]}) + ECHO)

    (short,), (long, end) = serving(tmp_path, scenario)
    assert short["success"] is True
    assert long == {
        "success": False,
        "result": "Failed to parse request: The message is longer than 1000 bytes, which is the most",
    }
    assert end == "closed"


def test_half_a_message_holds_up_nobody_and_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    """One sends a byte now and then, another keeps silent within a message, a third is quick."""
    monkeypatch.setattr(LuxiServer, "message_s", 0.5)

    async def drip(path):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            while not reader.at_eof():
                writer.write(b" ")
                try:
                    async with asyncio.timeout(0.05):
                        return json.loads((await reader.readuntil(END))[:-1])
                except TimeoutError:
                    continue
        finally:
            writer.close()

    async def quick(path):
        for _ in range(100):
            assert await exchange(path, ECHO) == [{"success": True, "result": [1]}]

    async def idle(path):
        """Nothing is asked for as long as the others take, and longer than a message may take."""
        connection = await connect(path)
        await asyncio.gather(drip(path), exchange(path, b"{"))
        await connection.send_bytes(ECHO)
        return await connection.receive()

    async def scenario(path):
        return await asyncio.gather(drip(path), exchange(path, b"{"), quick(path), idle(path))

    dripped, (silent, *_), _, idled = serving(tmp_path, scenario)
    assert dripped == silent
    assert dripped == {
        "success": False,
        "result": "Failed to parse request: The message was not complete within 0.5 s",
    }
    assert idled == {"success": True, "result": [1]}


def test_a_client_that_does_not_read_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(LuxiServer, "send_s", 0.2)

    async def scenario(path):
        _, writer = await asyncio.open_unix_connection(path, limit=1024)
        try:
            writer.write(encode({"method": "Echo", "args": ["x" * 4_000_000]}))
            await writer.drain()
            assert await exchange(path, ECHO) == [{"success": True, "result": [1]}]
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                while True:  # the server has hung up as soon as writing fails
                    writer.write(b" " * 65536)
                    await writer.drain()
        finally:
            writer.transport.abort()

    serving(tmp_path, scenario)


def test_a_call_that_streams_may_refuse_first(tmp_path):
    async def stream(connection: Connection, args):
        if not args:
            raise GanetiError("Say of what")
        await connection.send({"success": True, "result": args})
        await connection.send({"event": 1})

    async def scenario(path):
        refused = encode({"method": "Follow", "args": []})
        return await exchange(path, refused + encode({"method": "Follow", "args": [7]}) + ECHO + ECHO)

    answers = serving(tmp_path, scenario, streams={"Follow": stream})
    assert answers == [
        {"success": False, "result": ["GenericError", ["Say of what"]]},
        {"success": True, "result": [7]},
        {"event": 1},
        "closed",
    ]


def test_beyond_the_most_connections_clients_are_told_and_later_served(tmp_path):
    async def handle(connection: Connection):
        while await connection.receive_bytes() is not None:
            await connection.send("served")

    async def go():
        path = str(tmp_path / "socket")
        server = await serve(path, handle, connections_max=3)
        try:
            served = [await connect(path) for _ in range(3)]
            for connection in served:
                await connection.send("?")
                assert await connection.receive() == "served"
            refused = [await connect(path) for _ in range(5)]
            for connection in refused:
                answer = await connection.receive()
                assert answer["success"] is False and "try again later" in answer["result"][1][0]
                assert await connection.receive_bytes() is None
            await served[0].close()
            assert await until_served(path) == "served"
        finally:
            await server.close()

    asyncio.run(go())


async def until_served(path):
    """The server learns on its own time that a place has become free."""
    async with asyncio.timeout(10):
        while True:
            connection = await connect(path)
            try:
                await connection.send("?")
                answer = await connection.receive()
                if answer == "served":
                    return answer
            finally:
                connection.abort()


def test_without_descriptors_clients_are_refused_and_the_server_goes_on(tmp_path, monkeypatch, caplog):
    """The limit of open files is reached: no spinning, no end, and a line in the log, not many."""

    async def handle(connection: Connection):
        await connection.send("welcome")
        while await connection.receive_bytes() is not None:
            await connection.send("served")

    async def go():
        path = str(tmp_path / "socket")
        server = await serve(path, handle)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        loop = asyncio.get_running_loop()
        first = await connect(path)
        clients = []
        blockers = []
        try:
            assert await first.receive() == "welcome"
            clients += [socket.socket(socket.AF_UNIX) for _ in range(40)]
            for client in clients:
                client.setblocking(False)
            highest = max(client.fileno() for client in clients)
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, before[1]))
            blockers += fill_descriptors()
            answers = []
            for client in clients:
                await loop.sock_connect(client, path)
                answers.append(await loop.sock_recv(client, 1000))
            refused = [answer for answer in answers if b"try again later" in answer]
            assert len(refused) > len(clients) / 2  # something else in this process may have closed a file meanwhile
            await first.send("?")
            assert await first.receive() == "served"
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            later = await connect(path)
            assert await later.receive() == "welcome"
            later.abort()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for each in [*clients, *blockers]:
                each.close()
            first.abort()
            await server.close()

    asyncio.run(asyncio.wait_for(go(), 30))
    complaints = [record for record in caplog.records if "new clients are refused" in record.message]
    assert 0 < len(complaints) <= 3


def fill_descriptors():
    taken = []
    while True:
        try:
            taken.append(open("/dev/null"))  # noqa: SIM115
        except OSError:
            return taken


def test_the_limit_of_connections_leaves_descriptors_for_the_rest(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    assert unix_socket.most_connections() == 384
    raised = []

    def set_as_anybody(which, limits):
        if limits[1] > 4096:
            raise ValueError("not allowed to raise maximum limit")
        raised.append(limits)

    monkeypatch.setattr(resource, "setrlimit", set_as_anybody)
    unix_socket.allow_many_connections()
    assert raised == [(4096, 4096)]
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: raised.append(limits))
    unix_socket.allow_many_connections()
    assert raised[1:] == [(32_768, 32_768)], "root's limits are its own"
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 64))
    assert unix_socket.most_connections() == 16, "the daemons of a node reach each other with the least limit, too"


def test_two_thousand_clients_are_served_side_by_side(tmp_path):
    if unix_socket.most_connections() < 2000:
        pytest.skip("this machine allows too few open files")

    async def scenario(path):
        connections = [await connect(path) for _ in range(2000)]
        await asyncio.gather(*(connection.send_bytes(ECHO) for connection in connections))
        answers = await asyncio.gather(*(connection.receive() for connection in connections))
        for connection in connections:
            connection.abort()
        return answers

    assert serving(tmp_path, scenario) == [{"success": True, "result": [1]}] * 2000


@pytest.mark.parametrize("how", ["asyncio", "blocking"])
def test_who_comes_in_a_crowd_stands_in_line(tmp_path, how):
    """A Unix socket refuses at once when too many wait to be accepted: our clients try again until they are."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = fill_line(path)
        try:
            with pytest.raises(TransportError, match="is the daemon running"):
                asyncio.run(connect(path, 0.05)) if how == "asyncio" else framing_sync.connect(path, 0.05)

            async def connected():
                if how == "asyncio":
                    return await connect(path)
                return await asyncio.to_thread(framing_sync.connect, path)

            async def go():
                client = asyncio.ensure_future(connected())
                for _ in range(len(waiting) + 1):
                    waiting.append((await asyncio.to_thread(listener.accept))[0])
                ended = (await client).close()
                if how == "asyncio":
                    await ended

            asyncio.run(asyncio.wait_for(go(), 20))
        finally:
            for each in waiting:
                each.close()


def fill_line(path):
    waiting = []
    while True:
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            client.connect(path)
        except BlockingIOError:
            client.close()
            return waiting
        waiting.append(client)


class Declared:
    """One call whose second argument may be left out."""

    @serves("CancelIt")
    async def cancel(self, job_id: JobId, kill: Kill = False) -> list[object]:
        return [job_id, kill]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ([7], [7, False]),
        (["7", True], [7, True]),
        ([], "CancelIt takes 1 to 2 arguments, not 0: job id, kill"),
        ([7, True, 0], "CancelIt takes 1 to 2 arguments, not 3: job id, kill"),
        (["x"], "Invalid job ID 'x': it must be a positive number"),
        ([7, 1], "The kill must be true or false, not 1"),
    ],
)
def test_arguments_are_read_as_they_are_declared(arguments, answer):
    call = handlers_of(Declared())["CancelIt"]
    if isinstance(answer, list):
        assert asyncio.run(call(arguments)) == answer
        return
    with pytest.raises(GanetiError) as refused:
        asyncio.run(call(arguments))
    assert refused.value.message == answer
