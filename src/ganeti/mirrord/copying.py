# SPDX-License-Identifier: BSD-2-Clause
"""On the primary: the mirror job that makes the other copy equal and keeps it so, through every loss of that node."""

import asyncio
from collections.abc import Awaitable, Callable

from ganeti.base.errors import BlockDeviceError, GanetiError
from ganeti.mirrord.pace import Pace
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.record import Record
from ganeti.mirrord.storage_daemon import Job, StorageDaemon
from ganeti.model.objects import TERM
from ganeti.node.storage.mirror.requests import HANDED, SECONDARY, Kept, State

FOLLOWING = (SECONDARY, HANDED)
"""Roles in which a copy takes the other node's writes."""
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
        self.job: Job | None = None
        self.pace = Pace()
        self.in_sync = False
        self._record = record
        self._daemon = daemon
        self._peers = peers
        self._lock = lock
        self._step_down = step_down
        self._task: asyncio.Task[None] | None = None
        self._looks = 0
        self._unknown = False
        """Whether an earlier ganeti-mirrord may have known that both copies were equal."""

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._look_again())

    def go_on(self) -> None:
        """After a restart of ganeti-mirrord: what the other copy lacks since is not known."""
        self._unknown = True
        self.start()

    async def stop(self) -> None:
        """The job goes on, nobody looks after it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def end(self) -> bool:
        """End the job, too; true where both copies were equal at that moment."""
        await self.stop()
        try:
            return await self._daemon.detach()
        finally:
            self.in_sync, self.job = False, None

    async def attach(self, *, equal: bool) -> None:
        """Begin to write to both copies, which are *equal* or made so first.

        Raises `BlockDeviceError` or `HypervisorError` where the other one cannot be reached.
        """
        opened = self._record.opened
        peer = await self._peer()
        if peer.role not in FOLLOWING:
            raise BlockDeviceError(f"The copy on {opened.peer} is {peer.role} there")
        await self.mark(self._record.kept if equal else self._incomplete(), peer.session)
        await self._daemon.attach(peer.export, whole=not equal, rate_kib=opened.rate_kib)
        self.job = await self._daemon.job()

    async def _peer(self) -> State:
        """Raises `SupersededError`."""
        peer = await self._peers.state(self._record.opened)
        if peer.kept.generation // TERM > self._record.kept.generation // TERM:
            raise SupersededError(f"Node {self._record.opened.peer} was made primary: this node follows it")
        return peer

    async def mark(self, kept: Kept, session: str | None = None) -> None:
        """Tell the other node what its copy is."""
        await self._peers.mark(self._record.opened, kept)
        self._record.note_marked(kept.generation, self._record.opened.marked_session if session is None else session)

    def _incomplete(self) -> Kept:
        return Kept(generation=self._record.kept.generation)

    async def _look_again(self) -> None:
        while True:
            if not self._lock.locked():
                async with self._lock:
                    try:
                        await self._look()
                    except SupersededError as err:
                        self._record.say(str(err))
                        self._task, self.in_sync, self.job = None, False, None
                        await self._step_down()
                        return
                    except (GanetiError, OSError) as err:
                        self._record.say(str(err))
            await asyncio.sleep(_FOLLOWED_S if self.in_sync or self.job is None else _COPYING_S)

    async def look_now(self) -> None:
        """Ask the other node at once whether its copy is the one that was made equal: it may have been made anew."""
        self._looks = -1
        try:
            await self._look()
        except (GanetiError, OSError) as err:  # the task meets it again, and does what follows from it
            self._looks = -1
            self._record.say(str(err))

    async def _look(self) -> None:
        if self._daemon.process_id() is None:
            self._record.say("its storage daemon has ended: it is started again")
            self._lose()
            await self._daemon.stop()
            await self._daemon.start(self._record.opened.export)
        self.job = job = await self._daemon.job()
        if job is not None:
            self.pace.note(asyncio.get_running_loop().time(), job.done, job.total)
        if job is None or job.has_ended:
            self._lose()
            if job is not None:
                await self._daemon.detach()
            await self.attach(equal=False)
        elif job.in_sync:
            await self._confirm()
        elif not job.works:
            self._lose()
            await self._resume()

    async def _confirm(self) -> None:
        """QEMU has nothing left to copy. An idle guest notices no loss, so the other node is asked now and then."""
        self._looks += 1
        if self.in_sync and self._looks % _IDLE_LOOKS:
            return
        try:
            peer = await self._peer()
        except BlockDeviceError:
            self._lose()
            raise
        if not self._record.is_as_marked(peer):
            self._lose()
            await self._begin_anew()
        elif not self.in_sync:
            await self.mark(Kept(generation=self._record.kept.generation, valid=True))
            self.in_sync, self._unknown = True, False
            self._record.say("both copies are equal")

    async def _begin_anew(self) -> None:
        await self._daemon.detach()
        await self.attach(equal=False)

    def _lose(self) -> None:
        """From now on this copy has more than the other one."""
        if self.in_sync or self._unknown:
            self.in_sync = self._unknown = False
            self._record.keep(Kept(generation=self._record.kept.generation + 1, valid=True))
            self._record.say(f"the copy on {self._record.opened.peer} is lost")

    async def _resume(self) -> None:
        """What has changed meanwhile is copied; to another copy than was lost, everything."""
        peer = await self._peer()
        if not self._record.is_as_marked(peer):
            await self._begin_anew()
            return
        await self.mark(self._incomplete())
        await self._daemon.resume()
