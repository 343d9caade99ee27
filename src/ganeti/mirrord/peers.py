# SPDX-License-Identifier: BSD-2-Clause
"""Asking the ganeti-mirrord of another node, over the cluster's mutual TLS."""

import asyncio
import ssl
from typing import Any, TypeVar

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, BlockDeviceError, GanetiError
from ganeti.base.paths import Paths
from ganeti.mirrord.connections import Connection
from ganeti.node.storage.mirror.requests import (
    PORT,
    AskPeer,
    Done,
    Kept,
    Mark,
    Opened,
    PeerRequest,
    Refusal,
    State,
    Yield,
)
from ganeti.system.tls import client_context

_ANSWER_S = 2.0

T = TypeVar("T")


class PeerSilentError(BlockDeviceError):
    """The other node does not answer, or not as one of this cluster."""


class Peers:
    """Connections to the other nodes of disks."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def state(self, disk: Opened) -> State:
        return await self._ask(disk, AskPeer(uuid=disk.uuid), State)

    async def mark(self, disk: Opened, kept: Kept) -> None:
        await self._ask(disk, Mark(uuid=disk.uuid, kept=kept), Done)

    async def take_back(self, disk: Opened) -> None:
        await self._ask(disk, Yield(uuid=disk.uuid), Done)

    async def _ask(self, disk: Opened, request: PeerRequest, answer: type[T]) -> T:
        """Raises `PeerSilentError`, or `BlockDeviceError` for a refusal."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                connection = await self._open(disk)
                try:
                    return await self._exchange(disk, connection, request, answer)
                finally:
                    connection.close()
        except TimeoutError as err:
            raise PeerSilentError(f"Node {disk.peer} does not answer within {_ANSWER_S:g} s") from err

    async def _open(self, disk: Opened) -> Connection:
        if not disk.address:
            raise PeerSilentError(f"The disk {disk.image} has no second node")
        try:
            return await Connection.open(disk.address, PORT, client_context(self._paths), disk.peer)
        except (OSError, ssl.SSLError, GanetiError) as err:
            raise PeerSilentError(f"Node {disk.peer} does not answer on {disk.address}, port {PORT}: {err}") from err

    async def _exchange(self, disk: Opened, connection: Connection, request: PeerRequest, answer: type[T]) -> T:
        try:
            await connection.write_line(msgspec.json.encode(request))
            line = await connection.read_line()
        except (OSError, ValueError) as err:
            raise PeerSilentError(f"Node {disk.peer} ended the connection: {err}") from err
        if not line:
            raise PeerSilentError(f"Node {disk.peer} ended the connection")
        return read_answer(line, answer, f"Node {disk.peer}")


def read_answer(line: bytes, answer: type[T], sender: str) -> T:
    """Raises `BlockDeviceError` with a refusal's sentence, or for what is no answer."""
    try:
        found: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        if "error" in found:
            raise BlockDeviceError(msgspec.convert(found, Refusal).error)
        return msgspec.convert(found, answer)
    except UNREADABLE_JSON as err:
        raise BlockDeviceError(f"{sender} answers what cannot be understood: {err}") from err
