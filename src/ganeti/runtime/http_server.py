# SPDX-License-Identifier: BSD-2-Clause
"""An HTTP or HTTPS server for small requests and answers, in one process, with kept-alive connections."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from ganeti.base.errors import TransportError

BODY_LIMIT_BYTES = 64 * 1024 * 1024
HANDSHAKE_TIMEOUT_S = 15.0
KEEPALIVE_S = 300.0
SHUTDOWN_S = 1.0


@dataclass(frozen=True)
class HttpRequest:
    method: str
    path: str
    body: bytes
    peer: str
    """Address of the other side."""
    certificate: bytes | None
    """Its certificate (DER), where TLS has checked one."""


@dataclass(frozen=True)
class HttpReply:
    status: int
    body: bytes
    content_type: str = "application/json"


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]


class HttpServer:
    """Listens from `start` to `close`."""

    def __init__(self, handler: Handler, *, address: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._handler = handler
        self._address = address
        self._port = port
        self._tls = tls
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Raises `TransportError` when the address cannot be had."""
        server = web.Server(self._handle, access_log=None, keepalive_timeout=KEEPALIVE_S)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, self._address, self._port, ssl_context=self._tls, backlog=128, reuse_address=True
        )
        try:
            await site.start()
        except OSError as err:
            await self._runner.cleanup()
            reason = err.strerror or str(err)
            raise TransportError(f"Cannot listen on {self._address} port {self._port}: {reason}") from err

    @property
    def port(self) -> int:
        """The port in use, where 0 was asked for."""
        assert self._runner is not None
        address = self._runner.addresses[0]
        return int(address[1])

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > BODY_LIMIT_BYTES:
                return web.Response(status=413, text=f"Requests end at {BODY_LIMIT_BYTES} bytes\n")
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        reply = await self._handler(
            HttpRequest(
                method=request.method,
                path=request.path,
                body=bytes(body),
                peer=request.remote or "",
                certificate=tls.getpeercert(binary_form=True) if tls is not None else None,
            )
        )
        return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)
