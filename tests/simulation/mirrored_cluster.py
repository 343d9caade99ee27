# SPDX-License-Identifier: BSD-2-Clause
"""What administrator, watcher and bad luck do to a mirrored pair, and what must hold at the end.

Operations ask the nodes in the order of `failover.py`, `migrate.py` and `activate_disks.py`, below
`master/operations/instance/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from unittest import mock

from tests.simulation.mirrored_pair import UUID, WRITING, Node, Pair, Violation, in_virtual_time

from ganeti.base.errors import GanetiError, HypervisorError
from ganeti.mirrord import record, server
from ganeti.model.objects import Disk
from ganeti.node.storage.mirror.requests import (
    PRIMARY,
    SECONDARY,
    Close,
    HandOver,
    Inspect,
    Kept,
    Open,
    Opened,
    State,
    Steal,
    TakeBack,
    TakeOver,
)

FAULTS_S, REST_S = 25.0, 60.0
SEEN_WITHIN_S = 5.0
MIDST_S = 0.2


class Cluster:
    """What administrator, watcher and bad luck do."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self._is_over = False
        """Guests have stopped, and nobody starts them again."""
        self._degraded: tuple[float, dict[int, int]] | None = None

    def opened(self, name: str, role: str) -> Opened:
        return Opened(
            uuid=UUID,
            image=name,
            role=role,
            owner="web1" if role == PRIMARY else "",
            generation=self.pair.generation,
            peer=self.pair.other(name).name,
            address="here",
        )

    async def open(self, *, start: bool) -> None:
        """As `activate-disks` and, with *start*, `startup` do it."""
        pair, name = self.pair, self.pair.primary
        with suppress(GanetiError):
            other = pair.other(name).name
            await pair.ask(other, Open(disk=self.opened(other, SECONDARY)))
        found = await pair.ask(name, Open(disk=self.opened(name, PRIMARY)))
        if start:
            self.pair.nodes[name].guest = found.export

    async def watch(self) -> None:
        """A round of the watcher: it notes generations, opens what is behind, starts a guest that is gone."""
        pair, node = self.pair, self.pair.nodes[self.pair.primary]
        alone = dict(pair.alone)
        with suppress(GanetiError):
            state: State = await pair.ask(node.name, Inspect(uuid=UUID, image=node.name))
            if state.role == PRIMARY:
                pair.generation = max(pair.generation, state.kept.generation)
                self._note(alone, degraded=not state.in_sync)
            behind = state.role != PRIMARY or not (state.in_sync or state.percent is not None)
            if behind or not node.guest:
                await self.open(start=not node.guest)

    def _note(self, alone: dict[int, int], *, degraded: bool) -> None:
        """Two looks, with time for a ganeti-mirrord that has just been started to look itself."""
        now_s = asyncio.get_running_loop().time()
        if not degraded:
            self.pair.noted, self._degraded = {}, None
        elif self._degraded is None:
            self._degraded = now_s, alone
        elif now_s - self._degraded[0] > SEEN_WITHIN_S:
            self.pair.noted = self._degraded[1]

    async def fail_over(self) -> None:
        """With the help of the primary node."""
        pair = self.pair
        source, target = pair.primary, pair.other(pair.primary).name
        state: State = await pair.ask(source, Inspect(uuid=UUID, image=source))
        if not state.in_sync:
            return
        pair.nodes[source].guest = ""
        await pair.ask(source, Close(uuid=UUID))
        with suppress(GanetiError):
            await pair.ask(target, Close(uuid=UUID))
        pair.primary = target
        pair.tell(f"failed over to {target}")
        try:
            await self.open(start=True)
        except GanetiError as err:  # the undo of the job
            pair.tell(f"back to {source}: {err}")
            pair.primary = source
            with suppress(GanetiError):
                await pair.ask(target, Close(uuid=UUID))

    async def fail_over_by_force(self) -> None:
        pair = self.pair
        source, target = pair.primary, pair.other(pair.primary).name
        state: State = await pair.ask(target, Inspect(uuid=UUID, image=target))
        if state.kept.generation < pair.generation or not state.kept.valid:
            pair.tell(f"no fail-over to {target}: its copy is older or not complete")
            return
        pair.primary = target
        pair.generation = Disk(uuid=UUID, dev_type="mirror", generation=pair.generation).promoted().generation or 0
        pair.tell(f"fail-over by force to {target}, generation {pair.generation}")
        await pair.ask(target, Steal(uuid=UUID, image=target, generation=pair.generation))
        self._settle(pair.nodes[target])
        del source
        await self.open(start=True)

    def _settle(self, node: Node) -> None:
        """What the new primary lacks of what the guest was told must be what only the former one had."""
        pair = self.pair
        for block, value in pair.truth.items():
            held = node.image.get(block, 0)
            if held == value or held in pair.unsure.get(block, set()):
                continue
            if pair.alone.get(block) != value:
                raise Violation(f"{node.name} lacks write {value} of block {block}, which both copies had: {held}")
            if value in (pair.noted.get(block), pair.told.get(block)):
                raise Violation(f"{node.name} lacks write {value} of block {block}, which it was known to lack")
            pair.lost_alone += 1
        pair.truth = dict(node.image)
        pair.alone, pair.unsure, pair.noted, pair.told = {}, {}, {}, {}
        self._degraded = None

    async def migrate(self) -> None:
        pair = self.pair
        source, target = pair.primary, pair.other(pair.primary).name
        if not pair.nodes[source].guest:
            return
        guest, pair.nodes[source].guest = pair.nodes[source].guest, ""
        try:
            await pair.ask(source, HandOver(uuid=UUID))
            await pair.ask(target, TakeOver(uuid=UUID))
        except GanetiError as err:
            pair.tell(f"migration fails: {err}")
            with suppress(GanetiError):
                await pair.ask(source, TakeBack(uuid=UUID))
                pair.nodes[source].guest = guest
            with suppress(GanetiError):
                await pair.ask(target, Open(disk=self.opened(target, SECONDARY)))
            return
        pair.primary = target
        program = pair.nodes[target].program
        pair.nodes[target].guest = program.export if program is not None else ""
        pair.tell(f"migrated to {target}")
        await pair.ask(target, Open(disk=self.opened(target, PRIMARY)))
        with suppress(GanetiError):
            await pair.ask(source, Open(disk=self.opened(source, SECONDARY)))

    # Bad luck

    async def strike(self) -> None:
        pair = self.pair
        node = pair.nodes[pair.draw.choice(("node1", "node2"))]
        what = pair.draw.choice(("mirrord", "mirrord", "storage daemon", "power", "cut", "cut"))
        pair.tell(f"{node.name}: {what}")
        match what:
            case "mirrord":
                await pair.kill_mirrord(node)
            case "storage daemon":
                node.program = None
            case "power":
                await pair.kill_mirrord(node)
                node.powered, node.guest, node.program, node.opened = False, "", None, None
            case "cut":
                node.cut_off = True

    @asynccontextmanager
    async def struck_meanwhile(self) -> AsyncIterator[None]:
        """Sometimes something fails in the midst of an operation.

        Not of a failover with the source's help: that asks before the guest stops whether the copies are equal.
        """

        async def strike() -> None:
            await asyncio.sleep(self.pair.draw.random() * MIDST_S)
            await self.strike()

        striking = [asyncio.ensure_future(strike())] if self.pair.draw.random() < 0.3 else []
        try:
            yield
        finally:
            await asyncio.gather(*striking)

    async def mend(self, node: Node) -> None:
        node.cut_off, node.powered = False, True
        if node.server is None and node.opened is not None:
            await self.pair.start_mirrord(node)

    async def live(self) -> None:
        pair = self.pair
        loop = asyncio.get_running_loop()
        while loop.time() < FAULTS_S:
            await asyncio.sleep(pair.draw.random() * 1.5)
            primary = pair.nodes[pair.primary]
            act = pair.draw.random()
            with suppress(GanetiError):
                if act < 0.3:
                    await self.strike()
                elif act < 0.5:
                    await self.mend(pair.nodes[pair.draw.choice(("node1", "node2"))])
                elif primary.cut_off or not primary.powered:
                    await (self.fail_over_by_force() if act < 0.8 else self.mend(primary))
                elif 0.7 <= act < 0.85:
                    await self.fail_over()
                else:
                    async with self.struck_meanwhile():
                        await (self.watch() if act < 0.7 else self.migrate())

    async def rest(self) -> None:
        """All is mended; guests that no configuration knows go on writing into nothing."""
        for node in self.pair.nodes.values():
            await self.mend(node)
        await self._until_equal()
        for node in self.pair.nodes.values():
            node.guest = ""
        self._is_over = True
        await asyncio.sleep(1.0)
        await self._until_equal()

    async def _until_equal(self) -> None:
        pair = self.pair
        loop, deadline = asyncio.get_running_loop(), asyncio.get_running_loop().time() + REST_S
        while loop.time() < deadline:
            if not self._is_over:
                await self.watch()
            await asyncio.sleep(2.0)
            state: State = await pair.ask(pair.primary, Inspect(uuid=UUID, image=pair.primary))
            if state.in_sync and pair.other(pair.primary).role() not in WRITING:
                break
        else:
            states = {name: (node.role(), node.kept) for name, node in pair.nodes.items()}
            raise Violation(f"the copies are not equal within {REST_S:g} s: {pair.primary} is primary, {states}")


async def _play(pair: Pair) -> None:
    cluster = Cluster(pair)
    for node in pair.nodes.values():
        await pair.start_mirrord(node)
    await cluster.open(start=True)
    guests = asyncio.ensure_future(pair.run_guests())
    await cluster.live()
    await cluster.rest()
    if guests.done():
        guests.result()
    guests.cancel()
    one, two = pair.nodes.values()
    if {k: v for k, v in one.image.items() if v} != {k: v for k, v in two.image.items() if v}:
        raise Violation(f"the copies are not equal: {one.image} and {two.image}")
    cluster._settle(pair.nodes[pair.primary])
    if pair.violations:
        raise Violation(pair.violations[0])
    if one.kept.generation != two.kept.generation or not (one.kept.valid and two.kept.valid):
        raise Violation(f"the copies are equal, but are said to be {one.kept} and {two.kept}")


@contextmanager
def _kept_in(pair: Pair) -> Iterator[None]:
    def read(image: str) -> Kept:
        return pair.nodes[image].kept

    def write(image: str, kept: Kept) -> None:
        pair.nodes[image].kept = kept

    async def write_down(image: str, kept: Kept) -> None:
        """It takes its time; a ganeti-mirrord that is killed meanwhile has written nothing."""
        writer = pair.nodes[image].server
        await pair.pause(0.05)
        if pair.nodes[image].server is not writer:
            raise HypervisorError("ganeti-mirrord was killed")
        write(image, kept)
        await pair.pause(0.05)

    with (
        mock.patch.object(record, "read_kept", read),
        mock.patch.object(record, "write_kept", write),
        mock.patch.object(record, "write_down", write_down),
        mock.patch.object(server, "read_kept", read),
        mock.patch.object(record.Record, "say", lambda self, sentence: pair.tell(f"{self.opened.image}: {sentence}")),
    ):
        yield


def play(seed: int) -> Pair:
    """Raises `Violation`, with the story."""
    pair = Pair(seed)
    pair.nodes["node1"].kept = pair.nodes["node2"].kept = Kept(generation=1, valid=True, clean=True)
    with _kept_in(pair):
        try:
            in_virtual_time(_play(pair))
        except (Violation, GanetiError) as err:
            raise Violation("\n".join([f"seed {seed}: {err}", *pair.story[-60:]])) from err
    return pair
