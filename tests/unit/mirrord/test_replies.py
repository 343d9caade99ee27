# SPDX-License-Identifier: BSD-2-Clause
"""Requests and answers of NBD: which are due, which tell of an error, and who hears of a loss first."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from ganeti.mirrord import relay
from ganeti.mirrord.relay import carry
from ganeti.mirrord.replies import NotNbdError, Replies
from ganeti.mirrord.requests import Requests

GREETING = b"NBDMAGIC" + b"IHAVEOPT" + b"\0\3"
REPLY = struct.Struct(">QIII")
STRUCTURED = REPLY.pack(0x3E889045565A9, 8, 1, 0)
SHOWN = REPLY.pack(0x3E889045565A9, 7, 3, 12) + bytes(12) + REPLY.pack(0x3E889045565A9, 7, 1, 0)
BEGUN = GREETING + STRUCTURED + SHOWN
DONE = struct.pack(">IIQ", 0x67446698, 0, 7)
NO_SPACE = struct.pack(">IIQ", 0x67446698, 28, 8)
READ = struct.pack(">IHHQI", 0x668E33EF, 1, 1, 9, 12) + bytes(8) + b"data"
FAILED = struct.pack(">IHHQI", 0x668E33EF, 1, 0x8001, 10, 6) + struct.pack(">IH", 5, 0)
EXTENDED = struct.Struct(">IHHQQQ")
"""What QEMU asks for from 8.2 on."""
LONG_DONE = EXTENDED.pack(0x6E8A278C, 1, 0, 11, 4096, 0)
LONG_READ = EXTENDED.pack(0x6E8A278C, 1, 1, 12, 0, 12) + bytes(8) + b"data"
CLIENT_BEGUN = bytes(4) + b"IHAVEOPT" + struct.pack(">II", 8, 0) + b"IHAVEOPT" + struct.pack(">II", 7, 10) + bytes(10)
CLIENT_REQUEST, LONG_REQUEST = struct.Struct(">IHHQQI"), struct.Struct(">IHHQQQ")
WRITE = CLIENT_REQUEST.pack(0x25609513, 0, 1, 7, 0, 4096) + bytes(4096)
ASK_READ = CLIENT_REQUEST.pack(0x25609513, 0, 0, 8, 0, 4096)
DISCONNECT = CLIENT_REQUEST.pack(0x25609513, 0, 2, 9, 0, 0)
LONG_WRITE = LONG_REQUEST.pack(0x21E41C71, 1 << 5, 1, 10, 0, 4096) + bytes(4096)
LONG_ZEROES = LONG_REQUEST.pack(0x21E41C71, 0, 6, 11, 0, 2**33)
LONG_FAILED = EXTENDED.pack(0x6E8A278C, 1, 0x8001, 13, 4096, 6) + struct.pack(">IH", 28, 0)


@pytest.mark.parametrize("at_once", [1, 7, 4096])
@pytest.mark.parametrize(
    ("said", "fails"),
    [
        (BEGUN + DONE + READ + DONE, False),
        (BEGUN + DONE + NO_SPACE + DONE, True),
        (BEGUN + READ + FAILED + DONE, True),
        (BEGUN + LONG_DONE + LONG_READ + LONG_DONE, False),
        (BEGUN + LONG_DONE + LONG_READ + LONG_FAILED + LONG_DONE, True),
    ],
)
def test_an_error_is_found_wherever_the_bytes_are_cut(said: bytes, fails: bool, at_once: int) -> None:
    replies = Replies()
    found = [replies.feed(said[at : at + at_once]) for at in range(0, len(said), at_once)]
    assert any(found) is fails and found.count(True) <= 1


@pytest.mark.parametrize(
    "said", [BEGUN + DONE + b"what is no answer", GREETING + b"what is no option, nor another thing"]
)
def test_what_is_not_known_is_refused(said: bytes) -> None:
    with pytest.raises(NotNbdError):
        Replies().feed(said)


@pytest.mark.parametrize("at_once", [1, 7, 31, 65536])
def test_requests_and_answers_are_counted_wherever_the_bytes_are_cut(at_once: int) -> None:
    said = CLIENT_BEGUN + WRITE + ASK_READ + LONG_WRITE + LONG_ZEROES + DISCONNECT
    answered = BEGUN + DONE + FAILED + LONG_READ + LONG_DONE
    requests, replies = Requests(), Replies()
    for at in range(0, len(said), at_once):
        requests.feed(said[at : at + at_once])
    for at in range(0, len(answered), at_once):
        replies.feed(answered[at : at + at_once])
    assert requests.count == 6
    assert replies.count == 1 + 6


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(NotNbdError):
        Requests().feed(CLIENT_BEGUN + b"what is no request")


class Wire:
    """A relay between a storage daemon and another node, both played by the test."""

    def __init__(self) -> None:
        self.noted: asyncio.Event = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def lost(self) -> None:
        self.noted.set()
        await self.may_go_on.wait()

    async def begin(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Task[bool]]:
        """What the storage daemon reads, the other node's end, the relay at work."""
        (near, daemon_end), (far, node_end) = socket.socketpair(), socket.socketpair()
        daemon, self.daemon_writer = await asyncio.open_connection(sock=daemon_end)
        self.node_reader, node = await asyncio.open_connection(sock=node_end)
        return daemon, node, asyncio.create_task(self._carried(near, far))

    async def _carried(self, near: socket.socket, far: socket.socket) -> bool:
        with near:
            return await carry(near, far, lost=self.lost)


@pytest.fixture(autouse=True)
def long_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "SILENCE_S", 30.0)


@pytest.mark.parametrize("loss", ["error", "end", "unknown"])
def test_a_loss_is_noted_before_the_storage_daemon_can_know(loss: str) -> None:
    async def play() -> None:
        wire = Wire()
        daemon, node, relay = await wire.begin()
        node.write(BEGUN + DONE)
        assert await daemon.readexactly(len(BEGUN + DONE)) == BEGUN + DONE
        if loss == "error":
            node.write(NO_SPACE)
        elif loss == "unknown":
            node.write(b"what is no answer")
        else:
            node.close()
        await wire.noted.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(daemon.read(1), 0.1)
        wire.may_go_on.set()
        if loss == "error":
            assert await daemon.readexactly(len(NO_SPACE)) == NO_SPACE
            node.close()
        assert await daemon.read() == b""
        assert await relay is False
        wire.daemon_writer.close()

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_storage_daemon_that_ends_the_connection_has_lost_nothing() -> None:
    async def play() -> None:
        wire = Wire()
        _, node, relay = await wire.begin()
        wire.daemon_writer.close()
        assert await relay is False
        assert not wire.noted.is_set()
        node.close()

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_connection_that_both_sides_end_has_lost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other node's end is seen first: it answers a good-bye so, and the storage daemon closes after that."""
    monkeypatch.setattr(relay, "_BOTH_END_S", 30.0)

    async def play() -> None:
        wire = Wire()
        _, node, carrying = await wire.begin()
        node.close()
        await asyncio.wait([carrying], timeout=0.1)
        wire.daemon_writer.close()
        assert await carrying is False
        assert not wire.noted.is_set()

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("answers", [None, b"", DONE, LONG_READ + LONG_DONE[:9]])
def test_a_node_that_says_nothing_more_is_lost(answers: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its greeting, after that, with one of two requests answered, in the middle of its second answer."""
    monkeypatch.setattr(relay, "SILENCE_S", 0.5)

    async def play() -> None:
        wire = Wire()
        daemon, node, carrying = await wire.begin()
        if answers is not None:
            asked = CLIENT_BEGUN + WRITE + WRITE
            wire.daemon_writer.write(asked)
            assert await wire.node_reader.readexactly(len(asked)) == asked
            node.write(BEGUN + answers)
            assert await daemon.readexactly(len(BEGUN + answers)) == BEGUN + answers
        await wire.noted.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(daemon.read(1), 0.1)
        wire.may_go_on.set()
        assert await carrying is True
        assert await daemon.read() == b""
        node.close()

    asyncio.run(asyncio.wait_for(play(), 60))


def test_more_than_sockets_hold_arrives_whole_both_ways() -> None:
    sent, received = BEGUN + DONE * 300_000, CLIENT_BEGUN + (WRITE + DISCONNECT + LONG_WRITE) * 600

    async def play() -> None:
        wire = Wire()
        daemon, node, carrying = await wire.begin()
        node.write(sent)
        wire.daemon_writer.write(received)
        assert await daemon.readexactly(len(sent)) == sent
        assert await wire.node_reader.readexactly(len(received)) == received
        wire.daemon_writer.close()
        assert await carrying is False
        node.close()

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("waits", [False, True])
def test_one_that_is_cancelled_carries_nothing_more(waits: bool) -> None:
    """Also while it waits for a loss to be noted."""

    async def play() -> None:
        wire = Wire()
        daemon, node, carrying = await wire.begin()
        node.write(BEGUN + (NO_SPACE if waits else DONE))
        assert await (wire.noted.wait() if waits else daemon.readexactly(len(BEGUN + DONE)))
        carrying.cancel()
        await asyncio.wait([carrying])
        assert carrying.cancelled()
        assert await daemon.read() == b""
        assert await wire.node_reader.read() == b""
        node.close()
        wire.daemon_writer.close()

    asyncio.run(asyncio.wait_for(play(), 60))


def test_an_answer_that_waits_for_the_storage_daemon_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing for longer than the other node may be silent; the last answer is in the other socket then."""
    monkeypatch.setattr(relay, "SILENCE_S", 0.5)
    data = bytes(4_000_000)
    sent = BEGUN + struct.pack(">IHHQI", 0x668E33EF, 1, 1, 8, len(data)) + data + DONE

    async def play() -> None:
        wire = Wire()
        (near, daemon), (far, node_end) = socket.socketpair(), socket.socketpair()
        daemon.setblocking(False)
        _, node = await asyncio.open_connection(sock=node_end)
        carrying = asyncio.create_task(wire._carried(near, far))
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(daemon, CLIENT_BEGUN + ASK_READ + ASK_READ)
        node.write(sent)
        await asyncio.wait([carrying], timeout=1.5)
        read = bytearray()
        while len(read) < len(sent):
            read += await loop.sock_recv(daemon, 65536)
        assert bytes(read) == sent
        assert not wire.noted.is_set()
        daemon.close()
        assert await carrying is False
        node.close()

    asyncio.run(asyncio.wait_for(play(), 60))
