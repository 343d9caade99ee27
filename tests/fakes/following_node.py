# SPDX-License-Identifier: BSD-2-Clause
"""A node with a real copy below a directory, without a daemon: calls as they come, answers as they go."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

import ganeti.node.actions
from ganeti.base.errors import from_wire
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.node.state import NodeState
from ganeti.noded.calls import NodeCalls
from ganeti.noded.replica import Replica
from ganeti.noded.world import RealNodeWorld

import_all(ganeti.node.actions)


class FollowingNode:
    """One life of a node daemon: `async with FollowingNode(root) as node`."""

    def __init__(self, root: Path, name: str = "node2", now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self.paths = Paths(str(root))
        for directory in (self.paths.data_dir, self.paths.run_dir):
            Path(directory).mkdir(parents=True, exist_ok=True)
        self.name = name

    async def __aenter__(self) -> "FollowingNode":
        world = RealNodeWorld(self.paths, self.name)
        self.calls = NodeCalls(self.paths)
        self.replica = Replica(self.paths, self.name, self.calls, self._now_s)
        self.state = NodeState(world, self.calls, self, self.replica, self.replica.newest_ssconf)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.calls.close(0)
        await self.replica.close()

    def stop_after_answer(self) -> None:
        raise AssertionError("no call of a copy ends the daemon")

    async def raw_changing(self, name: str, *, epoch: int, **arguments: Any) -> list[Any]:
        """A call that changes the node, of a daemon of *epoch*."""
        return await self.raw(name, arguments, epoch)

    async def raw(self, name: str, arguments: Mapping[str, Any], epoch: int = 0) -> list[Any]:
        """The answer as it goes over the wire: [whether it is one, value or error]."""
        plain = {"epoch": epoch, "job": 0, "attempt": 0, "step": 0, "arguments": arguments}
        answer: list[Any] = msgspec.json.decode(await self.calls.serve(self.state, name, msgspec.json.encode(plain)))
        return answer

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        succeeded, value = await self.raw(name, arguments)
        assert succeeded, value
        assert isinstance(value, dict)
        return value


def with_node(root: Path, story: Callable[[FollowingNode], Awaitable[None]], name: str = "node2") -> None:
    """Run *story* in one life of a node daemon."""

    async def life() -> None:
        async with FollowingNode(root, name) as node:
            await story(node)

    asyncio.run(life())


class OnDisk:
    """The copy of node2 as the suite of all copies wants it: begun with the first call, its clock standing still."""

    def __init__(self, root: Path, now_s: float) -> None:
        self._node = FollowingNode(root, now_s=lambda: now_s)
        self._is_begun = False

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        if not self._is_begun:
            self._is_begun = True
            await self._node.__aenter__()
        succeeded, value = await self._node.raw(name, arguments)
        if not succeeded:
            raise from_wire(value)
        assert isinstance(value, dict)
        return value

    async def restart(self) -> None:
        await self.close()

    async def close(self) -> None:
        if self._is_begun:
            self._is_begun = False
            await self._node.__aexit__()
