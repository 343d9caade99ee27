# SPDX-License-Identifier: BSD-2-Clause
"""The framing of all Unix sockets on asyncio streams: JSON documents, each ended by 0x03 (protocols, section 2).

`system.unix_socket` opens and serves; `framing_sync` is the same, blocking, for commands.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import TransportError
from ganeti.wire.framing_sync import END, MESSAGE_LIMIT_BYTES

_CHUNK_BYTES = 256 * 1024


class MessageTooLong(TransportError):
    """The other side sent more than the limit without ending its message; the connection cannot be used further."""


@dataclass(frozen=True)
class Pieces:
    """A long JSON document, written already, in pieces of moderate size: put together, they would be copied."""

    parts: list[bytes]

    def within(self, before: bytes, after: bytes) -> "Pieces":
        """As part of a larger document."""
        return Pieces([before, *self.parts, after])


def encode(message: Any) -> bytes:
    """Give the document with its end mark; structs, `msgspec.Raw` and plain values may be mixed."""
    return msgspec.json.encode(message) + END


def decode(data: bytes | bytearray | memoryview) -> Any:
    """Read one document; raises `TransportError` for what is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise TransportError(f"The message is not a JSON document: {err}") from err


CODEC: dict[str, Any] = {"encode": msgspec.json.encode, "decode": decode}
"""For a `SyncConnection` of a process that shares this codec's pages with its parent and has touched no other."""


class MessageTooSlow(TransportError):
    """The other side began a message and did not end it in time."""


class Connection:
    """Sends and receives whole documents over a pair of streams. One reader and one writer at a time."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limit_bytes: int = MESSAGE_LIMIT_BYTES,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()

    @property
    def unsent_bytes(self) -> int:
        """How much the other side has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    @property
    def is_over(self) -> bool:
        """Whether the other side is known to have closed it, or has sent what nobody asked for."""
        return self._reader.at_eof() or self._writer.is_closing() or bool(self._buffer)

    async def receive_bytes(self, message_s: float | None = None) -> bytes | None:
        """Wait for one document; None at the end of the stream. Between documents the other side may take its time,
        for one it has *message_s* seconds from the first byte we look at to the last.

        Raises `MessageTooLong`, `MessageTooSlow`, or `TransportError` if the stream breaks off within a document.
        """
        searched = 0
        deadline_s: float | None = None
        while (end := self._buffer.find(END, searched)) < 0 and len(self._buffer) <= self._limit_bytes:
            searched = len(self._buffer)
            if searched and message_s is not None and deadline_s is None:
                deadline_s = asyncio.get_running_loop().time() + message_s
            try:
                async with asyncio.timeout_at(deadline_s):
                    chunk = await self._reader.read(_CHUNK_BYTES)
            except TimeoutError as err:
                raise MessageTooSlow(f"The message was not complete within {message_s:g} s") from err
            except OSError as err:
                raise TransportError(f"The connection broke: {err.strerror or err}") from err
            if not chunk:
                if self._buffer:
                    raise TransportError("The connection ended within a message")
                return None
            self._buffer += chunk
        if not 0 <= end <= self._limit_bytes:
            raise MessageTooLong(f"The message is longer than {self._limit_bytes} bytes, which is the most")
        document = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return document

    async def ended(self) -> None:
        """Return when the other side has closed the connection; what it sends until then is thrown away."""
        self._buffer.clear()
        try:
            while await self._reader.read(_CHUNK_BYTES):
                pass
        except OSError:
            return

    async def receive(self) -> Any:
        """As `receive_bytes`, decoded; raises `TransportError` also at the end of the stream."""
        document = await self.receive_bytes()
        if document is None:
            raise TransportError("The other side closed the connection")
        return decode(document)

    async def send(self, message: Any) -> None:
        await self.send_bytes(encode(message))

    async def send_bytes(self, framed: bytes) -> None:
        """Send a document that already has its end mark; waits while the other side is slow."""
        self.send_soon(framed)
        try:
            await self._writer.drain()
        except OSError as err:
            raise TransportError(f"The connection broke while sending: {err.strerror or err}") from err

    def send_soon(self, framed: bytes) -> None:
        """Send without waiting; the caller watches `unsent_bytes`."""
        if self._writer.transport.is_closing():
            raise TransportError("The connection is closed")
        self._writer.write(framed)

    def abort(self) -> None:
        """Drop the connection at once, with whatever is unsent."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return
