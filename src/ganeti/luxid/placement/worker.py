# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's placement worker: one process that holds the cluster as arrays and answers one question after the other.

It follows WConfD's change stream by itself, so LuxiD's loop never writes down a cluster; LuxiD sends what nodes
reported since its last question, and which position of the configuration the answer must be of. The worker is started
when the first question comes, and again after it ended. Run as a program, this module is the worker.
"""

import asyncio
import gc
import logging
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import INTERNAL_ERROR, NO_MEMORY, ExecutionError, GanetiError, TransportError, from_wire
from ganeti.master.cache.node_reports import NodeReport, NodeReports
from ganeti.model.placement_requests import PlacementRequest
from ganeti.model.reservations import Reservation
from ganeti.wire.framing import Connection, decode

_log = logging.getLogger(__name__)
_ANSWER_S = 300.0
_FOLLOW_S = 60.0
"""How long the worker may take to reach a position: at its start it reads the whole configuration."""
ANSWER, INPUT = "answer", "input"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker is asked, over which state."""

    request: PlacementRequest
    template: str
    """Disk template whose free space counts."""
    position: tuple[int, int]
    reservations: list[Reservation] = []
    reports: dict[str, NodeReport] = {}
    """Those taken since the last question, by node uuid."""
    want: str = ANSWER
    why: bool = False
    """Whether an answer with nodes is to say why no others were chosen; that costs more than to choose them."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One of the three."""

    response: dict[str, Any] | None = None
    reasons: list[str] = []
    """A line for each node that was not chosen."""
    input: msgspec.Raw = msgspec.Raw(b"null")
    error: list[Any] | None = None


class PlacementWorker:
    """LuxiD's side."""

    def __init__(self, wconfd_socket: str, reports: NodeReports) -> None:
        self._wconfd_socket = wconfd_socket
        self._reports = reports
        self._sent = 0
        """Number of the newest report this worker has."""
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()

    async def ask(self, question: Question) -> Answer:
        """Give the answer over all reports there are; raises `GanetiError`. A worker that dies is asked once more."""
        async with self._turn:
            for attempt in (1, 2):
                try:
                    return await self._ask(question)
                except TransportError as err:
                    self.close()
                    if attempt == 2:
                        raise ExecutionError(f"The placement worker ended without an answer: {err}") from err
                    _log.warning("the placement worker has ended (%s); starting another", err)
        raise AssertionError

    async def _ask(self, question: Question) -> Answer:
        connection = await self._connect()
        newest = self._reports.number
        asked = msgspec.structs.replace(question, reports=dict(self._reports.since(self._sent)))
        complete = False
        try:
            async with asyncio.timeout(_ANSWER_S):
                await connection.send(asked)
                data = await connection.receive_bytes()
            complete = data is not None
        except TimeoutError as err:
            raise ExecutionError(f"The placement worker did not answer within {_ANSWER_S:g} seconds") from err
        finally:
            if not complete:
                self.close()
        if data is None:
            raise TransportError("The other side closed the connection")
        self._sent = newest
        answer = msgspec.json.decode(data, type=Answer)
        if answer.error is not None:
            raise from_wire(answer.error)
        return answer

    async def _connect(self) -> Connection:
        if self._connection is None:
            self._sent = 0
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            with theirs:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "ganeti.luxid.placement.worker",
                        str(theirs.fileno()),
                        self._wconfd_socket,
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            self._connection = Connection(*await asyncio.open_unix_connection(sock=ours))
        return self._connection

    def close(self) -> None:
        """End the worker, if there is one."""
        connection, self._connection = self._connection, None
        process, self._process = self._process, None
        if connection is not None:
            connection.abort()
        if process is not None:
            process.kill()
            process.wait()


async def work(descriptor: int, wconfd_socket: str) -> None:
    """Answer questions until LuxiD goes away."""
    from ganeti.calls.config_follower import ConfigFollower
    from ganeti.calls.wconfd_client import WConfdClient
    from ganeti.master.cache.cluster_picture import ClusterPicture
    from ganeti.system.event_loop import Background

    ours = socket.socket(fileno=descriptor)
    ours.setblocking(False)
    connection = Connection(*await asyncio.open_unix_connection(sock=ours))
    client = WConfdClient(wconfd_socket)
    follower = ConfigFollower(client)
    picture = ClusterPicture(lambda: follower.configuration)
    follower.observers.append(picture.before)
    background = Background()
    background.start(follower.run(), "following the configuration")
    answering = _Answering(follower, picture)
    try:
        while (data := await connection.receive_bytes()) is not None:
            await connection.send(await answering.answer(data))
    except TransportError:
        return
    finally:
        await background.cancel()
        await client.close()
        connection.abort()


class _Answering:
    """The worker's side: one question at a time over the newest of everything."""

    def __init__(self, follower: Any, picture: Any) -> None:
        from ganeti.master.cache.placer import Placer

        self._follower = follower
        self._picture = picture
        self._placer = Placer(picture)
        self._is_frozen = False

    async def answer(self, data: bytes) -> Answer:
        try:
            question = msgspec.convert(decode(data), Question)
            self._picture.take_reports(question.reports)
            if not await self._follower.reached(question.position, _FOLLOW_S):
                raise ExecutionError(
                    f"The placement worker does not get the configuration of ganeti-wconfd within {_FOLLOW_S:g} seconds"
                )
            return self._answer(question)
        except GanetiError as err:
            return Answer(error=err.to_wire())
        except MemoryError:
            return Answer(error=ExecutionError(NO_MEMORY).to_wire())
        except Exception as err:
            _log.exception("a placement request failed with %s", INTERNAL_ERROR)
            return Answer(error=ExecutionError(f"The allocator failed: {type(err).__name__}: {err}").to_wire())

    def _answer(self, question: Question) -> Answer:
        view = self._follower.configuration
        if question.want == INPUT:
            from ganeti.master.allocator_input import allocator_input

            whole = allocator_input(view, self._picture.reports, question.reservations, question.template)
            return Answer(input=msgspec.Raw(msgspec.json.encode(whole)))
        response, reasons = self._placer.answer(
            view, question.request, question.template, question.reservations, why=question.why
        )
        if not self._is_frozen:
            gc.freeze()  # the cluster lives as long as this process: to look through it for garbage costs each answer
            self._is_frozen = True
        return Answer(response=response, reasons=reasons)


def main(arguments: Sequence[str] | None = None) -> int:
    descriptor, wconfd_socket = sys.argv[1:] if arguments is None else arguments
    asyncio.run(work(int(descriptor), wconfd_socket))
    return 0


if __name__ == "__main__":
    sys.exit(main())
