# SPDX-License-Identifier: BSD-2-Clause
"""A mirrored disk whose two copies are equal, without a storage daemon: what a test does not ask about is well."""

import asyncio
import errno

from ganeti.mirrord import storage_daemon
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.storage_daemon import Status, StorageDaemon
from ganeti.node.storage.mirror.places import write_kept
from ganeti.node.storage.mirror.requests import SECONDARY, Kept, Opened, State

EQUAL = Kept(generation=5, valid=True)


class EqualDaemon(StorageDaemon):
    """It has copied everything; whether it runs is for the test to say."""

    async def prepare(self) -> None:
        await self.start("")

    async def show_export(self, export: str) -> None:
        return

    async def withdraw_export(self) -> None:
        return

    async def hide(self) -> None:
        return

    async def limit(self, rate_kib: int) -> None:
        return

    async def cut(self) -> None:
        return

    async def attach(self, disk: Opened, generation: int, export: str, copy: str) -> None:
        return

    async def status(self) -> Status:
        return Status(storage_daemon.EQUAL, export="disk")

    async def detach(self) -> bool:
        return True


class RunningDaemon(EqualDaemon):
    """It runs until it is stopped, and again when it is wanted."""

    runs = True

    def process_id(self) -> int | None:
        return 1 if self.runs else None

    async def ended(self) -> str:
        await asyncio.Event().wait()
        return ""

    async def prepare(self) -> None:
        self.runs = True

    async def stop(self) -> None:
        self.runs = False


class FullAtFirst:
    """In place of `write_kept`: so many writes find no space."""

    def __init__(self, refused: int) -> None:
        self._refused, self.tries = refused, 0

    def __call__(self, image: str, kept: Kept) -> None:
        self.tries += 1
        if self.tries <= self._refused:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_kept(image, kept)


class EqualPeers(Peers):
    """The other node has an equal copy, and what it was told of it."""

    def __init__(self) -> None:
        self.told, self.serves = EQUAL, True

    async def state(self, disk: Opened) -> State:
        return State(role=SECONDARY, kept=self.told, session="s", export="disk", serves=self.serves)

    async def mark(self, disk: Opened, kept: Kept) -> None:
        self.told = kept
