# SPDX-License-Identifier: BSD-2-Clause
"""The two doors of ganeti-mirrord: a Unix socket for the node daemon, and a port for the other nodes of the cluster.

What comes to the port is TLS, which is spoken here, or is for a disk's storage daemon, which gets the connection.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from functools import partial

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError, GanetiError
from ganeti.mirrord.admission import require_peer
from ganeti.mirrord.commands import GoneError
from ganeti.mirrord.connections import Connection, Listener, is_for_storage_daemon, read_disk
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.record import make_valid
from ganeti.node.storage.mirror.places import read_kept
from ganeti.node.storage.mirror.requests import (
    CLOSED,
    AsFile,
    AskPeer,
    Close,
    Connect,
    Done,
    HandOver,
    Inspect,
    Mark,
    Open,
    Opened,
    OwnRequest,
    PeerRequest,
    Refusal,
    Resize,
    State,
    Steal,
    TakeBack,
    TakeOver,
    Yield,
)
from ganeti.system.connection_pool import Pool

_log = logging.getLogger(__name__)
_REQUEST_S = 10.0
_LINE_LIMIT_BYTES = 64 * 1024
STRANGERS_MAX = 64
"""Connections that have shown no certificate of the cluster yet."""

Answer = Done | State


class Server:
    """All mirrored disks that are in use on this node."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._disks: dict[str, Disk] = {}
        self._servers: list[asyncio.Server | Listener] = []
        self._strangers = Pool("connections that have shown no certificate", STRANGERS_MAX)

    async def start(self, address: str, port: int, tls: ssl.SSLContext) -> None:
        """Go on with the disks that were in use, then listen."""
        for opened in self._around.places.opened():
            self._disks[opened.uuid] = Disk(self._around, opened)
        await asyncio.gather(*map(_go_on, self._disks.values()))
        self._servers.append(Listener.at_port(address, port, partial(self._peer, tls)))
        control = self._around.places.control
        with contextlib.suppress(FileNotFoundError):
            os.unlink(control)
        self._servers.append(await asyncio.start_unix_server(self._own, control, limit=_LINE_LIMIT_BYTES))
        os.chmod(control, 0o600)

    def close(self) -> None:
        """Storage daemons go on: the next ganeti-mirrord takes them as they are."""
        for server in self._servers:
            server.close()

    @property
    def is_idle(self) -> bool:
        return not self._disks

    async def carry_out(self, request: OwnRequest) -> Answer:
        """What the node daemon asks; raises `BlockDeviceError`."""
        match request:
            case Open(disk=wanted):
                return await self._open(wanted)
            case Inspect(uuid=uuid, image=image):
                disk = self._disks.get(uuid)
                return disk.state() if disk is not None else State(role=CLOSED, kept=read_kept(image))
            case Close(uuid=uuid):
                if (disk := self._disks.get(uuid)) is not None:
                    await disk.close()
                    self._disks.pop(uuid, None)
            case Steal(uuid=uuid, image=image, generation=generation):
                if (disk := self._disks.get(uuid)) is not None:
                    await disk.steal(generation)
                else:
                    make_valid(image, generation)
            case Resize(uuid=uuid, size=size):
                await self._disk(uuid).resize(size)
            case HandOver(uuid=uuid):
                await self._disk(uuid).hand_over()
            case TakeOver(uuid=uuid):
                await self._disk(uuid).take_over()
            case TakeBack(uuid=uuid):
                if uuid in self._disks:
                    await self._disks[uuid].take_back()
            case AsFile(uuid=uuid):
                return Done(path=await self._disk(uuid).as_file())
        return Done()

    async def _open(self, wanted: Opened) -> Done:
        disk = self._disks.get(wanted.uuid) or Disk(self._around, msgspec.structs.replace(wanted, role=CLOSED))
        self._disks[wanted.uuid] = disk
        try:
            return Done(export=await disk.open(wanted))
        finally:
            if disk.opened.role == CLOSED:
                self._disks.pop(wanted.uuid, None)

    def _disk(self, uuid: str) -> Disk:
        if uuid not in self._disks:
            raise BlockDeviceError(f"Disk {uuid} is not open on this node")
        return self._disks[uuid]

    async def _own(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                writer.write(await self._answered(line))
                await writer.drain()
        writer.close()

    async def _answered(self, line: bytes) -> bytes:
        try:
            answer: Answer | Refusal = await self.carry_out(msgspec.json.decode(line, type=OwnRequest))
        except GoneError as err:
            answer = Refusal(error=f"The storage daemon has ended and is started again: try again ({err})")
        except (GanetiError, OSError, *UNREADABLE_JSON) as err:
            answer = Refusal(error=str(err))
        return msgspec.json.encode(answer) + b"\n"

    async def _peer(self, tls: ssl.SSLContext, client: socket.socket) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            self._strangers.add(task, str(client.getpeername()[0]), lambda: _give_up(task))
            connection = await self._met(client, tls)
        except (OSError, ValueError) as err:  # or TimeoutError
            _log.debug("a connection to this node failed: %s", err)
            return
        finally:
            self._strangers.remove(task)
        if connection is None:
            return
        try:
            await self._serve_peer(connection)
        except (OSError, ValueError) as err:
            _log.debug("a connection of another node ended: %s", err)
        finally:
            connection.close()

    async def _met(self, client: socket.socket, tls: ssl.SSLContext) -> Connection | None:
        """Another node, by its certificate; None where *client* was given to a storage daemon, which sees to that.

        Closes *client* where it fails.
        """
        try:
            async with asyncio.timeout(_REQUEST_S):
                if not await is_for_storage_daemon(client):
                    return await Connection.accepted(client, tls)
                uuid = await read_disk(client)
            await self._give_away(client, uuid)
        except BaseException:
            client.close()
            raise
        client.close()
        return None

    async def _give_away(self, client: socket.socket, uuid: str) -> None:
        try:
            await self._disk(uuid).admission.take(client)
        except GanetiError as err:
            _log.debug("a connection for disk %s is closed: %s", uuid, err)

    async def _serve_peer(self, connection: Connection) -> None:
        async with asyncio.timeout(_REQUEST_S):
            line = await connection.read_line()
        answer: Answer | Refusal
        try:
            request = msgspec.json.decode(line, type=PeerRequest)
            disk = self._disk(request.uuid)
            require_peer(disk.opened, connection.names)
            answer = await self._answer_peer(disk, request)
        except (GanetiError, OSError, *UNREADABLE_JSON) as err:
            answer = Refusal(error=str(err))
        await connection.write_line(msgspec.json.encode(answer))

    async def _answer_peer(self, disk: Disk, request: PeerRequest) -> Answer:
        match request:
            case Connect():
                peer = disk.opened.peer
                raise BlockDeviceError(f"Node {peer} mirrors disks as former releases did: update ganeti on {peer}")
            case AskPeer():
                return disk.state()
            case Mark(kept=kept):
                await disk.mark(kept)
            case Yield():
                await disk.yield_back()
        return Done()


async def _go_on(disk: Disk) -> None:
    """Whatever is wrong with it, other disks go on."""
    try:
        await disk.go_on()
    except Exception as err:
        known = isinstance(err, GanetiError | OSError)
        _log.error("disk %s (%s): %s", disk.opened.image, disk.opened.owner, err, exc_info=None if known else err)


def _give_up(task: "asyncio.Task[None]") -> None:
    task.cancel()
