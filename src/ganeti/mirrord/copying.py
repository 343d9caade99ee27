# SPDX-License-Identifier: BSD-2-Clause
"""On the primary: making the other copy equal and keeping it so, through every loss of that node."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError, GanetiError
from ganeti.mirrord.pace import Pace
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.record import Record
from ganeti.mirrord.storage_daemon import ALONE, KEPT, LOST, NONE, WHOLE, Status, StorageDaemon
from ganeti.model.objects import TERM
from ganeti.node.storage.mirror.requests import HANDED, INCOMING, PRIMARY, SECONDARY, Kept, State

FOLLOWING = (SECONDARY, HANDED)
"""Roles in which a copy takes the other node's writes."""
WRITING = (PRIMARY, INCOMING)
_FOLLOWED_S = 1.0
_COPYING_S = 0.25
_IDLE_LOOKS = 5


class SupersededError(BlockDeviceError):
    """The other node was made primary after this one: nothing may be written here any more."""


class Copying:
    """Its user holds the disk's *lock* around every call; the task it starts takes it for each look.

    *step_down* is what to do, under the lock, when the other node turns out to be primary now.
    """

    def __init__(
        self,
        record: Record,
        daemon: StorageDaemon,
        peers: Peers,
        lock: asyncio.Lock,
        step_down: Callable[[], Awaitable[None]],
    ) -> None:
        self.status: Status | None = None
        """As the storage daemon told it at the last look; None since a loss, or where that look failed."""
        self.pace = Pace()
        self.in_sync = False
        self._record = record
        self._daemon = daemon
        self._peers = peers
        self._lock = lock
        self._step_down = step_down
        self._task: asyncio.Task[None] | None = None
        self._looks = 0
        self._losses = 0
        self._noting: set[asyncio.Future[None]] = set()
        """What writes down a loss just now, one after the other."""
        self._one_note = asyncio.Lock()
        self._trusted = record.opened.role in WRITING
        """Whether the other copy may count as complete, with this one's generation: as soon as it is told so, when this
        node becomes the primary, and after a restart of ganeti-mirrord, until its loss is noted.
        """

    def begin(self) -> None:
        """This node becomes the primary: nothing is known of the other copy."""
        self._trusted = True

    def count_as_older(self) -> None:
        """The other copy is, since this one has a new generation."""
        self._trusted = False

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._look_again())

    async def go_on(self) -> None:
        """After a restart of ganeti-mirrord, or on what another node made equal: note whether a loss was since then.

        Raises `BlockDeviceError` or `OSError` where it cannot be noted.
        """
        self.begin()
        try:
            self.status = await self._daemon.status()
        except BlockDeviceError as err:
            self._record.say(str(err))
        try:
            if self.status is None or not self.status.works:
                await self.note_loss()
        finally:
            self.start()

    async def stop(self) -> None:
        """Writes go on to both copies, nobody looks after it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def end(self) -> bool:
        """Write to this copy alone from now on; true where both copies were equal at that moment."""
        await self.stop()
        try:
            return await self._daemon.detach()
        finally:
            self.in_sync, self.status = False, None
            await self.settle()

    async def settle(self) -> None:
        """Wait for what is written down of losses just now: it would make this copy newer than the next primary's."""
        while self._noting:
            await asyncio.wait(self._noting)

    async def attach(self, *, equal: bool) -> None:
        """Begin to write to both copies, which are *equal* or made so first.

        Raises `BlockDeviceError` where the other one cannot be reached. Nobody may write while equal copies are joined.
        """
        peer = await self._peer()
        if peer.role not in FOLLOWING:
            raise BlockDeviceError(f"The copy on {self._record.opened.peer} is {peer.role} there")
        self._require_served(peer)
        await self.mark(replace(self._record.kept, valid=equal), peer.session)
        await self._join(peer, NONE if equal else WHOLE)

    async def _join(self, peer: State, copy: str) -> None:
        await self._daemon.attach(self._record.opened, self._record.kept.generation, peer.export, copy)
        self.status = await self._daemon.status()

    async def _peer(self) -> State:
        """Raises `SupersededError`."""
        peer = await self._peers.state(self._record.opened)
        if peer.kept.generation // TERM > self._record.kept.generation // TERM:
            raise SupersededError(f"Node {self._record.opened.peer} was made primary: this node follows it")
        return peer

    def _require_served(self, peer: State) -> None:
        """Raises `BlockDeviceError`: there is nothing to connect to."""
        if not peer.serves:
            raise BlockDeviceError(
                f"The storage daemon of node {self._record.opened.peer} has ended: that node starts it again"
            )

    async def mark(self, kept: Kept, session: str | None = None) -> None:
        """Tell the other node what its copy is."""
        if kept.valid:  # its answer may be lost
            self._trusted = True
        await self._peers.mark(self._record.opened, kept)
        if not kept.valid:
            self._trusted = False
        self._record.note_marked(kept.generation, self._record.opened.marked_session if session is None else session)

    async def mark_equal(self, kept: Kept) -> None:
        """Tell the other node, whose copy is equal, what it is now: it counts as equal again when it knows."""
        losses, self.in_sync = self._losses, False
        with contextlib.suppress(BlockDeviceError):
            await self.mark(kept)
            self.in_sync = losses == self._losses

    async def _look_again(self) -> None:
        while True:
            if not self._lock.locked():
                async with self._lock:
                    try:
                        await self._look()
                    except SupersededError as err:
                        self._record.say(str(err))
                        self._task, self.in_sync, self.status = None, False, None
                        await self._step_down()
                        return
                    except (GanetiError, OSError) as err:
                        self._fail(err)
            is_quiet = (self.in_sync or self.status is None) and not self._lock.locked()
            await asyncio.sleep(_FOLLOWED_S if is_quiet else _COPYING_S)

    async def look_now(self) -> None:
        """Ask the other node at once whether its copy is the one that was made equal: it may have been made anew."""
        self._looks = -1
        try:
            await self._look()
        except (GanetiError, OSError) as err:  # the task meets it again, and does what follows from it
            self._looks = -1
            self._fail(err)

    def _fail(self, err: Exception) -> None:
        self.status = None
        self._record.say(str(err))

    async def _look(self) -> None:
        if self._daemon.process_id() is None:  # `Upkeep` starts another
            await self.note_loss()
            return
        losses = self._losses
        self.status = status = await self._daemon.status()
        self.pace.note(asyncio.get_running_loop().time(), status.done, status.total)
        if status.is_equal:
            await self._confirm(losses)
        elif not status.works:
            await self.note_loss()
            if status.state == ALONE:
                await self.attach(equal=False)
            elif status.state == LOST:
                await self._attach_again()

    async def _confirm(self, losses: int) -> None:
        """Both copies were equal when there had been so many *losses*: the other node is to know it.

        An idle guest notices no loss, so that node is asked now and then.
        """
        self._looks += 1
        if self.in_sync and self._looks % _IDLE_LOOKS:
            return
        try:
            peer = await self._peer()
            self._require_served(peer)
        except BlockDeviceError:
            await self.note_loss()
            raise
        if not self._record.is_as_marked(peer):
            await self.note_loss()
            await self._record.until_told(self._record.opened)
            await self._begin_anew()
        elif not (self.in_sync or self._noting) and losses == self._losses:
            await self.mark(Kept(generation=self._record.kept.generation, valid=True))
            if losses == self._losses:
                self.in_sync = True
                self._record.say("both copies are equal")

    async def _begin_anew(self) -> None:
        await self._daemon.detach()
        await self.attach(equal=False)

    async def note_loss(self) -> None:
        """From now on this copy has more than the other one. Without the lock: a guest's write waits for it.

        Raises `BlockDeviceError` or `OSError` where that cannot be written down: the loss is still to be noted then.
        """
        self._losses += 1
        self.in_sync, self.status = False, None
        noting = asyncio.ensure_future(self._note())
        self._noting.add(noting)
        noting.add_done_callback(self._end_of_note)
        await asyncio.shield(noting)

    def _end_of_note(self, noting: asyncio.Future[None]) -> None:
        self._noting.discard(noting)
        if not noting.cancelled():
            noting.exception()  # for one whose user has gone

    async def _note(self) -> None:
        async with self._one_note:
            if not self._trusted:
                return
            self._trusted = False  # before, not after: the other node may be told anew while this is written
            try:
                await self._record.change(self._as_alone)
            except BaseException:
                self._trusted = True
                raise
            self._record.say(f"the copy on {self._record.opened.peer} is lost")

    def _as_alone(self, kept: Kept) -> Kept:
        """What this copy is without the other one, where it is still the primary's."""
        writes = self._record.opened.role in WRITING
        return replace(kept, generation=kept.generation + 1, clean=False) if writes else kept

    async def _attach_again(self) -> None:
        """What has changed meanwhile is copied; to another copy than was lost, everything."""
        peer = await self._peer()
        if not self._record.is_as_marked(peer):
            await self._begin_anew()
            return
        self._require_served(peer)
        await self.mark(Kept(generation=self._record.kept.generation))
        await self._join(peer, KEPT)
