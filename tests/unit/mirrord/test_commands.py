# SPDX-License-Identifier: BSD-2-Clause
"""The connection of commands: answers in any order, and every way in which it ends."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from ganeti.mirrord.commands import Commands, GoneError, RefusedError, SilentError


def play(story: Callable[[Commands, socket.socket], Awaitable[None]]) -> None:
    async def played() -> None:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        near.setblocking(False)
        with far:
            commands = Commands(near, lambda *_: None)
            await asyncio.wait_for(story(commands, far), 60)
            commands.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert near.fileno() == -1

    asyncio.run(played())


def test_answers_come_in_any_order_and_may_come_too_late() -> None:
    async def story(commands: Commands, far: socket.socket) -> None:
        with pytest.raises(SilentError, match=r"'hide' within 0\.01 s"):
            await commands.execute("hide", within_s=0.01)
        first, second = (asyncio.create_task(commands.execute(word)) for word in ("status", "cut"))
        await asyncio.sleep(0)
        assert [far.recv(99) for _ in range(3)] == [b"1\nhide", b"2\nstatus", b"3\ncut"]
        for answer in (b"1\nok", b"3\nok", b"2\nok\nalone\n0\n0\n"):
            far.send(answer)
        assert await second == []
        assert await first == ["alone", "0", "0", ""]

    play(story)


def test_a_refusal_is_told_and_what_comes_with_it() -> None:
    async def story(commands: Commands, far: socket.socket) -> None:
        far.send(b"1\nerror\nnot now\nmore")
        with pytest.raises(RefusedError, match=r"^not now$") as error:
            await commands.execute("size", 1)
        assert error.value.details == ("more",)

    play(story)


@pytest.mark.parametrize("last", [b"", b"nonsense", b"1", b"\xff", b"x\nok"])
def test_who_waits_hears_of_the_end(last: bytes) -> None:
    async def story(commands: Commands, far: socket.socket) -> None:
        waiting = asyncio.create_task(commands.execute("status"))
        await asyncio.sleep(0)
        if last:
            far.send(last)
        else:
            far.close()
        with pytest.raises(GoneError):
            await waiting
        assert commands.has_ended
        with pytest.raises(GoneError):
            await commands.execute("status")

    play(story)


def test_a_line_of_a_stranger_ends_nothing() -> None:
    """The storage daemon passes on what it has not understood: another machine's request, of any bytes."""

    async def played() -> None:
        heard: list[list[str]] = []
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        near.setblocking(False)
        with far:
            commands = Commands(near, lambda _, word, fields: heard.append([word, *fields]))
            waiting = asyncio.create_task(commands.execute("status"))
            await asyncio.sleep(0)
            far.send(b"0\nasks\n7\nnode3\n\xff\xfe")
            far.send(b"1\nok\nalone")
            assert await waiting == ["alone"]
            assert heard == [["asks", "7", "node3", "\ufffd\ufffd"]]
            commands.close()

    asyncio.run(asyncio.wait_for(played(), 60))


def test_one_that_reads_nothing_is_not_waited_for() -> None:
    async def story(commands: Commands, far: socket.socket) -> None:
        with pytest.raises(SilentError, match="takes no commands"):
            for _ in range(10_000):
                await commands.execute("status", "x" * 1000, within_s=0.0)

    with pytest.raises(SilentError):
        play(lambda commands, far: _until_full(commands))


async def _until_full(commands: Commands) -> None:
    while True:
        try:
            await commands.execute("x" * 1000, within_s=0.0)
        except SilentError as err:
            if "takes no commands" in str(err):
                raise
