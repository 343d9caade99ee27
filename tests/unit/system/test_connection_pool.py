# SPDX-License-Identifier: BSD-2-Clause
"""Whose turn it is when there are too many connections, and when their time is over."""

import asyncio

from ganeti.system.connection_pool import Pool


def play(story) -> list[str]:
    """Give who was dropped, in order."""
    dropped: list[str] = []

    async def whole() -> None:
        await story(lambda name: lambda: dropped.append(name))

    asyncio.run(whole())
    return dropped


def test_the_oldest_goes_when_there_are_too_many() -> None:
    async def story(drop) -> None:
        pool = Pool("connections", 2)
        for name in ("a", "b", "c"):
            pool.add(name, "here", drop(name))
        assert ("a" in pool, len(pool)) == (False, 2)

    assert play(story) == ["a"]


def test_an_address_that_crowds_takes_no_room_from_another() -> None:
    async def story(drop) -> None:
        pool = Pool("connections", 3)
        pool.add("master", "10.0.0.1", drop("master"))
        for number in range(9):
            pool.add(number, "10.0.0.66", drop(f"crowd{number}"))
        assert "master" in pool

    assert play(story) == [f"crowd{number}" for number in range(7)]


def test_who_does_something_is_the_newest_again() -> None:
    async def story(drop) -> None:
        pool = Pool("connections", 2)
        pool.add("a", "here", drop("a"))
        pool.add("b", "here", drop("b"))
        pool.stir("a")
        pool.stir("unknown")
        pool.add("c", "here", drop("c"))

    assert play(story) == ["b"]


def test_who_leaves_is_not_dropped_and_who_stays_too_long_is() -> None:
    async def story(drop) -> None:
        pool, over = Pool("connections", 9, time_s=0.02), asyncio.Event()
        pool.add("gone", "here", drop("gone"))
        pool.add("late", "here", drop("late"))
        pool.remove("gone")
        pool.remove("gone")
        pool.add("last", "here", over.set)
        async with asyncio.timeout(5):
            await over.wait()
        assert len(pool) == 0

    assert play(story) == ["late"]


def test_all_go_at_the_end() -> None:
    async def story(drop) -> None:
        pool = Pool("connections", 9, time_s=60)
        pool.add("a", "here", drop("a"))
        pool.add("b", "there", drop("b"))
        assert pool.drop_one()
        pool.drop_all()
        assert not pool.drop_one()

    assert play(story) == ["a", "b"]
