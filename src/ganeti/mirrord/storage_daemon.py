# SPDX-License-Identifier: BSD-2-Clause
"""One disk's storage daemon: the program of `data_path`. It serves the image by NBD and mirrors it to the other node.

It outlives ganeti-mirrord, as a guest's QEMU does: a later one finds it by its process id and goes on.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ganeti.base.errors import BlockDeviceError
from ganeti.mirrord.commands import COMMAND_S, Commands, GoneError, RefusedError, SilentError, StorageDaemonError
from ganeti.mirrord.data_path import PROGRAM
from ganeti.mirrord.peers import read_answer
from ganeti.mirrord.processes import end, end_of, living, log_file, spawn
from ganeti.mirrord.questions import Question
from ganeti.mirrord.shown_file import ShownFile
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import PORT, Connect, Done, Opened
from ganeti.system.event_loop import Background

WHOLE, NONE, KEPT = "whole", "none", "kept"
"""What is to be copied to the other node: all, nothing, or what was noted since that node was lost."""
ALONE, COPYING, EQUAL, LOST, LOSING = "alone", "copying", "equal", "lost", "losing"
_START_S = 10.0
_ACCEPTS_S = 1.0
"""One that is found takes commands within that time; that of a former release, which had other sockets, never does."""
_FOUND_S, _FIRST_ANSWER_S = COMMAND_S, 5.0
_POLL_S = 0.02
_log = logging.getLogger(__name__)


class Status(msgspec.Struct, frozen=True):
    """How far the other copy is."""

    state: str
    """ALONE: it was never connected to, or not since it was left on purpose. COPYING, EQUAL: writes go to both.
    LOST: what it lacks is noted. LOSING: the guest's writes wait until the loss is written down.
    """
    done: int = 0
    """Bytes, as *total*, of making it equal."""
    total: int = 0
    export: str = ""
    """The name under which local clients find the disk; empty while it is hidden."""

    @property
    def works(self) -> bool:
        """Whether writes go to both copies."""
        return self.state in (COPYING, EQUAL)

    @property
    def is_equal(self) -> bool:
        return self.state == EQUAL

    @property
    def percent(self) -> float:
        return 100.0 if self.is_equal else 100.0 * self.done / max(self.total, 1)


class StorageDaemon:
    """Commands that change something come one after another: the caller holds its disk's lock."""

    def __init__(self, places: Places, uuid: str, image: str) -> None:
        self._places = places
        self._uuid = uuid
        self._image = image
        self._file = ShownFile(places, uuid, image)
        self._process: asyncio.subprocess.Process | None = None
        self._commands: Commands | None = None
        self._connecting = asyncio.Lock()
        self._client: tuple[int, int] | None = None
        """User and group that the socket of an earlier storage daemon was given to."""
        self._background = Background()
        self._lost: Callable[[str], Awaitable[None]] | None = None
        self._asked: Callable[[Question], Awaitable[None]] | None = None

    def hear(self, lost: Callable[[str], Awaitable[None]], asked: Callable[[Question], Awaitable[None]]) -> None:
        """Have its events handled: a guest waits until *lost* has returned, another node until *asked* has answered."""
        self._lost, self._asked = lost, asked

    async def start(self, export: str) -> None:
        """Serve the image under the name *export*; raises `BlockDeviceError`."""
        await self.prepare()
        await self.show_export(export)

    async def prepare(self) -> None:
        """See to it that one runs and answers. One that does is taken as it is. Raises `BlockDeviceError`."""
        if self.process_id() is not None:
            try:
                await self._ask("status", within_s=_FOUND_S, connected_within_s=_ACCEPTS_S)
                return
            except StorageDaemonError as err:
                _log.warning("the storage daemon of disk %s is replaced by another: %s", self._image, err)
                await self.stop()
        await self._spawn()
        try:
            await self._ask("status", within_s=_FIRST_ANSWER_S)
        except StorageDaemonError as err:
            how = "" if self.process_id() is not None else await self.ended()
            await self.stop()
            why = f"its storage daemon {how}; {log_file(self._places)} may say why" if how else str(err)
            raise BlockDeviceError(f"Disk {self._image} cannot be opened: {why}") from err
        if self._client is not None:  # a guest that runs as another user than root connects again, too
            os.chown(self._places.file(self._uuid, "nbd"), *self._client)

    async def show_export(self, export: str) -> None:
        """Let local clients that know its name connect."""
        await self._ask("show", export)

    async def withdraw_export(self) -> None:
        """End all connections of local clients; what they wrote and were not told of, they send again."""
        await self._ask("hide")

    async def resize(self, size: int) -> None:
        """Of an image that is hidden from local clients, and not mirrored from here."""
        await self._ask("size", size)

    async def limit(self, rate_kib: int) -> None:
        """How much making the other copy equal may take from now on; 0 is without a limit."""
        await self._ask("rate", rate_kib * 1024)

    async def stop(self) -> None:
        """End it; what was written is on disk."""
        self._drop()
        process_id = self.process_id()
        if process_id is not None:
            await end(process_id, lambda: self.process_id() is None)

    def process_id(self) -> int | None:
        """Of the living storage daemon of this disk."""
        return living(self._places.file(self._uuid, "pid"))

    async def ended(self) -> str:
        """Wait until it has ended, or does not run; says how that was."""
        return await end_of(self._places.file(self._uuid, "pid"), lambda: self._process)

    async def status(self) -> Status:
        """Raises `StorageDaemonError`."""
        state, done, total, export = await self._ask("status")
        return Status(state, int(done), int(total), export)

    async def attach(self, disk: Opened, generation: int, export: str, copy: str) -> None:
        """Write to both copies from now on, of which this one has *generation* and the other one is shown as *export*.

        *copy* is `WHOLE`, `NONE` or `KEPT`. Raises `BlockDeviceError` within two seconds where that is not possible;
        writes go on to this copy alone meanwhile.
        """
        wanted = Connect(uuid=disk.uuid, generation=generation, session=disk.marked_session)
        paths = self._places.paths
        try:
            await self._ask(
                "attach",
                *(disk.address, PORT, disk.peer, disk.uuid, paths.client_cert, paths.authority_cert),
                *(export, copy, disk.rate_kib * 1024, msgspec.json.encode(wanted).decode()),
            )
        except RefusedError as err:
            if err.details:  # what the other node's ganeti-mirrord has answered
                read_answer(err.details[0].encode(), Done, f"Node {disk.peer}")
            raise

    async def detach(self) -> bool:
        """End the mirroring, if there is any; true where both copies were equal at that moment."""
        return await self._ask("detach") == ["equal"]

    async def take(self, client: socket.socket) -> None:
        """Give it another node's connection, of whose TLS nothing is read yet, and be asked. *client* stays open."""
        paths = self._places.paths
        await self._ask("take", paths.server_cert, paths.authority_cert, descriptor=client.fileno())

    async def cut(self) -> None:
        """End all connections of the other node; nothing that came over them is written any more."""
        await self._ask("cut")

    async def show(self, export: str) -> str:
        """Show the disk as a file; gives its path."""
        return await self._file.show(export)

    async def hide(self) -> None:
        """End what `show` began."""
        await self._file.hide()

    async def _ask(
        self,
        word: str,
        *arguments: str | int,
        descriptor: int | None = None,
        within_s: float = COMMAND_S,
        connected_within_s: float = _START_S,
    ) -> list[str]:
        commands = await self._connection(connected_within_s)
        try:
            return await commands.execute(word, *arguments, descriptor=descriptor, within_s=within_s)
        except (GoneError, SilentError):  # the next command connects again
            if commands is self._commands:
                self._drop()
            raise

    async def _connection(self, within_s: float) -> Commands:
        async with self._connecting:
            if self._commands is None or self._commands.has_ended:
                self._commands = await self._connected(within_s)
            return self._commands

    async def _connected(self, within_s: float) -> Commands:
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            try:
                return Commands.connect(self._places.file(self._uuid, "cmd"), self._heard)
            except OSError as err:
                if self.process_id() is None:
                    raise GoneError(f"The storage daemon of disk {self._image} does not run") from err
                if asyncio.get_running_loop().time() > deadline:
                    raise SilentError(f"The storage daemon of disk {self._image} accepts no connection: {err}") from err
            await asyncio.sleep(_POLL_S)

    def _heard(self, commands: Commands, word: str, fields: Sequence[str]) -> None:
        match word, fields:
            case "lost", [sentence] if self._lost is not None:
                self._background.start(self._note(commands, self._lost(sentence)), f"noting a loss of {self._image}")
            case "asks", [number, names, line] if self._asked is not None:
                question = Question(commands, number, frozenset(filter(None, names.split(","))), line)
                self._background.start(_call(self._asked(question)), f"admitting a node to {self._image}")
            case _:
                _log.warning("the storage daemon of disk %s tells of what is not known here: %s", self._image, word)

    async def _note(self, commands: Commands, noted: Awaitable[None]) -> None:
        """Over the connection that told of it: on another one, which the next command opens, it is told once more."""
        await noted
        try:
            await commands.execute("noted")
        except StorageDaemonError:  # it still holds the guest's writes
            if commands is self._commands:
                self._drop()

    async def _spawn(self) -> None:
        self._drop()
        with contextlib.suppress(FileNotFoundError):
            before = os.stat(self._places.file(self._uuid, "nbd"))
            self._client = before.st_uid, before.st_gid
        for kind in ("cmd", "nbd"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._places.file(self._uuid, kind))
        words = [PROGRAM, self._image, self._places.name(self._uuid, "cmd"), self._places.name(self._uuid, "nbd")]
        remedy = "install the package ganeti again"
        self._process = await spawn(self._places, words, self._places.file(self._uuid, "pid"), remedy)

    def _drop(self) -> None:
        if self._commands is not None:
            self._commands.close()
            self._commands = None


async def _call(work: Awaitable[None]) -> None:
    await work
