# SPDX-License-Identifier: BSD-2-Clause
"""The client for asyncio: kept connections, as many as there are requests at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from types import TracebackType
from typing import Any

from ganeti_client.errors import ConnectionFailed, JobFailed
from ganeti_client.messages import (
    Event,
    EventReader,
    Request,
    events_request,
    list_request,
    login,
    read_answer,
    submission,
    tls,
)
from ganeti_client.operations import Operations

_WAIT_S = 30.0
_KEPT = 16
_LINE_BYTES = 64 * 1024 * 1024


class _Stream:
    """One connection, speaking HTTP/1.1."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader, self._writer, self._host = reader, writer, host
        self.keeps = True
        self._chunked = False
        self._left: int | None = None

    async def ask(self, request: Request, headers: dict[str, str]) -> int:
        """Send a request; gives the status of the answer."""
        data = request.data
        told = {**headers, **request.headers, "Host": self._host, "Content-Length": str(len(data))}
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self._writer.write(f"{request.method} {request.target} HTTP/1.1\r\n{head}\r\n".encode() + data)
        await self._writer.drain()
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        found = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.keeps = found.get("connection", "").lower() != "close"
        self._chunked = found.get("transfer-encoding", "").lower() == "chunked"
        self._left = int(found["content-length"]) if "content-length" in found else None
        return int(lines[0].split()[1])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Give the body as it comes."""
        if not self._chunked:
            self.keeps = self.keeps and self._left is not None
            yield await (self._reader.read() if self._left is None else self._reader.readexactly(self._left))
            return
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readline()

    def close(self) -> None:
        self._writer.transport.abort()


class AsyncClient:
    """Asks one cluster; `close` it, or use it in an ``async with`` statement."""

    def __init__(
        self,
        host: str,
        port: int = 5080,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        cafile: str | None = None,
        verify: bool = True,
        timeout_s: float = 120.0,
    ) -> None:
        self._host, self._port, self._timeout_s = host, port, timeout_s
        self._tls = tls(verify, cafile)
        self._headers = login(user, password, token)
        self._idle: list[_Stream] = []
        self.operations: Operations[Awaitable[int]] = Operations(self._submit)
        self.plans: Operations[Awaitable[dict[str, Any]]] = Operations(self._plan)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def request(self, request: Request) -> Any:
        """Give the answer's value. Raises `ApiError`, or `ConnectionFailed` where none came.

        What only reads is sent again if a kept connection has ended.
        """
        while True:
            kept = self._idle.pop() if self._idle else None
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._exchange(kept or await self._open(), request)
            except (OSError, EOFError, asyncio.LimitOverrunError) as err:  # TimeoutError is an OSError
                if kept is None or not request.only_reads:
                    raise ConnectionFailed(f"{self._host} port {self._port} does not answer: {err}") from err

    async def query(self, kind: str, fields: list[str] | None = None, chosen: Any = None) -> list[dict[str, Any]]:
        """Give objects of a kind, such as ``instances``, with these fields; *chosen* is a filter."""
        found: list[dict[str, Any]] = await self.request(list_request(kind, fields, chosen))
        return found

    async def show(self, kind: str, name: str | int) -> dict[str, Any]:
        found: dict[str, Any] = await self.request(Request("GET", f"/3/{kind}/{name}"))
        return found

    async def cluster(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.request(Request("GET", "/3/cluster"))
        return found

    async def whoami(self) -> dict[str, Any]:
        """Give the name and the scopes of whoever asks."""
        found: dict[str, Any] = await self.request(Request("GET", "/3/whoami"))
        return found

    async def fields(self, kind: str) -> list[dict[str, Any]]:
        """Give the fields that `query` may be asked for."""
        found: list[dict[str, Any]] = await self.request(Request("GET", f"/3/fields/{kind}"))
        return found

    async def index(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.request(Request("GET", "/3"))
        return found

    async def description(self) -> dict[str, Any]:
        """Give the OpenAPI document."""
        found: dict[str, Any] = await self.request(Request("GET", "/3/openapi.json"))
        return found

    async def metrics(self) -> str:
        """Give the page for Prometheus."""
        return str(await self.request(Request("GET", "/metrics")))

    async def wait(self, job: int) -> Any:
        """Wait for a job's end; gives the results of its operations. Raises `JobFailed`."""
        while True:
            told = await self.request(Request("GET", f"/3/jobs/{job}/wait", query=(("timeout_s", f"{_WAIT_S}"),)))
            if told["ended"]:
                if told["status"] != "success":
                    raise JobFailed(job, told["status"], told["results"])
                return told["results"]

    async def cancel(self, job: int) -> None:
        await self.request(Request("DELETE", f"/3/jobs/{job}"))

    async def events(self, kinds: list[str] | None = None, position: str | None = None) -> AsyncIterator[Event]:
        """Give events as they happen, on a connection of their own, until it ends; then continue by position."""
        stream = await self._open()
        try:
            status = await stream.ask(events_request(kinds, position), self._headers)
            reader, rest = EventReader(), b""
            async for piece in stream.pieces():
                if status >= 400:
                    read_answer(status, piece)
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    for event in reader.feed(line.decode().rstrip("\r")):
                        yield event
        except (OSError, EOFError) as err:
            raise ConnectionFailed(f"the stream of events ended: {err}") from err
        finally:
            stream.close()

    async def _submit(
        self, operation: str, parameters: dict[str, Any], idempotency_key: str | None, plan: str | None
    ) -> int:
        return int((await self.request(submission(operation, parameters, idempotency_key, plan)))["job"])

    async def _plan(
        self, operation: str, parameters: dict[str, Any], idempotency_key: str | None, plan: str | None
    ) -> dict[str, Any]:
        found: dict[str, Any] = await self.request(Request("POST", f"/3/plan/{operation}", parameters))
        return found

    async def _open(self) -> _Stream:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=_LINE_BYTES)
        return _Stream(reader, writer, self._host)

    async def _exchange(self, stream: _Stream, request: Request) -> Any:
        try:
            status = await stream.ask(request, self._headers)
            data = b"".join([piece async for piece in stream.pieces()])
        except BaseException:
            stream.close()
            raise
        if stream.keeps and len(self._idle) < _KEPT:
            self._idle.append(stream)
        else:
            stream.close()
        return read_answer(status, data)
