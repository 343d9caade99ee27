# SPDX-License-Identifier: BSD-2-Clause
"""One mirrored disk on this node, and what its copy may do.

Invariants. A node lets its guest write only a copy that is valid and of the highest generation it can learn of; the
generation grows each time a copy goes on without the other one or becomes the primary's. A copy takes writes from the
other node only while it is not the primary's, and from none of a lower generation. A copy is not valid from the first
byte of a resynchronisation to its last. Both copies are *clean* only while nothing can be written to either.

Each time that the configuration names another primary node it raises the generation above all that the former one can
reach by itself (`ganeti.model.objects.TERM`). A primary that meets such a copy stops writing, is not valid from then
on, and follows; its storage daemon shows the disk under another name, so that a guest left behind there writes nothing.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError
from ganeti.mirrord.admission import Admission
from ganeti.mirrord.commands import StorageDaemonError
from ganeti.mirrord.copying import FOLLOWING, WRITING, Copying
from ganeti.mirrord.loss_reports import LossReporter
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.record import Record, make_valid
from ganeti.mirrord.storage_daemon import NONE, StorageDaemon
from ganeti.mirrord.upkeep import Upkeep
from ganeti.model.objects import TERM
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import (
    CLOSED,
    HANDED,
    INCOMING,
    PRIMARY,
    SECONDARY,
    Kept,
    Opened,
    State,
)

_AGAIN_S = 0.5
"""After a loss could not be written down."""


@dataclass(frozen=True)
class Surroundings:
    """What all disks of a node share."""

    places: Places
    peers: Peers
    storage_daemon: Callable[[Places, str, str], StorageDaemon] = StorageDaemon
    reporter: LossReporter | None = None


class Disk:
    """Changes of one disk happen one after another, under its lock."""

    def __init__(self, around: Surroundings, opened: Opened) -> None:
        self._places = around.places
        self._peers = around.peers
        self._lock = asyncio.Lock()
        self._record = Record(around.places, opened)
        if around.reporter is not None:
            self._record.raised, self._record.until_told = around.reporter.note, around.reporter.wait
        self._daemon = around.storage_daemon(around.places, opened.uuid, opened.image)
        self.admission = Admission(self._record, self._daemon, self._lock)
        self._daemon.hear(self._hear_of_loss, self.admission.admit)
        self._copying = Copying(self._record, self._daemon, around.peers, self._lock, self._step_down)
        self._upkeep = Upkeep(self._record, self._daemon, self._copying, self._lock)

    @property
    def opened(self) -> Opened:
        return self._record.opened

    async def go_on(self) -> None:
        """After a restart of ganeti-mirrord: take the disk as it is.

        A storage daemon that is not as it should be is ended: `Upkeep` starts another one, once a loss is noted.
        """
        async with self._lock:
            writes = self.opened.role in WRITING
            try:
                await self._daemon.prepare()
                if writes:
                    await self._copying.go_on()
                else:  # of a migration that was broken off
                    await self._daemon.detach()
                await self._daemon.show_export(self.opened.export)
            except (BlockDeviceError, OSError):
                await self._daemon.stop()
                raise
            finally:
                self._upkeep.start()
                if writes:
                    self._copying.start()
                    self._record.raised(self.opened, self._record.kept.generation)

    async def open(self, wanted: Opened) -> str:
        """Become primary or secondary, as *wanted* says; gives the name of the export. Raises `BlockDeviceError`."""
        async with self._lock:
            try:
                if wanted.role == PRIMARY:
                    await self._become_primary(wanted)
                else:
                    await self._become_secondary(wanted)
            except BaseException:
                if self.opened.role == CLOSED:  # nobody closes what was never open
                    await _forget(self._places, self._daemon, self.opened.uuid)
                raise
            self._upkeep.start()
            return self.opened.export

    async def close(self) -> None:
        async with self._lock:
            await self._upkeep.stop()  # also where closing fails: nobody wants the disk open
            await self._leave_primary()
            await _forget(self._places, self._daemon, self.opened.uuid)
            self._record.opened = replace(self.opened, role=CLOSED)
            await self._copying.settle()

    async def hand_over(self) -> None:
        """Raises `BlockDeviceError` where the other copy is not equal: the guest stays here then."""
        async with self._lock:
            if self.opened.role == HANDED:
                return
            status = await self._daemon.status()
            if self.opened.role != PRIMARY or not (self._copying.in_sync and status.is_equal):
                raise BlockDeviceError(
                    f"Disk {self.opened.image} cannot be handed over: the copy on {self.opened.peer} is not up to date"
                )
            is_equal = False
            try:
                is_equal = await self._copying.end()
            finally:
                if not is_equal:
                    self._copying.start()
            if not is_equal:
                raise BlockDeviceError(f"Disk {self.opened.image}: {self.opened.peer} was lost during the switchover")
            self._record.rewrite(replace(self.opened, role=HANDED, session=secrets.token_hex(8)))

    async def take_over(self) -> None:
        async with self._lock:
            if self.opened.role in WRITING:
                return
            peer, kept = await self._peers.state(self.opened), self._record.kept
            if peer.role != HANDED or kept.generation != peer.kept.generation or not kept.valid:
                raise BlockDeviceError(f"Disk {self.opened.image} is not handed over by {self.opened.peer}")
            await self._daemon.cut()
            self._record.note_marked(peer.kept.generation, peer.session)
            await self._daemon.attach(self.opened, kept.generation, peer.export, NONE)
            self._record.be(INCOMING)
            await self._copying.go_on()

    async def take_back(self) -> None:
        """The guest goes on here: the target follows again, from the beginning, since it may have run meanwhile."""
        async with self._lock:
            if self.opened.role != HANDED:
                return
            with contextlib.suppress(BlockDeviceError):
                await self._peers.take_back(self.opened)
            await self.admission.shut_out()
            await self._record.change(lambda kept: Kept(generation=kept.generation + 1, valid=True))
            self._record.be(PRIMARY)
            self._copying.start()

    async def steal(self, generation: int) -> None:
        async with self._lock:
            if self.opened.role != PRIMARY:
                await self.admission.shut_out()
                make_valid(self.opened.image, generation)

    async def resize(self, size: int) -> None:
        """The guest's writes wait meanwhile. Joined copies have one size, so they are parted and joined again."""
        async with self._lock:
            writes, is_parted = self.opened.role in WRITING, False
            try:
                await self._daemon.withdraw_export()
                is_parted = writes
                equal = writes and await self._copying.end()
                await self._daemon.resize(size)
                if writes:
                    await self._attach(equal=equal)
                    is_parted = False
            finally:
                if writes:
                    self._copying.start()
                await self._upkeep.show_again(is_parted=is_parted)

    async def as_file(self) -> str:
        async with self._lock:
            return await self._daemon.show(self.opened.export)

    def state(self) -> State:
        serves, is_primary = self._daemon.process_id() is not None, self.opened.role in WRITING
        status = self._copying.status if serves else None
        works = status is not None and status.works
        copying = status if is_primary and works and not self._copying.in_sync else None
        return State(
            role=self.opened.role,
            kept=self._record.kept,
            session=self.opened.session,
            in_sync=self._copying.in_sync and serves,
            serves=serves,
            connected=works,
            percent=copying.percent if copying is not None else None,
            seconds_left=self._copying.pace.seconds_left if copying is not None else None,
            speed_kib=self._copying.pace.speed_kib if copying is not None else None,
            export=self.opened.export,
        )

    async def mark(self, kept: Kept) -> None:
        """What the primary says this copy is; raises `BlockDeviceError` where that one may not say it."""
        async with self._lock:
            if self.opened.role not in FOLLOWING or kept.generation < self._record.kept.generation:
                raise BlockDeviceError(
                    f"Disk {self.opened.image} is {self.opened.role} here with generation "
                    f"{self._record.kept.generation}"
                )
            await self._record.keep(kept)

    async def yield_back(self) -> None:
        """The source of a migration takes its guest back."""
        async with self._lock:
            if self.opened.role == PRIMARY:
                raise BlockDeviceError(f"Disk {self.opened.image} is in use here: the guest has arrived")
            if self.opened.role == INCOMING:
                await self._copying.end()
                self._record.be(SECONDARY)

    async def _hear_of_loss(self, why: str) -> None:
        self._record.say(why)
        await self.note_loss()

    async def note_loss(self) -> None:
        """The other copy is behind from now on; the guest is told of a write that is here alone only after this.

        It waits for as long as that cannot be written down.
        """
        while self.opened.role in WRITING:
            try:
                await self._copying.note_loss()
                await self._record.until_told(self.opened)
                return
            except Exception as err:  # whatever it is, the loss is still to be noted
                why = err if isinstance(err, BlockDeviceError | OSError) else repr(err)
                self._record.say(f"the guest waits, for the loss of {self.opened.peer} cannot be written down: {why}")
                await asyncio.sleep(_AGAIN_S)

    async def _become_primary(self, wanted: Opened) -> None:
        if self.opened.role in WRITING:
            await self._upkeep.bring_back()
            arrives = self.opened.role == INCOMING
            own, status = self.opened, await self._daemon.status()
            if not status.export:  # growing or opening it was broken off
                await self._upkeep.show_again(is_parted=not status.works)
            if wanted.peer != own.peer:
                await self._change_peer(wanted)
                return
            session = own.marked_session
            self._record.rewrite(replace(wanted, export=own.export, marked=own.marked, marked_session=session))
            self._copying.start()  # closing may have failed halfway
            await self._daemon.limit(wanted.rate_kib)
            if arrives or wanted.generation > self._record.kept.generation:
                await self._next_generation()
            await self._copying.look_now()
            return
        kept = await self._newest(wanted)
        if self.opened.role != CLOSED:
            await self.admission.shut_out()
        wanted = self._named(wanted)
        await self._daemon.prepare()
        if kept.clean:
            await self._daemon.withdraw_export()
        await self._record.keep(replace(kept, clean=False))
        self._copying.begin()
        self._record.rewrite(wanted)
        await self._attach(equal=kept.clean)
        await self._daemon.show_export(wanted.export)

    async def _attach(self, *, equal: bool) -> None:
        """Write to both copies, or to this one alone where the other one cannot be reached."""
        try:
            await self._copying.attach(equal=equal)
        except BlockDeviceError as err:
            self._record.say(str(err))
            await self._next_generation()
            await self._record.until_told(self.opened)
        self._copying.start()

    def _named(self, wanted: Opened) -> Opened:
        """With a name of the primary that the configuration names; a disk that is shown keeps its name."""
        is_shown = self._daemon.process_id() is not None
        return replace(wanted, export=self.opened.export if is_shown else f"disk-{wanted.generation // TERM}")

    async def _step_down(self) -> None:
        """The other node was made primary while this one was cut off: what was written here since is given up."""
        await self._upkeep.stop()
        await self._daemon.hide()
        await self._daemon.stop()
        await self._copying.settle()
        await self._record.change(lambda kept: replace(kept, valid=False, clean=False))
        wanted = replace(self.opened, role=SECONDARY, session=secrets.token_hex(8), lost_to=self.opened.peer)
        self._record.rewrite(self._named(replace(wanted, generation=wanted.generation + TERM)))
        self._upkeep.start()  # which starts the storage daemon

    async def _change_peer(self, wanted: Opened) -> None:
        """The second copy is on another node from now on: the first one goes on alone until that is complete.

        What is written after they are parted is here alone, so the former copy counts as older before that.
        """
        await self._copying.note_loss()
        await self._record.until_told(self.opened)
        try:
            await self._copying.end()
            self._record.rewrite(replace(wanted, export=self.opened.export))
            await self._next_generation()
        finally:
            self._copying.start()

    async def _newest(self, wanted: Opened) -> Kept:
        """What this copy is, where it may be written; raises `BlockDeviceError` where the other one is newer."""
        mine = self._record.kept
        try:
            peer = await self._peers.state(wanted)
        except BlockDeviceError as err:  # the node is silent, or the disk is closed there: what is in it is not known
            if not mine.valid:
                raise BlockDeviceError(
                    f"The copy of disk {wanted.image} on this node is not complete, and the other one cannot be "
                    f"reached: {err}"
                ) from err
            return Kept(generation=max(mine.generation, wanted.generation), valid=True)
        theirs = peer.kept
        superseded = theirs.generation // TERM < wanted.generation // TERM
        if peer.role == PRIMARY and not superseded:
            raise BlockDeviceError(f"Disk {wanted.image} is in use on node {wanted.peer}: stop the instance there")
        if (theirs.generation, theirs.valid) > (mine.generation, mine.valid):
            raise BlockDeviceError(
                f"The copy of disk {wanted.image} on this node is behind that of node {wanted.peer}: start the "
                f"instance there, the copies are then made equal"
            )
        equal = mine.clean and theirs.clean and mine.generation == theirs.generation
        return Kept(generation=max(mine.generation, wanted.generation, 1), valid=True, clean=equal)

    async def _become_secondary(self, wanted: Opened) -> None:
        wrote, left = self.opened.role in WRITING, self.opened
        await self._leave_primary()
        if wrote and left.export != f"disk-{wanted.generation // TERM}":  # a guest may be left behind here
            await self._daemon.stop()
            left = replace(left, lost_to=wanted.peer)
        if left.lost_to:
            wanted = replace(wanted, owner=left.owner, lost_to=left.lost_to)
        session = self.opened.session if self.opened.role != CLOSED else ""
        wanted = replace(self._named(wanted), role=SECONDARY, session=session or secrets.token_hex(8))
        if self.opened.role != CLOSED:  # whatever is started again from now on is no primary's
            self._record.rewrite(wanted)
            self._upkeep.start()
        await self._daemon.start(wanted.export)
        self._record.rewrite(wanted)

    async def _leave_primary(self) -> None:
        """Nothing writes here any more: where both copies are equal, that is kept, if there is space to write it."""
        if self.opened.role not in WRITING:
            return
        await self._upkeep.stop()
        try:
            equal = await self._copying.end()
        except StorageDaemonError as err:
            self._record.say(f"its storage daemon does not answer: {err}")
            equal = False
        if equal:
            kept = replace(self._record.kept, clean=True)
            try:
                await self._copying.mark(kept)
                await self._record.keep(kept)
            except (BlockDeviceError, OSError) as err:
                self._record.say(f"that both copies are equal is not kept: {err}")

    async def _next_generation(self) -> None:
        least = self.opened.generation
        kept = await self._record.change(lambda kept: Kept(generation=max(kept.generation + 1, least), valid=True))
        self._copying.count_as_older()
        if (await self._daemon.status()).works and self._copying.in_sync:
            await self._copying.mark_equal(kept)


async def _forget(places: Places, daemon: StorageDaemon, uuid: str) -> None:
    """Nothing of a disk is in use here any more."""
    await daemon.hide()
    await daemon.stop()
    places.forget(uuid)
