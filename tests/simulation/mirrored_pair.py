# SPDX-License-Identifier: BSD-2-Clause
"""Two nodes with one mirrored disk in virtual time: ganeti-mirrord's own code over storage daemons that are a model.

One seed decides all: what the guest writes, which daemon is killed when, which node loses power or is cut off, and what
administrator and watcher do about it (`mirrored_cluster`). What is modelled is the network, and the storage daemon
(`mirrored_program`).
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.mirrored_program import BLOCKS, SILENCE_S, UUID, Connection, Late, ModelDaemon, Program

from ganeti.base.errors import BlockDeviceError, GanetiError, HypervisorError
from ganeti.mirrord import server
from ganeti.mirrord.disk import Surroundings
from ganeti.mirrord.loss_reports import LossReporter
from ganeti.mirrord.peers import Peers, PeerSilentError
from ganeti.mirrord.server import Server
from ganeti.mirrord.storage_daemon import StorageDaemon
from ganeti.model.objects import TERM
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import (
    CLOSED,
    Kept,
    Mark,
    Opened,
    OwnRequest,
    State,
)

WRITING = ("primary", "incoming")
DEPTH = 3


class Violation(AssertionError):
    """A rule does not hold."""


class _VirtualSelector(selectors.DefaultSelector):
    """Nobody is waited for: time goes on to the next timer."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "all wait for ever"
        self.now_s += max(timeout, 0.0)
        return super().select(0)


def in_virtual_time(work: Coroutine[Any, Any, Any]) -> None:
    selector = _VirtualSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now_s  # type: ignore[method-assign]
    try:
        loop.run_until_complete(work)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()


@dataclass
class Node:
    name: str
    image: dict[int, int] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    opened: Opened | None = None
    program: Program | None = None
    server: Server | None = None
    """Of ganeti-mirrord, while it runs."""
    reporter: ModelReporter | None = None
    at_work: set[asyncio.Future[Any]] = field(default_factory=set)
    """What its ganeti-mirrord does just now for the node daemon."""
    powered: bool = True
    cut_off: bool = False
    guest: str = ""
    """The export that a guest here has open; empty without a guest."""

    def role(self) -> str:
        return self.opened.role if self.opened is not None else CLOSED


class _Places(Places):
    """`Opened` in memory: it is gone with the node's power, as ``run`` is."""

    node: Node

    def opened(self) -> list[Opened]:
        return [self.node.opened] if self.node.opened is not None else []

    def is_open(self, uuid: str) -> bool:
        return self.node.opened is not None

    def write_opened(self, disk: Opened) -> None:
        self.node.opened = disk

    def forget(self, uuid: str) -> None:
        self.node.opened = None


class Pair:
    """Both nodes, the network between them, and what must hold."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.nodes = {name: Node(name) for name in ("node1", "node2")}
        self.primary, self.generation = "node1", 0
        """As the configuration has it."""
        self.truth: dict[int, int] = {}
        """What the guest that the configuration knows was told of last, by block."""
        self.alone: dict[int, int] = {}
        """Of that, what only its own node's copy had."""
        self.noted: dict[int, int] = {}
        """Of that, what was so when the watcher looked: no failover may lose it."""
        self.told: dict[int, int] = {}
        """Of *alone*, what the master was told of before the guest was: no failover may lose it."""
        self.unsure: dict[int, set[int]] = {}
        """Written, but nobody was told."""
        self.serial = 0
        self.story: list[str] = []
        self.violations: list[str] = []
        self.jobs: list[asyncio.Future[None]] = []
        self.lost_alone = 0
        self.may_hang = True
        """One storage daemon does, once: the time until all is well is bounded."""

    def tell(self, sentence: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():9.3f} {sentence}")

    def violated(self, sentence: str) -> None:
        """Told at the end: who finds it may be a task that nobody waits for."""
        self.tell(f"VIOLATION: {sentence}")
        self.violations.append(sentence)

    def other(self, name: str) -> Node:
        return self.nodes["node2" if name == "node1" else "node1"]

    async def pause(self, most_s: float = 0.004) -> None:
        await asyncio.sleep(self.draw.random() * most_s)

    def passes(self, one: Node, two: Node) -> bool:
        return one.powered and two.powered and not (one.cut_off or two.cut_off)

    # ganeti-mirrord of one node

    async def start_mirrord(self, node: Node) -> None:
        """Raises `PeerSilentError` where it is killed meanwhile."""
        places = object.__new__(_Places)
        object.__setattr__(places, "node", node)

        def daemon(_: Places, uuid: str, image: str) -> StorageDaemon:
            return ModelDaemon(self, node)

        node.reporter = ModelReporter(self, node)
        around = Surroundings(places, ModelPeers(self, node), daemon, node.reporter)
        node.server = Server(around)
        await self._while_it_lives(node, self._go_on(places.opened(), around, node.server))

    async def _go_on(self, opened: list[Opened], around: Surroundings, started: Server) -> None:
        for each in opened:
            disk = started._disks[each.uuid] = server.Disk(around, each)
            with suppress(GanetiError):  # it is told in the log
                await disk.go_on()

    async def _while_it_lives(self, node: Node, work: Coroutine[Any, Any, Any]) -> Any:
        task = asyncio.ensure_future(work)
        node.at_work.add(task)
        task.add_done_callback(node.at_work.discard)
        await asyncio.wait([task])
        if task.cancelled():
            raise PeerSilentError(f"{node.name} has ended the connection")
        return task.result()

    async def kill_mirrord(self, node: Node) -> None:
        if node.server is None:
            return
        ended, node.server = node.server, None
        for task in node.at_work:
            task.cancel()
        for disk in ended._disks.values():
            assert isinstance(disk._daemon, ModelDaemon)
            disk._daemon.kill()
        await asyncio.gather(*node.at_work, return_exceptions=True)
        for disk in ended._disks.values():
            await disk._copying.stop()
            await disk._upkeep.stop()

    async def ask(self, name: str, request: OwnRequest) -> Any:
        """A call of the node daemon, over the network; raises `GanetiError`."""
        node = self.nodes[name]
        await self.pause(0.02)
        if not node.powered or node.cut_off:
            raise PeerSilentError(f"{name} does not answer the master")
        if node.server is None:
            await self.start_mirrord(node)
        if node.server is None:
            raise PeerSilentError(f"{name} has ended the connection")
        return await self._while_it_lives(node, node.server.carry_out(request))

    # The guest

    async def run_guests(self) -> None:
        """Several writes of each are on their way at once."""
        writing: dict[str, set[asyncio.Future[None]]] = {name: set() for name in self.nodes}
        while True:
            await asyncio.sleep(0.01 + self.draw.random() * 0.03)
            for node in self.nodes.values():
                own = writing[node.name]
                if node.guest and node.powered and len(own) < DEPTH:
                    task = asyncio.ensure_future(self._write(node))
                    own.add(task)
                    task.add_done_callback(own.discard)

    async def _write(self, node: Node) -> None:
        program, guest = node.program, node.guest
        if program is None or program.export != guest:
            return  # it waits for its disk
        block = self.draw.randrange(BLOCKS)
        while (program.is_leaving or block in program.busy) and node.program is program:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        if node.program is not program or program.export != guest or node.guest != guest:
            return
        self.serial += 1
        known, value = self.primary == node.name, self.serial
        if known:
            self.unsure.setdefault(block, set()).add(value)
        both = await self._carry_out(node, program, block, value)
        while not program.is_noted and node.program is program:  # noqa: ASYNC110 (a model's own time)
            await asyncio.sleep(0.005)
        if node.program is not program or not node.powered or program.export != guest or node.guest != guest:
            return  # it died before the guest was told
        if known and self.primary == node.name:
            self._acknowledge(node, block, value, both=both)

    async def _carry_out(self, node: Node, program: Program, block: int, value: int) -> bool:
        """Whether both copies have it."""
        program.busy.add(block)
        node.image[block] = value
        connection = program.connection
        both = connection is not None and await self._send(node, program, connection, block, value)
        if not both and (program.has_lost or program.connection is not None):
            program.dirty.add(block)
        program.busy.discard(block)
        return both

    def _acknowledge(self, node: Node, block: int, value: int, *, both: bool) -> None:
        if value < self.truth.get(block, 0):
            return  # it was overwritten before it was answered
        self.truth[block] = value
        self.unsure[block] = {later for later in self.unsure.get(block, ()) if later > value}
        if both:
            self.alone.pop(block, None)
            return
        self.alone[block] = value
        self.check_claim(node)
        if self.generation >= node.kept.generation:
            self.told[block] = value

    def check_claim(self, node: Node) -> None:
        """A copy that lacks something is not complete by its own word, or older than the primary's."""
        other = self.other(node.name)
        newest = other.kept.valid and other.kept.generation >= node.kept.generation
        held = other.image
        lacks = [
            each for each, value in self.alone.items() if held.get(each) not in {value, *self.unsure.get(each, ())}
        ]
        if newest and lacks and node.name == self.primary and node.role() in WRITING:
            self.violated(f"the copy on {other.name} counts as equal and lacks the blocks {sorted(lacks)}")

    # Between the storage daemons

    def reaches(self, node: Node, connection: Connection) -> bool:
        """Whether what is sent over *connection* arrives just now."""
        other = self.other(node.name)
        return connection.is_open and other.program is connection.reader and self.passes(node, other)

    async def _send(self, node: Node, program: Program, connection: Connection, block: int, value: int) -> bool:
        """To the other copy; false, and a loss, where no answer comes."""
        other, reader = self.other(node.name), connection.reader
        write, arrives = Late(block, value), self.reaches(node, connection)
        is_slow = arrives and self.draw.random() < 0.01
        if arrives:
            reader.late.append(write)
        await self.pause()
        if is_slow:
            self.jobs.append(asyncio.ensure_future(self._carry_out_some_time(other, reader, write)))
        elif arrives:
            self._carry_out_one(other, reader, write)
        if arrives and not is_slow and self.reaches(node, connection) and program.connection is connection:
            return True
        if connection.is_open and other.program is reader:
            await asyncio.sleep(SILENCE_S)
        if program.connection is connection:
            program.lose()
        return False

    async def _carry_out_some_time(self, other: Node, reader: Program, write: Late) -> None:
        await asyncio.sleep(self.draw.random() * 4.0)
        self._carry_out_one(other, reader, write)

    def carry_out_late(self, other: Node, reader: Program) -> None:
        for write in list(reader.late):
            self._carry_out_one(other, reader, write)

    def _carry_out_one(self, other: Node, reader: Program, write: Late) -> None:
        if other.program is not reader or write not in reader.late:
            return
        reader.late.remove(write)
        if other.role() in WRITING:
            self.violated(f"the other node writes into the copy on {other.name}, which is primary there")
        other.image[write.block] = write.value

    async def copy(self, node: Node, program: Program, connection: Connection) -> None:
        """What the other copy lacks, in the background."""
        while node.program is program and program.connection is connection:
            await self.pause(0.02)
            waiting = sorted(program.dirty - program.busy)
            if not waiting or program.is_leaving:
                await asyncio.sleep(0.01)
                continue
            block = self.draw.choice(waiting)
            program.busy.add(block)
            if await self._send(node, program, connection, block, node.image.get(block, 0)):
                program.dirty.discard(block)
                self._forget_alone(node)
            program.busy.discard(block)

    def _forget_alone(self, node: Node) -> None:
        for block in [each for each, value in self.alone.items() if self._holds(node, each, value)]:
            del self.alone[block]

    def _holds(self, node: Node, block: int, value: int) -> bool:
        return node.image.get(block) == value == self.other(node.name).image.get(block)


class ModelPeers(Peers):
    """Requests to the other node's ganeti-mirrord."""

    def __init__(self, pair: Pair, node: Node) -> None:
        self._pair, self._node = pair, node

    async def _reach(self) -> server.Disk:
        pair, node = self._pair, self._node
        await pair.pause()
        other = pair.other(node.name)
        if not pair.passes(node, other):
            await asyncio.sleep(2.0)
            raise PeerSilentError(f"{other.name} does not answer")
        if other.server is None:
            raise PeerSilentError(f"{other.name} refuses")
        disk = other.server._disks.get(UUID)
        if disk is None:
            raise BlockDeviceError(f"the disk is not open on {other.name}")
        return disk

    async def state(self, disk: Opened) -> State:
        found = (await self._reach()).state()
        await self._pair.pause()
        return found

    async def mark(self, disk: Opened, kept: Kept) -> None:
        request = Mark(uuid=UUID, kept=kept)
        try:
            await (await self._reach()).mark(request.kept)
        except HypervisorError as err:
            raise PeerSilentError(str(err)) from err
        self._pair.check_claim(self._node)
        await self._pair.pause()

    async def take_back(self, disk: Opened) -> None:
        await (await self._reach()).yield_back()


class ModelReporter(LossReporter):
    """The master hears of losses while it can be reached, and once it can."""

    def __init__(self, pair: Pair, node: Node) -> None:
        self._pair, self._node = pair, node
        self._generation = 0

    def note(self, disk: Opened, generation: int) -> None:
        self._generation = generation
        self.has_told()

    async def wait(self, disk: Opened) -> None:
        self.has_told()

    def has_told(self) -> bool:
        pair, node = self._pair, self._node
        if not node.powered or node.cut_off or node.reporter is not self:
            return False
        if self._generation // TERM <= pair.generation // TERM:
            pair.generation = max(pair.generation, self._generation)
        return True
