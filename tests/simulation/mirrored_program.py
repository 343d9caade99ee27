# SPDX-License-Identifier: BSD-2-Clause
"""The model of a mirrored disk's storage daemon: which copy has a write when, what is late, and what is noted.

Writes to the same block wait for each other. From a loss on no guest is answered until the loss is noted, and what the
other copy lacks is remembered by block. Nothing is connected to without a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ganeti.mirrord.commands import GoneError, RefusedError, SilentError
from ganeti.mirrord.questions import Question
from ganeti.mirrord.storage_daemon import ALONE, COPYING, EQUAL, KEPT, LOSING, LOST, WHOLE, Status, StorageDaemon
from ganeti.node.storage.mirror.requests import Connect, Opened

if TYPE_CHECKING:
    from tests.simulation.mirrored_pair import Node, Pair

BLOCKS = 12
UUID = "disk"
SILENCE_S = 0.8
_ATTACHED_WITHIN_S, _FLUSHED_WITHIN_S = 2.0, 4.0
_POLL_S = 0.002


@dataclass(eq=False)
class Connection:
    """From a primary's storage daemon to that of the other node, which serves it."""

    reader: Program
    is_open: bool = True


@dataclass(eq=False)
class Late:
    """A write of the other node's that has arrived whole, and is not carried out yet."""

    block: int
    value: int


@dataclass(eq=False)
class Program:
    """A storage daemon: it outlives ganeti-mirrord."""

    export: str = ""
    """The name under which guests find the disk; empty while it is hidden."""
    connection: Connection | None = None
    """To the other copy."""
    has_lost: bool = False
    """It was connected, and notes what the other copy lacks."""
    is_noted: bool = True
    """The last loss is: until then no write is answered."""
    dirty: set[int] = field(default_factory=set)
    busy: set[int] = field(default_factory=set)
    """Blocks that are written or copied just now."""
    is_leaving: bool = False
    """New writes wait."""
    late: list[Late] = field(default_factory=list)
    served: list[Connection] = field(default_factory=list)
    client: ModelDaemon | None = None
    """Whom it tells of losses."""

    def lose(self) -> None:
        """The other copy lacks what is on its way, and all that comes."""
        self.connection, self.has_lost, self.is_noted = None, True, False
        self.dirty |= self.busy
        if self.client is not None:
            self.client.hear_of_loss(self)


class ModelDaemon(StorageDaemon):
    """Commands to the model, of one ganeti-mirrord."""

    def __init__(self, pair: Pair, node: Node) -> None:
        self._pair, self._node = pair, node
        self._tasks: list[asyncio.Future[Any]] = []

    def kill(self) -> None:
        """Its ganeti-mirrord is killed."""
        if self._node.program is not None and self._node.program.client is self:
            self._node.program.client = None
        for task in self._tasks:
            task.cancel()

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """What is done at an event."""
        self._tasks.append(asyncio.ensure_future(work))

    def hear_of_loss(self, program: Program) -> None:
        self.begin(self._note_loss(program))

    async def _note_loss(self, program: Program) -> None:
        assert self._lost is not None
        await self._lost("the other node does not answer")
        if program.client is self:
            program.is_noted = True

    def _program(self) -> Program:
        if self._node.program is None:
            raise GoneError("the storage daemon is gone")
        return self._node.program

    async def prepare(self) -> None:
        await self._pair.pause()
        if self._node.program is None:
            self._node.program = Program()
        program = self._node.program
        if program.client is not self:
            program.client = self
            if not program.is_noted:
                self.hear_of_loss(program)
        await self._pair.pause()  # until the first command is answered

    async def stop(self) -> None:
        """What was begun is carried out, unless it hangs."""
        program = self._node.program
        if program is not None and self._pair.draw.random() < 0.5:
            self._pair.carry_out_late(self._node, program)
        self._node.program = None
        await self._pair.pause()

    def process_id(self) -> int | None:
        return 1 if self._node.program is not None else None

    async def ended(self) -> str:
        while self._node.program is not None:  # noqa: ASYNC110 (a model's own time)
            await asyncio.sleep(0.05)
        return "has ended"

    async def show_export(self, export: str) -> None:
        await self._pair.pause()
        self._program().export = export

    async def withdraw_export(self) -> None:
        program = self._program()
        program.export = ""
        while program.busy:  # noqa: ASYNC110 (a model's own time)
            await asyncio.sleep(_POLL_S)
        await self._pair.pause()

    async def cut(self) -> None:
        await self._pair.pause()
        program = self._program()
        for connection in program.served:
            connection.is_open = False
        program.served.clear()
        if program.late and self._pair.may_hang and self._pair.draw.random() < 0.2:
            self._pair.may_hang = False
            await asyncio.sleep(30.0)
            raise SilentError("the storage daemon hangs")
        self._pair.carry_out_late(self._node, program)
        await self._pair.pause()

    async def hide(self) -> None:
        return

    async def limit(self, rate_kib: int) -> None:
        return

    async def status(self) -> Status:
        await self._pair.pause()
        program = self._program()
        if not program.is_noted:
            state = LOSING
        elif program.connection is not None:
            state = COPYING if program.dirty else EQUAL
        else:
            state = LOST if program.has_lost else ALONE
        status = Status(state, BLOCKS - len(program.dirty), BLOCKS, program.export)
        await self._pair.pause()
        return status

    async def attach(self, disk: Opened, generation: int, export: str, copy: str) -> None:
        program = self._program()
        if program.connection is not None or not program.is_noted:
            raise RefusedError("it is attached, or was and that is not noted")
        wanted = Connect(uuid=UUID, generation=generation, session=disk.marked_session)
        try:
            async with asyncio.timeout(_ATTACHED_WITHIN_S):
                connection = await self._connect(wanted, export)
        except TimeoutError as err:
            raise RefusedError("no answer") from err
        if self._node.program is not program:
            raise GoneError("the storage daemon is gone")
        if copy != KEPT:
            program.dirty = set(range(BLOCKS)) if copy == WHOLE else set()
        program.dirty |= program.busy
        program.connection, program.has_lost = connection, False
        self._pair.jobs.append(asyncio.ensure_future(self._pair.copy(self._node, program, connection)))

    async def _connect(self, wanted: Connect, export: str) -> Connection:
        pair, node = self._pair, self._node
        other = pair.other(node.name)
        await pair.pause()
        if not pair.passes(node, other):
            await asyncio.sleep(_ATTACHED_WITHIN_S)
        disk = other.server._disks.get(UUID) if other.server is not None else None
        if disk is None or other.program is None:
            raise RefusedError("no connection")
        question = ModelQuestion(pair, node, wanted)
        daemon = disk._daemon
        assert isinstance(daemon, ModelDaemon)
        daemon.begin(disk.admission.admit(question))
        connection: Connection = await question.answer
        await pair.pause()
        if not pair.passes(node, other) or not connection.is_open or connection.reader.export != export:
            raise RefusedError("it has ended, or shows no such export")
        return connection

    async def detach(self) -> bool:
        """It goes on where its ganeti-mirrord is killed meanwhile."""
        return await asyncio.shield(asyncio.ensure_future(self._detach(self._program())))

    async def _detach(self, program: Program) -> bool:
        equal = program.connection is not None and not program.dirty
        program.is_leaving = True
        end_s = asyncio.get_running_loop().time() + _FLUSHED_WITHIN_S
        while program.busy and asyncio.get_running_loop().time() < end_s:  # noqa: ASYNC110 (a model's own time)
            await asyncio.sleep(_POLL_S)
        await self._pair.pause()  # the last flush
        connection, program.is_leaving = program.connection, False
        if connection is not None:
            equal = equal and not (program.dirty or program.busy) and self._pair.reaches(self._node, connection)
            if not equal:
                program.lose()
            connection.is_open = False
        else:
            equal = False
        program.connection, program.has_lost = None, False
        program.dirty.clear()
        await self._pair.pause()
        return equal


class ModelQuestion(Question):
    """The primary's storage daemon waits for its *answer*."""

    def __init__(self, pair: Pair, node: Node, wanted: Connect) -> None:
        self.names, self.line = {node.name}, msgspec.json.encode(wanted).decode()
        self.answer: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._pair = pair
        self._other = pair.other(node.name)
        self._reader = self._other.program

    async def serve(self) -> None:
        await self._pair.pause()
        if self._reader is None or self._other.program is not self._reader:
            raise GoneError("the storage daemon is another one")
        if self.answer.done():
            raise RefusedError("that connection has ended")
        connection = Connection(self._reader)
        self._reader.served.append(connection)
        self.answer.set_result(connection)

    async def refuse(self, sentence: str) -> None:
        with suppress(asyncio.InvalidStateError):
            self.answer.set_exception(RefusedError(sentence))
