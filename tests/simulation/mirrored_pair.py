# SPDX-License-Identifier: BSD-2-Clause
"""Two nodes with one mirrored disk in virtual time: ganeti-mirrord's own code over storage daemons that are a model.

One seed decides all: what the guest writes, which daemon is killed when, which node loses power or is cut off, and what
administrator and watcher do about it (`mirrored_cluster`). What is modelled is QEMU (images, mirror job, exports) and
the network.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.errors import BlockDeviceError, GanetiError, HypervisorError
from ganeti.mirrord import record, server
from ganeti.mirrord.disk import Surroundings
from ganeti.mirrord.link import Link
from ganeti.mirrord.loss_reports import LossReporter
from ganeti.mirrord.peers import Peers, PeerSilentError
from ganeti.mirrord.server import Server
from ganeti.mirrord.storage_daemon import Job, StorageDaemon
from ganeti.model.objects import TERM
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import (
    CLOSED,
    Connect,
    Kept,
    Mark,
    Opened,
    OwnRequest,
    State,
)

BLOCKS = 12
UUID = "disk"
WRITING = ("primary", "incoming")
FIRST_LOOK_S = 1.0


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
class Qemu:
    """A storage daemon: it outlives ganeti-mirrord."""

    export: str
    dirty: set[int] = field(default_factory=set)
    job: bool = False
    ready: bool = False
    """Once copied: it stays so when the other copy is lost, and while it gets what it missed."""
    fails: bool = False
    held: bool = False
    """Its background copies nothing; writes go to both copies."""
    copied: int | None = None
    """The block that is on its way, which is not in *dirty* meanwhile."""
    withdrawn: int = 0
    """How often its export was: what clients had sent before is not written any more."""
    link: object | None = None
    """The connection to the other copy; cutting it makes another one necessary."""
    unseen: int = 0
    """Writes that have failed, which it has not seen yet."""
    drains: bool = False
    """It lets no write wait for a connection any more."""


@dataclass
class Node:
    name: str
    image: dict[int, int] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    opened: Opened | None = None
    qemu: Qemu | None = None
    server: Server | None = None
    """Of ganeti-mirrord, while it runs."""
    reporter: ModelReporter | None = None
    powered: bool = True
    cut_off: bool = False
    link: object = field(default_factory=object)
    started_s: float = 0.0
    """When its ganeti-mirrord was started last."""
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
        places = object.__new__(_Places)
        object.__setattr__(places, "node", node)

        def daemon(_: Places, uuid: str, image: str) -> StorageDaemon:
            return ModelDaemon(self, node)

        node.reporter = ModelReporter(self, node)
        peers = ModelPeers(self, node)
        around = Surroundings(places, peers, daemon, lambda known, *_: ModelLink(self, node, known), node.reporter)
        node.server, node.started_s = Server(around), asyncio.get_running_loop().time()
        for opened in places.opened():
            disk = server.Disk(around, opened)
            node.server._disks[opened.uuid] = disk
            await disk.go_on()

    async def kill_mirrord(self, node: Node) -> None:
        if node.server is None:
            return
        for disk in node.server._disks.values():
            await disk._copying.stop()
            await disk._upkeep.stop()
        node.server, node.link = None, object()

    async def ask(self, name: str, request: OwnRequest) -> Any:
        """A call of the node daemon, over the network; raises `GanetiError`."""
        node = self.nodes[name]
        await self.pause(0.02)
        if not node.powered or node.cut_off:
            raise PeerSilentError(f"{name} does not answer the master")
        if node.server is None:
            await self.start_mirrord(node)
        assert node.server is not None
        return await node.server.carry_out(request)

    # The guest

    async def run_guests(self) -> None:
        while True:
            await asyncio.sleep(0.03 + self.draw.random() * 0.05)
            for node in self.nodes.values():
                if node.guest and node.powered:
                    await self._write(node)

    async def _write(self, node: Node) -> None:
        qemu = node.qemu
        if qemu is None or qemu.export != node.guest:
            return  # it waits for its disk
        self.serial += 1
        block, value = self.draw.randrange(BLOCKS), self.serial
        known = self.primary == node.name
        if known:
            self.unsure.setdefault(block, set()).add(value)
        node.image[block] = value
        both = qemu.job and not qemu.fails and await self._send(node, qemu, block, value)
        if not both and qemu.job:
            qemu.dirty.add(block)
        if node.qemu is not qemu or not node.powered or qemu.export != node.guest:
            return  # it died before the guest was told
        if known and self.primary == node.name:
            self.truth[block] = value
            self.unsure[block] = set()
            if both:
                self.alone.pop(block, None)
            else:
                self.alone[block] = value
                self.check_claim(node)
                if self.has_looked(node) and node.reporter is not None and node.reporter.has_told():
                    self.told[block] = value

    def check_claim(self, node: Node) -> None:
        """A copy that lacks something is not complete by its own word, or older than the primary's.

        While ganeti-mirrord of the primary does not run nobody notes a loss, so it looks as it begins.
        """
        other = self.other(node.name)
        if not self.has_looked(node):
            return
        newest = other.kept.valid and other.kept.generation >= node.kept.generation
        held = other.image
        lacks = [
            each for each, value in self.alone.items() if held.get(each) not in {value, *self.unsure.get(each, ())}
        ]
        if newest and lacks and node.name == self.primary and node.role() in WRITING:
            self.violated(f"the copy on {other.name} counts as equal and lacks the blocks {sorted(lacks)}")

    def has_looked(self, node: Node) -> bool:
        """Whether ganeti-mirrord runs there, and has had time for a look at its disk."""
        return node.server is not None and asyncio.get_running_loop().time() > node.started_s + FIRST_LOOK_S

    async def _send(self, node: Node, qemu: Qemu, block: int, value: int) -> bool:
        """To the other copy; false, and a job that fails, where it does not arrive."""
        before, other = qemu.link, self.other(node.name)
        reader = other.qemu if before == (node.link, other.link) and self.passes(node, other) else None
        withdrawn = reader.withdrawn if reader is not None else 0
        is_slow = reader is not None and self.draw.random() < 0.01
        await self.pause()
        arrives = (
            not is_slow
            and before is not None
            and before == (node.link, other.link)
            and self.passes(node, other)
            and node.server is not None
            and other.server is not None
            and other.qemu is not None
        )
        if not arrives or node.qemu is not qemu or not qemu.job:
            if reader is not None:
                late = self._arrive_late(other, reader, withdrawn, block, value)
                self.jobs.append(asyncio.ensure_future(late))
            server = node.server
            disk = server._disks.get(UUID) if server is not None else None
            if node.qemu is qemu and disk is not None:
                with suppress(HypervisorError):
                    await disk.note_loss()
                qemu.unseen += 1
                await self._until_seen(node, server, qemu)
                qemu.unseen -= 1
            qemu.fails = True
            return False
        if other.role() in WRITING:
            self.violated(f"{node.name} writes into the copy on {other.name}, which is primary there")
        other.image[block] = value
        return True

    async def _until_seen(self, node: Node, server: object, qemu: Qemu) -> None:
        """QEMU tries to connect again for a while; where ganeti-mirrord dies, its relay is gone at once."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self.draw.random() * 1.5
        while loop.time() < end_s and node.server is server and not qemu.drains:  # noqa: ASYNC110 (a model's own time)
            await asyncio.sleep(0.01)

    async def _arrive_late(self, other: Node, qemu: Qemu, withdrawn: int, block: int, value: int) -> None:
        """The other storage daemon has read the write before the connection ended, and carries it out some time."""
        await asyncio.sleep(self.draw.random() * 4.0)
        if other.qemu is qemu and qemu.withdrawn == withdrawn:
            if other.role() in WRITING:
                self.violated(f"a late write gets into the copy on {other.name}, which is primary there")
            other.image[block] = value

    async def copy(self, node: Node, qemu: Qemu) -> None:
        """The background of a mirror job."""
        while node.qemu is qemu and qemu.job:
            await self.pause(0.02)
            if qemu.fails or qemu.held:
                await asyncio.sleep(0.05)
            elif qemu.dirty:
                block = qemu.copied = self.draw.choice(sorted(qemu.dirty))
                qemu.dirty.discard(block)
                if not await self._send(node, qemu, block, node.image.get(block, 0)):
                    qemu.dirty.add(block)
                elif node.image.get(block, 0) != self.other(node.name).image.get(block, 0):
                    qemu.dirty.add(block)  # the guest wrote it meanwhile
                else:
                    self._forget_alone(node)
                qemu.copied = None
            elif not qemu.ready:
                qemu.ready = True
            else:
                await asyncio.sleep(0.05)

    def _forget_alone(self, node: Node) -> None:
        for block in [each for each, value in self.alone.items() if self._holds(node, each, value)]:
            del self.alone[block]

    def _holds(self, node: Node, block: int, value: int) -> bool:
        return node.image.get(block) == value == self.other(node.name).image.get(block)


class ModelDaemon(StorageDaemon):
    """Commands to the model of QEMU's storage daemon."""

    def __init__(self, pair: Pair, node: Node) -> None:
        self._pair, self._node = pair, node

    def _qemu(self) -> Qemu:
        if self._node.qemu is None:
            raise HypervisorError("the storage daemon is gone")
        return self._node.qemu

    async def start(self, export: str) -> None:
        await self._pair.pause()
        if self._node.qemu is None:
            self._node.qemu = Qemu(export)

    async def stop(self) -> None:
        self._node.qemu = None
        await self._pair.pause()

    def process_id(self) -> int | None:
        return 1 if self._node.qemu is not None else None

    async def ended(self) -> str:
        while self._node.qemu is not None:  # noqa: ASYNC110 (a model's own time)
            await asyncio.sleep(0.05)
        return "has ended"

    async def withdraw_export(self) -> None:
        await self._pair.pause()
        self._qemu().withdrawn += 1

    async def show_export(self, export: str) -> None:
        await self._pair.pause()

    async def hide(self) -> None:
        return

    async def limit(self, rate_kib: int) -> None:
        return

    async def job(self) -> Job | None:
        await self._pair.pause()
        qemu = self._qemu()
        if not qemu.job:
            return None
        stopped = qemu.fails or (qemu.held and qemu.copied is None)
        status = ("standby" if stopped else "ready") if qemu.ready else ("paused" if stopped else "running")
        return Job(status, qemu.ready, "failed" if qemu.fails else "ok", 0, 1, qemu.held or qemu.fails)

    async def attach(self, export: str, *, whole: bool, rate_kib: int) -> None:
        qemu = self._qemu()
        await self._connect(qemu, export)
        qemu.job, qemu.ready, qemu.fails, qemu.held = True, False, False, False
        qemu.dirty = set(range(BLOCKS)) if whole else set()
        self._pair.jobs.append(asyncio.ensure_future(self._pair.copy(self._node, qemu)))

    async def resume(self) -> None:
        qemu = self._qemu()
        with suppress(GanetiError):
            if qemu.fails:
                await self._connect(qemu, None)
            qemu.fails = qemu.held = False

    async def hold(self) -> None:
        await self._pair.pause()
        self._qemu().held = True

    async def lacks_parts(self) -> bool:
        await self._pair.pause()
        return bool(self._qemu().dirty)

    async def detach(self) -> bool:
        qemu = self._qemu()
        equal, qemu.held = qemu.job and qemu.ready and not qemu.fails, False
        for _ in range(100):
            if equal and (qemu.dirty or qemu.copied is not None) and not qemu.fails:
                await asyncio.sleep(0.02)
        equal = equal and not (qemu.fails or qemu.dirty or qemu.copied is not None)
        qemu.job, qemu.ready, qemu.link = False, False, None
        await self._pair.pause()
        return equal

    async def _connect(self, qemu: Qemu, export: str | None) -> None:
        qemu.drains = True
        while qemu.unseen:  # noqa: ASYNC110 (a model's own time)
            await asyncio.sleep(0.01)
        qemu.drains = False
        pair, node = self._pair, self._node
        other = pair.other(node.name)
        await pair.pause()
        if not pair.passes(node, other) or other.server is None or other.qemu is None:
            raise HypervisorError("no connection")
        if export is not None and other.qemu.export != export:
            raise HypervisorError(f"there is no export {export}")
        disk = other.server._disks.get(UUID)
        if disk is None:
            raise HypervisorError("the disk is closed there")
        try:
            session = node.opened.marked_session if node.opened is not None else ""
            await disk.admit(Connect(uuid=UUID, generation=node.kept.generation, session=session))
            disk.link.has_served = True
        except BlockDeviceError as err:
            raise HypervisorError(str(err)) from err
        qemu.link = (node.link, other.link)


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
        await (await self._reach()).mark(request.kept)
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


class ModelLink(Link):
    """Cutting it gives the node another end of the wire: what was connected is so no more."""

    def __init__(self, pair: Pair, node: Node, known: record.Record) -> None:
        self._node, self._record = node, known
        self.turn, self.has_served = 0, False

    async def open(self) -> None:
        return

    async def close(self) -> None:
        await self.cut()

    async def cut(self) -> None:
        self._node.link = object()
