# SPDX-License-Identifier: BSD-2-Clause
"""A client of the NBD protocol (fixed newstyle, simple replies) that reads one export over a Unix socket."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator

from ganeti.base.errors import BlockDeviceError

_GREETING, _OPTIONS, _ANSWER = b"NBDMAGIC", b"IHAVEOPT", 0x3E889045565A9
_REQUEST, _REPLY = 0x25609513, 0x67446698
_NO_ZEROES = 3
"""Client flags: fixed newstyle, no zeroes after the handshake."""
_GO, _DONE, _INFO, _EXPORT = 7, 1, 3, 0
_ERROR = 1 << 31
_ANSWER_S = 120.0


class NbdSource:
    """One export, by a connection that is open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> None:
        self._reader, self._writer, self._size = reader, writer, size

    async def size(self) -> int:
        return self._size

    async def read(self, offset: int, length: int) -> bytes:
        """Raises `BlockDeviceError` where the server cannot give these bytes."""
        length = min(length, self._size - offset)
        if length <= 0:
            return b""
        try:
            async with asyncio.timeout(_ANSWER_S):
                self._writer.write(struct.pack(">IHHQQI", _REQUEST, 0, 0, 1, offset, length))
                magic, error, _ = struct.unpack(">IIQ", await self._reader.readexactly(16))
                if magic == _REPLY and not error:
                    return await self._reader.readexactly(length)
        except (OSError, EOFError, TimeoutError) as err:
            raise BlockDeviceError(f"The disk cannot be read at {offset}: {err or 'no answer'}") from err
        raise BlockDeviceError(
            f"The disk as it was cannot be read at {offset} any more (error {error}): the space for what the guest "
            "overwrites meanwhile may be full"
        )


@contextlib.asynccontextmanager
async def opened(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], export: str
) -> AsyncIterator[NbdSource]:
    """Negotiate on a fresh *connection*, and close it at the end; raises `BlockDeviceError`."""
    reader, writer = connection
    try:
        try:
            async with asyncio.timeout(_ANSWER_S):
                size = await _negotiated(reader, writer, export.encode())
        except (OSError, EOFError, TimeoutError, struct.error) as err:
            raise BlockDeviceError(f"The disk {export} cannot be read: {err or 'no answer'}") from err
        yield NbdSource(reader, writer, size)
    finally:
        writer.close()


async def _negotiated(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, export: bytes) -> int:
    """Gives the size of the export."""
    if not (await reader.readexactly(18)).startswith(_GREETING + _OPTIONS):
        raise BlockDeviceError("What answers is no NBD server")
    asked = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
    writer.write(struct.pack(">I", _NO_ZEROES) + _OPTIONS + struct.pack(">II", _GO, len(asked)) + asked)
    size = 0
    while True:
        _, _, kind, length = struct.unpack(">QIII", await reader.readexactly(20))
        data = await reader.readexactly(length)
        if kind & _ERROR:
            raise BlockDeviceError(f"The NBD server refuses {export.decode()}: {data.decode(errors='replace')}")
        if kind == _DONE:
            return size
        if kind == _INFO and struct.unpack(">H", data[:2])[0] == _EXPORT:
            size = struct.unpack(">Q", data[2:10])[0]
