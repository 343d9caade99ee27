# SPDX-License-Identifier: BSD-2-Clause
"""Done once in the spawner, so that not every job that calls nodes has to do it, and to keep a copy of it.

Nothing here holds a connection, a session or a thread: only what OpenSSL and the loop make before the first of them.
"""

import asyncio
import logging
import ssl
import tempfile
from asyncio.sslproto import SSLProtocol

import aiohttp

from ganeti.base.errors import TransportError
from ganeti.base.paths import Paths
from ganeti.system.tls import client_context

_log = logging.getLogger(__name__)
_BUFFER_BYTES = 32 * 1024
"""Two records of TLS. The loop would give each connection 256 KiB, and write zeros to all of it."""
_ROUNDS = 8
"""As often as the interpreter sees code run before it settles how to run it."""
_BODY = b"{}"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n[true,null]"


def prepare(paths: Paths) -> None:
    """Load this node's certificate, let OpenSSL look up all it needs for saying hello, and make some HTTP requests."""
    SSLProtocol.max_size = _BUFFER_BYTES
    _say_hello(paths)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(_call_ourselves())
    except (OSError, aiohttp.ClientError) as err:  # jobs will do without
        _log.warning("jobs that call nodes will cost more memory: the rehearsal of such a call failed: %s", err)
    finally:
        loop.close()


def _say_hello(paths: Paths) -> None:
    try:
        context = client_context(paths)
    except TransportError:  # a cluster without nodes to call; who calls one is told then
        return
    hello = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        return


async def _call_ourselves() -> None:
    """Requests as `NodeClient` makes them, to nobody but this process."""
    with tempfile.TemporaryDirectory(prefix="ganeti-spawner-") as directory:
        path = f"{directory}/socket"
        server = await asyncio.start_unix_server(_answer, path)
        session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=10.0, connect=10.0),
        )
        async with server, session:
            for _ in range(_ROUNDS):
                async with session.post("http://localhost/version", data=_BODY) as response:
                    await response.read()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(_ROUNDS):
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(_BODY))
        writer.write(_ANSWER)
    await writer.drain()
    writer.close()
