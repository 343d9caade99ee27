# SPDX-License-Identifier: BSD-2-Clause
"""Who ended a guest, by what QEMU told before; and a QEMU that is met before it listens."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import process, sockets, user_shutdown
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.user_shutdown import BUTTON_COUNTS_S, Follower, PowerStory


def event(name: str, at_s: float = 1000.0, **data: Any) -> dict[str, Any]:
    return {"event": name, "timestamp": {"seconds": at_s, "microseconds": 0}, "data": data}


OFF = event("SHUTDOWN", guest=True, reason="guest-shutdown")


@pytest.mark.parametrize(
    ("events", "by_user"),
    [
        ([OFF], True),
        ([event("SHUTDOWN", guest=True)], True),
        ([event("POWERDOWN", 990.0), OFF], False),
        ([event("POWERDOWN", 999.0 - BUTTON_COUNTS_S), OFF], True),
        ([event("POWERDOWN", 990.0), event("RESET", 995.0), OFF], True),
        ([event("SHUTDOWN", guest=True, reason="guest-reset")], False),
        ([event("SHUTDOWN", guest=True, reason="guest-panic")], False),
        ([event("SHUTDOWN", guest=False, reason="host-qmp-quit")], False),
    ],
)
def test_who_ended_it(events: list[dict[str, Any]], by_user: bool) -> None:
    story = PowerStory()
    *before, last = events
    assert [story.hear(each) for each in before] == [None] * len(before)
    assert story.hear(last) is by_user


NAME = "web1.example.com"


class Node:
    """Where a guest's socket lies, and how often kvmd has asked there."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places = Places(Paths(str(root)))
        self.places.prepare()
        self.path = self.places.socket(NAME, user_shutdown.SOCKET)
        self.note = Path(self.places.user_shutdown(NAME))
        self.lives = True
        self.tries: asyncio.Queue[None] = asyncio.Queue()
        self.follower = Follower(self.places, lambda line: None)
        monkeypatch.setattr(process, "find", lambda places, name: self if self.lives else None)
        connect = sockets.connect

        async def counted(path: str) -> Any:
            self.tries.put_nowait(None)
            return await connect(path)

        monkeypatch.setattr(sockets, "connect", counted)

    def bound(self) -> socket.socket:
        """The guest's socket, that nobody listens on yet."""
        made = socket.socket(socket.AF_UNIX)
        with sockets.short_path(self.path) as short:
            made.bind(short)
        return made

    async def asked(self, times: int) -> None:
        for _ in range(times):
            await asyncio.wait_for(self.tries.get(), 60)

    async def ended(self) -> None:
        """Wait until nothing is followed any more."""
        async with asyncio.timeout(60):
            while tasks := list(self.follower._following.values()):
                await asyncio.gather(*tasks)


async def powered_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A QEMU whose guest is off, until it is told to quit."""
    writer.write(b'{"QMP": {}}\n')
    while line := await reader.readline():
        asked = json.loads(line)
        answer = {"status": "shutdown", "running": False} if asked["execute"] == "query-status" else {}
        writer.write(json.dumps({"return": answer, "id": asked["id"]}).encode() + b"\n")
        if asked["execute"] == "quit":
            break
    writer.close()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_a_guest_that_is_off_as_it_arrives_keeps_its_qemu_until_that_was_told(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(user_shutdown, "_is_started", lambda places, name: bool(started))

    async def story() -> None:
        with node.bound() as made:
            made.listen()
            async with await asyncio.start_unix_server(powered_off, sock=made):
                node.follower.appeared(Path(node.path).name)
                await node.asked(1)
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(node.ended()), 0.5)
                started.append(True)
                await node.ended()

    asyncio.run(story())
    assert node.note.exists()


def test_a_qemu_that_does_not_listen_yet_is_asked_again(node: Node) -> None:
    node.lives = False  # its pid file comes later

    async def story() -> None:
        with node.bound() as made:
            node.follower.appeared(Path(node.path).name)
            await node.asked(2)
            node.lives = True
            made.listen()
            async with await asyncio.start_unix_server(powered_off, sock=made):
                await node.ended()

    asyncio.run(story())
    assert node.note.exists()


def test_a_qemu_that_lives_is_asked_again_when_it_closes_the_connection(node: Node) -> None:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def story() -> None:
        handlers = iter([closing, closing, powered_off])
        with sockets.listen(node.path) as made:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await next(handlers)(reader, writer)

            async with await asyncio.start_unix_server(serve, sock=made):
                node.follower.appeared(Path(node.path).name)
                await node.ended()

    asyncio.run(story())
    assert node.note.exists()


def test_a_qemu_that_does_not_quit_keeps_the_reason_of_its_end(node: Node) -> None:
    """The administrator pressed its power button; the connection is lost before QEMU has quit."""

    async def switched_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"QMP": {}}\n')
        while line := await reader.readline():
            asked = json.loads(line)
            if asked["execute"] == "quit":
                break
            answer = {"status": "running", "running": True} if asked["execute"] == "query-status" else {}
            writer.write(json.dumps({"return": answer, "id": asked["id"]}).encode() + b"\n")
            if asked["execute"] == "query-status":
                for happened in (event("POWERDOWN"), event("SHUTDOWN", guest=True, reason="guest-shutdown")):
                    writer.write(json.dumps(happened).encode() + b"\n")
        writer.close()

    async def story() -> None:
        handlers = iter([switched_off, powered_off])
        with sockets.listen(node.path) as made:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await next(handlers)(reader, writer)

            async with await asyncio.start_unix_server(serve, sock=made):
                node.follower.appeared(Path(node.path).name)
                await node.ended()
        assert next(handlers, None) is None, "it is told to quit once more"

    asyncio.run(story())
    assert not node.note.exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_socket_that_nobody_is_behind_is_left(node: Node, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    """One that stays behind after its QEMU was killed, or goes with a start that failed."""
    node.lives = False
    monkeypatch.setattr(user_shutdown, "STARTS_WITHIN_S", 0.0 if is_there else 3600.0)

    async def story() -> None:
        node.bound().close()
        node.follower.appeared(Path(node.path).name)
        if not is_there:
            await node.asked(1)
            Path(node.path).unlink()
        await node.ended()

    asyncio.run(story())
    assert not node.note.exists()
