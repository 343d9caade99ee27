# SPDX-License-Identifier: BSD-2-Clause
"""The order in which a take-over asks the world, and how it ends."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from ganeti.base.errors import NodeUnreachableError, PrerequisiteError
from ganeti.master.mastership.conduct import LOOK_EPOCH, take_over
from ganeti.master.mastership.messages import Begin, Claim
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer

ALL = Membership((1, 3), ("a", "b", "c"))
CLAIM = Claim("b", {node: f"node-{node}" for node in "abc"}, ("a", "b", "c"), "a", (1, 40))


class World:
    def __init__(self, *, silent: str = "") -> None:
        self.silent = silent
        self.promised = dict.fromkeys("abc", 1)
        self.asked: list[tuple[str, int, bool]] = []
        self.stopped: list[str] = []
        self.written: list[tuple[str, Membership]] = []
        self.said: list[str] = []
        self.never = asyncio.Event()

    async def promise(self, node: str, epoch: int, *, ask_only: bool) -> CopyAnswer:
        self.asked.append((node, epoch, ask_only))
        if node in self.silent:
            if not ask_only:
                await self.never.wait()
            raise NodeUnreachableError(f"node-{node} cannot be reached.")
        granted = epoch > self.promised[node]
        if granted and not ask_only:
            self.promised[node] = epoch
        holder = "b" if granted and not ask_only else "a"
        return CopyAnswer(granted=granted, promised=self.promised[node], holder=holder, membership=ALL, names="node-a")

    async def write_members(self, node: str, membership: Membership) -> None:
        self.written.append((node, membership))

    async def stop_master(self, node: str) -> int:
        self.stopped.append(node)
        return 2

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def run(claim: Claim, world: World) -> Begin:
    return asyncio.run(asyncio.wait_for(take_over(claim, world), 5))


def test_all_are_asked_before_anything_changes() -> None:
    world = World()
    assert run(CLAIM, world) == Begin(2, "a", True, ALL.members)
    assert world.asked[:3] == [(node, LOOK_EPOCH, True) for node in "abc"]
    assert world.asked[3:] == [(node, 2, False) for node in "bac"], "its own promise first"
    assert world.stopped == ["a"]
    assert world.written == [(node, Membership((2, 1), ALL.members)) for node in "ac"]
    assert len(world.said) == 3


def test_a_silent_node_is_told_and_not_waited_for() -> None:
    world = World(silent="a")
    begin = run(CLAIM, world)
    assert begin.epoch == 2 and "node-a cannot be reached" in begin.warnings[0]
    assert ("a", 2, False) in world.asked and world.stopped == []


def test_a_refusal_is_an_error_with_the_remedy_and_has_changed_nothing() -> None:
    world = World(silent="ac")
    with pytest.raises(PrerequisiteError, match=r"1 of 3 master candidates.*\. Bring one of them back"):
        run(CLAIM, world)
    assert world.stopped == [] and set(world.promised.values()) == {1}
    with pytest.raises(PrerequisiteError, match="not a master candidate"):
        run(replace(CLAIM, candidates=("a", "c")), world)
