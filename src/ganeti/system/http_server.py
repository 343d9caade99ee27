# SPDX-License-Identifier: BSD-2-Clause
"""An HTTP or HTTPS server for small requests and answers, in one process, with kept-alive connections."""

import asyncio
import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from ganeti.base.errors import TransportError
from ganeti.system.connection_gate import CONNECTION_BUFFER_BYTES, WAITING_MAX, ConnectionGate, Trust
from ganeti.system.event_loop import Background
from ganeti.system.lean_aiohttp import (
    BadHttpMethod,
    BaseRequest,
    ContentEncodingError,
    HttpProcessingError,
    LineTooLong,
    RequestHandler,
    RequestPayloadError,
    Response,
    Server,
    StreamResponse,
)
from ganeti.system.short_answers import Answer, Head, ShortAnswers

BODY_LIMIT_BYTES = 64 * 1024 * 1024
BODY_PAUSE_S = 30.0
"""How long a client may send nothing in the middle of a request."""
LINGER_S = 2.0
"""How long the rest of a refused request is taken in, so that its sender comes to read why."""
BODY_S = 600.0
"""How long a request may take, from its first line to its last byte."""
KEEPALIVE_S = 90.0
"""Longer than clients keep a connection (`http_client`): mostly they end it."""
SHUTDOWN_S = 1.0
_NONE: Mapping[str, str] = MappingProxyType({})


class HttpRequest(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: bytes
    peer: str
    """Address of the other side."""
    certificate: bytes | None
    """Its certificate (DER), where TLS has checked one."""
    query: str = ""
    """What stands after the question mark, as it came."""
    headers: Mapping[str, str] = _NONE
    """Found whatever the case of their names."""
    raw_path: str = ""
    """The path as it came, with its percent signs: what is passed on."""
    is_gone: Callable[[], bool] = lambda: False
    """Whether the other side has closed the connection: then nobody waits for the answer."""


class Chunks(Protocol):
    """Pieces of an answer, as asynchronous generators give them; closed when no more of them are sent."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class HttpReply(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = _NONE
    chunks: Chunks | None = None
    """What follows *body*, sent as it comes; a client that takes nothing for `BODY_PAUSE_S` is cut off."""


Handler = Callable[[HttpRequest], Awaitable[HttpReply]]
Refusal = Callable[[HttpRequest, int, str, Mapping[str, str]], HttpReply]
"""Gives the reply to a request that does not get to its handler: its status, a sentence, further headers."""
Door = Callable[[HttpRequest], HttpReply | None]
"""Looks at a request whose body has not been read yet; gives the reply to one that is not let in."""


_CODINGS = ("identity", "gzip", "deflate")
_UNKNOWN_CODING = (
    415,
    "The Content-Encoding of the body can be gzip or deflate, or none",
    {"Accept-Encoding": "gzip, deflate"},
)
_CONTINUE = "100-continue"
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
_NAME: Mapping[str, str] = {"Server": "Ganeti"}
"""In place of the versions of Python and the library, which help nobody but attackers."""


def _plainly(request: HttpRequest, status: int, sentence: str, headers: Mapping[str, str]) -> HttpReply:
    return HttpReply(status, f"{sentence}\n".encode(), "text/plain", headers)


class HttpServer:
    """Listens from `start` to `close`."""

    def __init__(
        self,
        handler: Handler,
        *,
        address: str,
        port: int,
        tls: ssl.SSLContext | None,
        door: Door = lambda request: None,
        refusal: Refusal = _plainly,
        trusts: Trust = lambda certificate: True,
        body_limit_bytes: int = BODY_LIMIT_BYTES,
        bodies_limit_bytes: int | None = None,
        waiting_max: int = WAITING_MAX,
        waiting_s: float | None = None,
        buffer_bytes: int = CONNECTION_BUFFER_BYTES,
        early: bool = False,
        short: frozenset[str] = frozenset(),
    ) -> None:
        """Clients that *trusts* knows by their certificates may keep connections open; the door looks at all.

        *bodies_limit_bytes* is for the bodies of all requests at one time: who comes with more is put off.
        *waiting_max* connections may have no request that is worked on, each for *waiting_s*. With *early* the
        machine need not have the address yet. Short requests with no other headers than those of *short* (in lower
        case) are answered without the general server: the handler must not stream to them, nor limit all bodies.
        """
        self._short = short
        self._handler = handler
        self._door = door
        self._refusal = refusal
        self._address = address
        self._port = port
        self._tls = tls
        self._trusts = trusts
        self._body_limit_bytes = body_limit_bytes
        self._bodies_limit_bytes = bodies_limit_bytes
        self._bodies_bytes = 0
        """Of the requests that are read or answered now."""
        self._gate_options = (waiting_max, waiting_s, buffer_bytes)
        self._early = early
        self._server: _Server | None = None
        self._short_server: _ShortServer | None = None

    async def start(self) -> None:
        """Raises `TransportError` when the address cannot be had."""
        server = _Server(
            self._handle,
            access_log=None,
            logger=_requests_log,
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGER_S,
        )
        server.refusal = self._refusal
        protocol: Callable[[], asyncio.Protocol] = server
        if self._short:
            self._short_server = _ShortServer(server, self._handler, self._door, self._short)
            protocol = self._short_server.connection
        server.gate = ConnectionGate(protocol, self._tls, self._trusts, *self._gate_options)
        try:
            server.gate.open(self._address, self._port, early=self._early)
        except OSError as err:
            reason = os.strerror(err.errno) if err.errno else str(err)
            raise TransportError(f"Cannot listen on {self._address} port {self._port}: {reason}") from err
        self._server = server

    @property
    def port(self) -> int:
        """The port in use, where 0 was asked for."""
        assert self._server is not None
        return self._server.gate.port

    async def close(self) -> None:
        if self._server is not None:
            await self._server.gate.close()
            if self._short_server is not None:
                await self._short_server.close()
            self._server.pre_shutdown()
            await self._server.shutdown(SHUTDOWN_S)

    async def _handle(self, request: BaseRequest) -> StreamResponse:
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        asked = HttpRequest(
            method=request.method,
            path=request.path,
            body=b"",
            peer=request.remote or "",
            certificate=tls.getpeercert(binary_form=True) if tls is not None else None,
            query=request.rel_url.raw_query_string,
            headers=request.headers,
            raw_path=request.rel_url.raw_path,
            is_gone=transport.is_closing if transport is not None else lambda: True,
        )
        refused = self._door(asked)
        if refused is not None:
            return _response(refused, close=True)
        if (unfit := _unfit(request)) is not None:
            return self._refused(asked, *unfit)
        if (request.content_length or 0) > self._body_limit_bytes:
            return self._too_long(asked)
        body = bytearray()
        try:
            return await self._read(request, asked, body)
        finally:
            self._bodies_bytes -= len(body)

    async def _read(self, request: BaseRequest, asked: HttpRequest, body: bytearray) -> StreamResponse:
        """Take the body in, and have the request handled; *body* is what counts in `_bodies_bytes`."""
        assert self._server is not None
        gate, key, transport = self._server.gate, request.protocol, request.transport
        if "Expect" in request.headers and not request.content.is_eof() and transport is not None:
            transport.write(_GO_ON)
        try:
            async with asyncio.timeout(BODY_S):
                while chunk := await asyncio.wait_for(request.content.readany(), BODY_PAUSE_S):
                    gate.stirs(key)
                    body += chunk
                    self._bodies_bytes += len(chunk)
                    if len(body) > self._body_limit_bytes:
                        return self._too_long(asked)
                    if self._bodies_limit_bytes is not None and self._bodies_bytes > self._bodies_limit_bytes:
                        return self._refused(asked, 503, _FULL, {"Retry-After": "1"})
        except TimeoutError:
            return self._refused(asked, 408, f"Nothing came for {BODY_PAUSE_S:g} seconds, or no end within {BODY_S:g}")
        except ConnectionError:  # who asked has gone, and reads this no more
            return self._refused(asked, 400, "The request did not come to its end")
        except RequestPayloadError:
            return self._refused(asked, 400, "The body is not what Content-Encoding or Transfer-Encoding says")
        gate.works(key)
        try:
            reply = await self._handler(msgspec.structs.replace(asked, body=bytes(body)))
            return _response(reply) if reply.chunks is None else await _streamed(request, reply, reply.chunks)
        finally:
            gate.waits(key, transport)

    def _too_long(self, asked: HttpRequest) -> Response:
        return self._refused(asked, 413, f"Requests end at {self._body_limit_bytes} bytes")

    def _refused(self, asked: HttpRequest, status: int, sentence: str, headers: Mapping[str, str] = _NONE) -> Response:
        return _response(self._refusal(asked, status, sentence, headers), close=True)


async def _streamed(request: BaseRequest, reply: HttpReply, chunks: Chunks) -> StreamResponse:
    response = StreamResponse(
        status=reply.status, headers={**_NAME, **reply.headers, "Content-Type": reply.content_type}
    )
    try:
        await response.prepare(request)
        if request.method != "HEAD":
            if reply.body:
                await response.write(reply.body)
            async for chunk in chunks:
                await asyncio.wait_for(response.write(chunk), BODY_PAUSE_S)
        await response.write_eof()
    except (ConnectionError, TimeoutError):  # nobody reads on
        response.force_close()
        if request.transport is not None:
            request.transport.abort()
    finally:
        await chunks.aclose()
    return response


def _unfit(request: BaseRequest) -> tuple[int, str, Mapping[str, str]] | None:
    """Status, sentence and headers for a request whose headers ask for what is not here."""
    if request.version.major != 1:
        return 505, "This server speaks HTTP/1.1", _NONE
    if request.headers.get("Expect", _CONTINUE).strip().lower() != _CONTINUE:
        return 417, f"The header Expect can only be {_CONTINUE}", _NONE
    if request.headers.get("Content-Encoding", "identity").strip().lower() not in _CODINGS:
        return _UNKNOWN_CODING
    return None


def _is_no_malformed_request(record: logging.LogRecord) -> bool:
    """Any client of the port can send what is no HTTP: it is answered, and not worth a traceback each time."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError | RequestPayloadError)


_requests_log = logging.getLogger("ganeti.http.requests")
_requests_log.addFilter(_is_no_malformed_request)


_REQUEST_LINE = re.compile(r"b['\"]([A-Za-z]{1,32}) (/\S*) HTTP/")
"""In what the library says of a method that it does not know."""
_REASON_LENGTH_MAX = 100


class _Requests(RequestHandler):
    """Answers to what is no HTTP are as other refusals are, and do not name the library either."""

    __slots__ = ("_refusal",)

    def __init__(self, server: "_Server", **options: Any) -> None:
        super().__init__(server, **options)
        self._refusal = server.refusal

    def handle_error(self, request: BaseRequest, status: int = 500, exc: Any = None, message: Any = None) -> Any:
        response = super().handle_error(request, status, exc, message)
        if isinstance(exc, HttpProcessingError):
            status, path, sentence, headers = _malformed(exc)
            asked = HttpRequest(method="", path=path, body=b"", peer=request.remote or "", certificate=None)
            return _response(self._refusal(asked, status, sentence, headers), close=True)
        response.headers.update(_NAME)
        return response


def _malformed(error: HttpProcessingError) -> tuple[int, str, str, Mapping[str, str]]:
    """Status, path, sentence and headers of the refusal of what cannot be read."""
    if isinstance(error, LineTooLong):
        return 431, "/", "The address or a header of the request is too long: it ends at 8190 bytes", _NONE
    if isinstance(error, ContentEncodingError):
        status, sentence, headers = _UNKNOWN_CODING
        return status, "/", sentence, headers
    line = _REQUEST_LINE.search(str(error)) if isinstance(error, BadHttpMethod) else None
    if line is None:
        return 400, "/", f"This is no HTTP request{_reason(error)}", _NONE
    method, path = line.groups()
    return 501, path.partition("?")[0], f"{path} has no {method}: there is no such method", _NONE


def _reason(error: HttpProcessingError) -> str:
    """What the library says is wrong, without what the client has sent: that is on further lines."""
    words = str(error.message).strip().partition("\n")[0].rstrip(" :.")
    return f": {words}" if words.isascii() and words.isprintable() and len(words) <= _REASON_LENGTH_MAX else ""


class _Server(Server):
    """Tells its gate what becomes of connections."""

    gate: ConnectionGate
    refusal: Refusal

    def __call__(self) -> RequestHandler:
        return _Requests(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.gate.came(handler, transport)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.gate.went(handler)


class _ShortServer:
    """Has the connections on which all requests have been short so far; implements `short_answers.Server`."""

    def __init__(self, general: _Server, handler: Handler, door: Door, known_headers: frozenset[str]) -> None:
        self.known_headers = known_headers | {"host", "content-type", "content-length"}
        self._general = general
        self._handler = handler
        self._door = door
        self._work = Background()
        self._running: dict[asyncio.Task[None], None] = {}
        self._connections: dict[ShortAnswers, None] = {}

    def connection(self) -> ShortAnswers:
        return ShortAnswers(self, self._general, self._start, BODY_PAUSE_S, KEEPALIVE_S)

    async def close(self) -> None:
        """Let what is being answered end, for a while."""
        if self._running:
            await asyncio.wait(list(self._running), timeout=SHUTDOWN_S)
        await self._work.cancel()
        for connection in list(self._connections):
            connection.close()

    def came(self, connection: ShortAnswers, transport: asyncio.Transport) -> None:
        self._connections[connection] = None
        self._general.gate.came(connection, transport)

    def went(self, connection: ShortAnswers) -> None:
        self._connections.pop(connection, None)
        self._general.gate.went(connection)

    def stirs(self, connection: ShortAnswers) -> None:
        self._general.gate.stirs(connection)

    def refusal(self, head: Head, transport: asyncio.Transport) -> Answer | None:
        refused = self._door(_short_request(head, b"", transport))
        return None if refused is None else Answer(refused.status, refused.body, refused.content_type)

    async def answer(self, connection: ShortAnswers, head: Head, body: bytes, transport: asyncio.Transport) -> Answer:
        gate = self._general.gate
        gate.works(connection)
        try:
            reply = await self._handler(_short_request(head, body, transport))
            return Answer(reply.status, reply.body, reply.content_type)
        finally:
            gate.waits(connection, transport)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._work.start(work, "a short request")
        self._running[task] = None
        task.add_done_callback(lambda ended: self._running.pop(ended, None))


def _short_request(head: Head, body: bytes, transport: asyncio.Transport) -> HttpRequest:
    tls = transport.get_extra_info("ssl_object")
    peer = transport.get_extra_info("peername")
    return HttpRequest(
        method="POST",
        path=head.path,
        body=body,
        peer=str(peer[0]) if peer else "",
        certificate=tls.getpeercert(binary_form=True) if tls is not None else None,
        headers=head.headers,
        raw_path=head.path,
        is_gone=transport.is_closing,
    )


_FULL = "Too many long requests at once: try again"


def _response(reply: HttpReply, *, close: bool = False) -> Response:
    """With *close* the connection ends: what else the client sends is not a request."""
    headers = {**_NAME, **reply.headers, "Content-Type": reply.content_type}
    response = Response(status=reply.status, body=reply.body, headers=headers)
    if close:
        response.force_close()
    return response
