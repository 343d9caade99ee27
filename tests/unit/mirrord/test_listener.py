# SPDX-License-Identifier: BSD-2-Clause
"""Which addresses the port of the other nodes listens on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from ganeti.mirrord.connections import Listener


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
