# SPDX-License-Identifier: BSD-2-Clause
"""Passing HTTP requests on to another machine that shows the certificate we show ourselves."""

import asyncio
import hashlib
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping

from yarl import URL

from ganeti.base.addresses import host_and_port
from ganeti.base.errors import TransportError
from ganeti.system.files import plain_file
from ganeti.system.http_server import HttpReply, HttpRequest
from ganeti.system.lean_aiohttp import aiohttp  # its client is loaded by the first request

_CONNECT_S = 5.0
_ANSWER_S = 600.0
_PASSED_ON = ("Authorization", "Content-Type", "Accept", "Last-Event-ID", "Idempotency-Key", "traceparent")
_PASSED_BACK = (
    *("WWW-Authenticate", "Retry-After", "Location", "Allow"),
    *("Cache-Control", "X-Content-Type-Options", "X-Accel-Buffering"),
)
EVENTS = "text/event-stream"
EVENTS_SILENT_S = 100.0
"""A stream of events says twice in this time that it lives: one that does not has lost its other end."""
LOOK_S = 5.0
"""So often a stream of events in which nothing comes is asked whether it comes from the right machine yet."""


class HttpRelay:
    """One session; opened with the first request."""

    def __init__(self, files: Callable[[], tuple[str, str | None]] | None) -> None:
        """None for plain HTTP; otherwise the files with the certificate that the other side must show, or with the
        authority that must have issued it. Files that are renewed are looked at again.

        Names in certificates do not count: the cluster's address moves from node to node.
        """
        self._files = files
        self._state: tuple[str, str | None, float] | None = None
        """The files of the session, and when they were written."""
        self._sessions: list[aiohttp.ClientSession] = []

    async def send(
        self,
        request: HttpRequest,
        address: str,
        port: int,
        headers: Mapping[str, str],
        is_right: Callable[[], bool] = lambda: True,
    ) -> HttpReply:
        """Give the other side's reply, whose body comes as it is sent; raises `TransportError`.

        A stream of events ends once the address is no longer the *right* one: nobody may be there to end it.
        """
        passed = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        scheme = "http" if self._files is None else "https"
        query = f"?{request.query}" if request.query else ""
        url = URL(f"{scheme}://{host_and_port(address, port)}{request.raw_path}{query}", encoded=True)
        try:
            response = await self._open().request(
                request.method, url, data=request.body or None, headers={**passed, **headers}, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError) as err:
            raise TransportError(f"The remote API of the master at {address} does not answer: {err}") from err
        back = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
        body = _events(response, is_right) if response.content_type == EVENTS else _body(response)
        return HttpReply(response.status, b"", response.content_type, back, body)

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()

    def _open(self) -> "aiohttp.ClientSession":
        state = None
        if self._files is not None:
            certificate, authority = self._files()
            state = certificate, authority, os.stat(authority or certificate).st_mtime
        if not self._sessions or state != self._state:
            self._state = state
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_ANSWER_S)
            connector = aiohttp.TCPConnector(ssl=_trusted(state), limit=0)
            self._sessions.append(aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False))
        return self._sessions[-1]


def _trusted(files: tuple[str, str | None, float] | None) -> "aiohttp.Fingerprint | ssl.SSLContext | bool":
    if files is None:
        return False
    certificate, authority, _ = files
    if authority is not None:
        context = ssl.create_default_context(cafile=authority)
        context.check_hostname = False
        return context
    with open(certificate, encoding="ascii", errors="replace", opener=plain_file) as file:
        return aiohttp.Fingerprint(hashlib.sha256(first_certificate(file.read())).digest())


def first_certificate(text: str) -> bytes:
    """Give the first certificate of a PEM file in DER; raises `TransportError` where there is none."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = text.partition(begin)
    body, ended, _ = rest.partition(end)
    if not found or not ended:
        raise TransportError("The certificate of the remote API cannot be read")
    return ssl.PEM_cert_to_DER_cert(f"{begin}{body}{end}\n")


async def _body(response: "aiohttp.ClientResponse") -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except aiohttp.ClientError as err:
        raise ConnectionResetError(str(err)) from err
    finally:
        response.close()


async def _events(response: "aiohttp.ClientResponse", is_right: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """A stream that ends by itself once nothing can come any more."""
    loop = asyncio.get_running_loop()
    heard_s = loop.time()
    try:
        while loop.time() < heard_s + EVENTS_SILENT_S and is_right():
            try:
                chunk = await asyncio.wait_for(response.content.readany(), LOOK_S)
            except TimeoutError:
                continue
            if not chunk:
                return
            heard_s = loop.time()
            yield chunk
    except aiohttp.ClientError as err:
        raise ConnectionResetError(str(err)) from err
    finally:
        response.close()
