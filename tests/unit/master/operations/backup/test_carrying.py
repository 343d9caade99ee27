# SPDX-License-Identifier: BSD-2-Clause
"""Pieces are written in order, each while the next one is read, and nothing is under way afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ganeti.base.errors import ExecutionError
from ganeti.master.operations.backup.carrying import carry

WITHIN_S = 30.0


class Nodes:
    """A source of three pieces and what takes them; piece *held* is written when the next read has begun."""

    def __init__(self, *, held: int | None = None, unread: int | None = None, unwritten: int | None = None) -> None:
        self.held, self.unread, self.unwritten = held, unread, unwritten
        self.story: list[str] = []
        self.reads = {number: asyncio.Event() for number in range(4)}

    async def pieces(self) -> AsyncGenerator[int]:
        try:
            for number in range(3):
                self.reads[number].set()
                if number == self.unread:
                    raise ExecutionError("cannot be read")
                await asyncio.sleep(0)
                yield number
            self.reads[3].set()
        finally:
            self.story.append("closed")

    async def write(self, piece: int) -> None:
        if piece == self.held:
            await self.reads[piece + 1].wait()
        for _ in range(5):
            await asyncio.sleep(0)
        if piece == self.unwritten:
            raise ExecutionError("cannot be written")
        self.story.append(str(piece))


def play(nodes: Nodes) -> list[str]:
    async def within() -> None:
        async with asyncio.timeout(WITHIN_S):
            await carry(nodes.pieces(), nodes.write)

    asyncio.run(within())
    return nodes.story


@pytest.mark.parametrize("held", [0, 1, 2])
def test_the_next_piece_is_read_while_one_is_written(held: int) -> None:
    story = play(Nodes(held=held))
    assert [word for word in story if word != "closed"] == ["0", "1", "2"]


def test_a_piece_that_cannot_be_read_ends_it_after_the_writing_under_way() -> None:
    nodes = Nodes(unread=1)
    with pytest.raises(ExecutionError, match="cannot be read"):
        play(nodes)
    assert nodes.story == ["closed", "0"]


@pytest.mark.parametrize("unwritten", [0, 2])
def test_a_piece_that_cannot_be_written_ends_it(unwritten: int) -> None:
    nodes = Nodes(unwritten=unwritten)
    with pytest.raises(ExecutionError, match="cannot be written"):
        play(nodes)
    assert nodes.story.count("closed") == 1 and str(unwritten) not in nodes.story and "3" not in nodes.story


def test_where_both_fail_the_error_is_that_of_the_earlier_piece() -> None:
    with pytest.raises(ExecutionError, match="cannot be written"):
        play(Nodes(unread=1, unwritten=0))


def test_who_ends_it_waits_for_the_writing_under_way() -> None:
    nodes = Nodes(held=2)

    async def ended() -> None:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def write(piece: int) -> None:
            begun.set()
            await goes_on.wait()
            nodes.story.append(str(piece))

        async def one() -> AsyncGenerator[int]:
            yield 0

        task = asyncio.ensure_future(carry(one(), write))
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        goes_on.set()
        async with asyncio.timeout(WITHIN_S):
            await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(ended())
    assert nodes.story == ["0"]
