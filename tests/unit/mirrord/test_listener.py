# SPDX-License-Identifier: BSD-2-Clause
"""The port of the other nodes: the addresses that it listens on, and how many strangers it has time for."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from typing import Any

import pytest

from ganeti.mirrord.connections import Listener
from ganeti.mirrord.server import STRANGERS_MAX, Server


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
