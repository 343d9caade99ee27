# SPDX-License-Identifier: BSD-2-Clause
"""What is written down of one disk in use: its role here, and what its copy is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.mirror.requests import SECONDARY, Kept, Opened, State

_log = logging.getLogger(__name__)


class Record:
    """Kept on disk at each change, so that a later ganeti-mirrord goes on with it."""

    def __init__(self, places: Places, opened: Opened) -> None:
        self.places = places
        self.opened = opened
        self.raised: Callable[[Opened, int], None] = lambda opened, generation: None
        """Called when this copy goes on as a newer one than the other."""
        self.until_told: Callable[[Opened], Awaitable[None]] = _know_at_once
        """Waits until the master knows that too: before a guest goes on with this copy alone. Not for ever."""
        self._said = ""
        self._writing = asyncio.Lock()

    @property
    def kept(self) -> Kept:
        return read_kept(self.opened.image)

    async def keep(self, kept: Kept) -> None:
        await self.change(lambda before: kept)

    async def change(self, changed: Callable[[Kept], Kept]) -> Kept:
        """Write down what *changed* makes of what the copy is; raises `BlockDeviceError` or `OSError`.

        It is done to the end although its user is cancelled: nothing older is written later.
        """
        return await asyncio.shield(asyncio.ensure_future(self._change(changed)))

    async def _change(self, changed: Callable[[Kept], Kept]) -> Kept:
        async with self._writing:
            before = self.kept
            kept = changed(before)
            if kept != before:
                await write_down(self.opened.image, kept)
            if kept.generation > before.generation and self.opened.role != SECONDARY:
                self.raised(self.opened, kept.generation)
            return kept

    def be(self, role: str) -> None:
        self.rewrite(replace(self.opened, role=role))

    def note_marked(self, generation: int, session: str) -> None:
        """What the other copy was told it is, and when it was opened."""
        self.rewrite(replace(self.opened, marked=generation, marked_session=session))

    def is_as_marked(self, peer: State) -> bool:
        """Whether the other copy has all that it was sent: it was neither closed nor another one's since."""
        return (peer.kept.generation, peer.session) == (self.opened.marked, self.opened.marked_session)

    def rewrite(self, opened: Opened) -> None:
        self.opened = opened
        self.places.write_opened(opened)

    def say(self, sentence: str) -> None:
        """One line in the log, unless it is the one before."""
        if sentence != self._said:
            self._said = sentence
            _log.info("disk %s (%s): %s", self.opened.image, self.opened.owner or "secondary", sentence)


async def _know_at_once(opened: Opened) -> None:
    """There is no master to tell."""


async def write_down(image: str, kept: Kept) -> None:
    """Beside the event loop: a node that dies is a loss for all disks at once, and connections of others go on."""
    await asyncio.to_thread(write_kept, image, kept)


def make_valid(image: str, generation: int) -> None:
    """Make a copy the newest one, of *generation* at least; raises `BlockDeviceError` where it is not complete."""
    kept = read_kept(image)
    if not kept.valid:
        raise BlockDeviceError(
            f"The copy of disk {image} on this node is not complete: what the lost node wrote is not in it. Bring that "
            "node back, or give the instance new disks (gnt-instance recreate-disks)"
        )
    write_kept(image, Kept(generation=max(kept.generation + 1, generation), valid=True))
