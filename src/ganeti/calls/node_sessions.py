# SPDX-License-Identifier: BSD-2-Clause
"""Done once in the spawner, so that not every job that calls nodes has to do it, and to keep a copy of it.

Nothing here leaves a connection, a session or a thread: only what Python, OpenSSL and the loop make for the first of
them. Nodes are called as jobs call them, but the only one is this process, at the loopback address: it shows this
node's certificate from both ends.
"""

import asyncio
import logging
import ssl
from asyncio.sslproto import SSLProtocol
from typing import cast

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.calls.node_client import NodeClient
from ganeti.model.objects import Node
from ganeti.model.view import ConfigView
from ganeti.system import call_delay
from ganeti.system.tls import ServerFiles, client_context, server_context

_log = logging.getLogger(__name__)
_BUFFER_BYTES = 32 * 1024
"""Two records of TLS. The loop would give each connection 256 KiB, and write zeros to all of it."""
_ROUNDS = 8
"""As often as the interpreter sees code run before it settles how to run it."""
_ADDRESS = "127.0.0.1"
_LIMIT_S = 5.0
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n[true,null]"


def prepare(paths: Paths, hostname: str) -> None:
    """Load this node's certificate, and call ourselves as jobs call nodes; *hostname* is in the certificate."""
    SSLProtocol.max_size = _BUFFER_BYTES
    try:
        client_context(paths)
    except TransportError:  # a cluster without nodes to call; who calls one is told then
        return
    loop = asyncio.new_event_loop()
    try:
        tls = server_context(ServerFiles.of(paths, certificate=paths.client_cert))
        with call_delay.suspended():
            loop.run_until_complete(_call_ourselves(paths, hostname, tls))
    except Exception as err:  # jobs will do without, whatever it is
        _log.warning("jobs that call nodes will cost more memory: the rehearsal of such a call failed: %s", err)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _call_ourselves(paths: Paths, hostname: str, tls: ssl.SSLContext) -> None:
    """As often over a new connection as over one that is kept."""
    server = await asyncio.start_server(_answer, _ADDRESS, 0, ssl=tls)
    async with server:
        view = cast(ConfigView, _Ourselves(hostname))
        port: int = server.sockets[0].getsockname()[1]
        for _ in range(_ROUNDS):
            client = NodeClient(paths, lambda: view, port=port)
            try:
                for _ in range(2):
                    await client.call(hostname, "version", deadline_s=_LIMIT_S)
            finally:
                await client.close()


class _Ourselves:
    """The view of a cluster of one node."""

    position = (0, 0)

    def __init__(self, hostname: str) -> None:
        self._node = Node(uuid=hostname, name=hostname, primary_ip=_ADDRESS, secondary_ip=_ADDRESS, group="")

    def node(self, uuid: str) -> Node:
        return self._node


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection, until its client ends it."""
    try:
        while head := await _head(reader):
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            writer.write(_ANSWER)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
