# SPDX-License-Identifier: BSD-2-Clause
"""The port of the other nodes: where it listens, how many strangers it has time for, and who gets a connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from ganeti.base.errors import BlockDeviceError
from ganeti.mirrord.connections import Listener
from ganeti.mirrord.server import STRANGERS_MAX, Server
from ganeti.node.storage.mirror.requests import Connect, Opened


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no sockets for IPv4 and IPv6 at once")
@pytest.mark.requirement("S1.100")
def test_all_addresses_of_a_hybrid_cluster_include_those_of_ipv4() -> None:
    """Disks are mirrored over the secondary addresses, which are IPv4 there."""

    async def run() -> None:
        met: asyncio.Queue[str] = asyncio.Queue()

        async def serve(sock: socket.socket) -> None:
            met.put_nowait("client")
            sock.close()

        listener = Listener.at_port("::", 0, serve)
        try:
            port = listener._sock.getsockname()[1]
            for address in ("127.0.0.1", "::1"):
                _, writer = await asyncio.open_connection(address, port)
                assert await asyncio.wait_for(met.get(), 60) == "client"
                writer.close()
        finally:
            listener.close()

    asyncio.run(run())


def test_of_connections_that_show_no_certificate_the_oldest_are_let_go() -> None:
    """They would take all files that the process may open, and with them the mirror's own connections."""

    async def run() -> None:
        nothing: Any = None
        server = Server(nothing)
        listener = Listener.at_port("127.0.0.1", 0, partial(server._peer, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))
        port = listener._sock.getsockname()[1]
        try:
            clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(STRANGERS_MAX + 3)]
            ends = [reader.read(1) for reader, _ in clients[:3]]
            assert await asyncio.wait_for(asyncio.gather(*ends), 5) == [b""] * 3
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(clients[3][0].read(1), 0.1)
            for _, writer in clients:
                writer.close()
        finally:
            listener.close()
            await listener._serving.cancel()

    asyncio.run(run())


class _Disk:
    """Takes connections."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[bytes] = asyncio.Queue()
        self.admission = self

    async def take(self, client: socket.socket) -> None:
        self.taken.put_nowait(client.recv(99, socket.MSG_DONTWAIT))
        client.send(b"taken")


@pytest.mark.parametrize("pieces", [[b"GANETI-DISK disk\nTLS"], [b"G", b"ANETI-DISK disk", b"\nTLS"]])
def test_a_connection_for_a_disk_goes_to_its_storage_daemon(pieces: list[bytes]) -> None:
    """With all that comes after the line."""

    async def run(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        disk: Any = _Disk()
        server._disks["disk"] = disk
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.01)
        assert await reader.read() == b"taken"
        assert await disk.taken.get() == b"TLS"

    _play(run)


@pytest.mark.parametrize(
    "line", [b"GANETI-DISK other\n", b"GANETI-DISK \xff\n", b"GET / HTTP/1.1\n", b"G" * 99, b"\x16\x03", b"", b"x"]
)
def test_what_is_for_no_disk_and_no_tls_is_closed(line: bytes) -> None:
    async def run(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(line)
        writer.write_eof()
        with suppress(ConnectionError):
            assert b"taken" not in await reader.read()

    _play(run)


def _play(story: Callable[[Server, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
    async def run() -> None:
        nothing: Any = None
        server = Server(nothing)
        listener = Listener.at_port("127.0.0.1", 0, partial(server._peer, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener._sock.getsockname()[1])
            await asyncio.wait_for(story(server, reader, writer), 60)
            writer.close()
        finally:
            listener.close()
            await listener._serving.cancel()

    asyncio.run(run())


def test_a_node_of_a_former_release_is_told_to_be_updated() -> None:
    async def run() -> None:
        nothing: Any = None
        disk: Any = SimpleNamespace(opened=Opened(uuid="disk", image="i", role="secondary", peer="node1"))
        with pytest.raises(BlockDeviceError, match="update ganeti on node1"):
            await Server(nothing)._answer_peer(disk, Connect(uuid="disk", generation=1))

    asyncio.run(run())
