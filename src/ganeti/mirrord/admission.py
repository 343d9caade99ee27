# SPDX-License-Identifier: BSD-2-Clause
"""Whether the other node may write to the copy on this one, and that nothing of its is written when it may not."""

import asyncio
import socket
from collections.abc import Collection

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError
from ganeti.mirrord.commands import SilentError, StorageDaemonError
from ganeti.mirrord.copying import FOLLOWING
from ganeti.mirrord.questions import Question
from ganeti.mirrord.record import Record
from ganeti.mirrord.storage_daemon import StorageDaemon
from ganeti.node.storage.mirror.requests import Connect, Opened


class Admission:
    """Of one disk, under whose *lock* it is decided; who calls `shut_out` holds that."""

    def __init__(self, record: Record, daemon: StorageDaemon, lock: asyncio.Lock) -> None:
        self._record, self._daemon, self._lock = record, daemon, lock
        self._taking: asyncio.Task[None] | None = None

    async def take(self, client: socket.socket) -> None:
        """Give another node's connection to the storage daemon, which asks about it (`admit`). The caller closes it.

        One at a time, for a storage daemon that hangs is given up only after a while: it is so also where the caller is
        cancelled meanwhile. Raises `BlockDeviceError`.
        """
        if self._taking is not None:
            raise BlockDeviceError(f"Disk {self._record.opened.image} is given another connection just now: try again")
        self._taking = asyncio.create_task(self._take(client.dup()))
        self._taking.add_done_callback(self._end_of_taking)
        await asyncio.shield(self._taking)

    def _end_of_taking(self, taking: asyncio.Task[None]) -> None:
        self._taking = None
        if not taking.cancelled():
            taking.exception()  # for a caller that has gone

    async def _take(self, client: socket.socket) -> None:
        process_id = self._daemon.process_id()
        try:
            with client:
                await self._daemon.take(client)
        except SilentError as err:
            async with self._lock:
                if self._record.opened.role in FOLLOWING and self._daemon.process_id() == process_id is not None:
                    await self._replace(err)

    async def admit(self, question: Question) -> None:
        """Let another node's connection write to this copy, or refuse it.

        Nothing that was sent over an earlier connection is written any more: it may be older than what comes now. A
        storage daemon that hangs is replaced: the primary, which is here again, has given its copy up already. One
        that has ended is started by `Upkeep`, at its pace.
        """
        async with self._lock:
            try:
                self._require_admissible(question)
                await self.shut_out(at_its_pace=True)
            except (BlockDeviceError, OSError) as err:
                answer = question.refuse(str(err))
            else:
                answer = question.serve()
            try:
                await answer
            except StorageDaemonError as err:  # the other node tries again
                self._record.say(f"a connection of {self._record.opened.peer} is not answered: {err}")

    def _require_admissible(self, question: Question) -> None:
        """Raises `BlockDeviceError` where the other node may not write here."""
        disk, generation = self._record.opened, self._record.kept.generation
        wanted = wanted_of(question, disk)
        if disk.role not in FOLLOWING or wanted.generation < generation:
            raise BlockDeviceError(
                f"Disk {disk.image} is {disk.role} on this node with generation {generation}: writes of generation "
                f"{wanted.generation} are refused"
            )
        if wanted.session and wanted.session != disk.session:
            raise BlockDeviceError(f"Disk {disk.image} was opened anew on this node: it is to be marked first")

    async def shut_out(self, *, at_its_pace: bool = False) -> None:
        """The other node writes nothing here any more; a storage daemon that hangs is ended, for it may write yet.

        With *at_its_pace* one that has ended is left to `Upkeep`; raises `BlockDeviceError` for it.
        """
        try:
            await self._daemon.cut()
        except StorageDaemonError as err:
            if at_its_pace and self._daemon.process_id() is None:
                ended = f"The storage daemon of disk {self._record.opened.image} has ended: it will be started again"
                raise BlockDeviceError(ended) from err
            await self._replace(err)

    async def _replace(self, err: StorageDaemonError) -> None:
        self._record.say(f"its storage daemon does not answer: {err}")
        await self._daemon.stop()
        await self._daemon.start(self._record.opened.export)


def wanted_of(question: Question, disk: Opened) -> Connect:
    """Raises `BlockDeviceError` for what is no request to write to this disk, or comes from elsewhere."""
    try:
        wanted = msgspec.json.decode(question.line, type=Connect)
    except UNREADABLE_JSON as err:
        raise BlockDeviceError(f"What another node asks of disk {disk.image} cannot be understood: {err}") from err
    if wanted.uuid != disk.uuid:
        raise BlockDeviceError(f"Disk {wanted.uuid} is served elsewhere: this is {disk.uuid}")
    require_peer(disk, question.names)
    return wanted


def require_peer(disk: Opened, names: Collection[str]) -> None:
    """Raises `BlockDeviceError` where the disk has no copy on a node of one of these names."""
    if disk.peer not in names:
        raise BlockDeviceError(f"Disk {disk.uuid} has no copy on {', '.join(sorted(names)) or 'that machine'}")
