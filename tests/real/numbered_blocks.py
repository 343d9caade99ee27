# SPDX-License-Identifier: BSD-2-Clause
"""What a guest does with its disk, by NBD: it writes numbered blocks and remembers which were acknowledged."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import Self

BLOCK_BYTES = 4096
ANSWER_S = 10.0
"""A guest's write waits up to five seconds for the master to hear of a lost copy."""
_GREETING = struct.Struct(">QQH")
_OPTION = struct.Struct(">QII")
_OPTION_REPLY = struct.Struct(">QIII")
_REQUEST = struct.Struct(">IHHQQI")
_REPLY = struct.Struct(">IIQ")
_GREETING_MAGIC, _OPTION_MAGIC, _REQUEST_MAGIC, _REPLY_MAGIC = (
    0x4E42444D41474943,
    0x49484156454F5054,
    0x25609513,
    0x67446698,
)
_NO_ZEROES = 3
_GO, _ACKNOWLEDGED, _REFUSED = 7, 1, 1 << 31
_READ, _WRITE, _DURABLE = 0, 1, 1
_LONGEST_BYTES = 1024 * 1024
"""Of a request: servers need not take longer ones."""


class NbdClient:
    """One connection to an export; every method raises `OSError` when the server refuses, ends or is silent."""

    def __init__(self, path: str, export: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_S)
        try:
            self._socket.connect(path)
            self._greet(export.encode())
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def write(self, offset: int, data: bytes) -> None:
        """Returns when the server has acknowledged that the data is on disk."""
        self._ask(_DURABLE, _WRITE, offset, len(data), data)

    def read(self, offset: int, length: int) -> bytes:
        found = b""
        while len(found) < length:
            part = min(length - len(found), _LONGEST_BYTES)
            self._ask(0, _READ, offset + len(found), part)
            found += self._receive(part)
        return found

    def _greet(self, export: bytes) -> None:
        magic, _, _ = _GREETING.unpack(self._receive(_GREETING.size))
        if magic != _GREETING_MAGIC:
            raise OSError("the server does not speak NBD")
        wanted = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
        option = _OPTION.pack(_OPTION_MAGIC, _GO, len(wanted))
        self._socket.sendall(struct.pack(">I", _NO_ZEROES) + option + wanted)
        while True:
            _, _, kind, length = _OPTION_REPLY.unpack(self._receive(_OPTION_REPLY.size))
            said = self._receive(length)
            if kind & _REFUSED:
                raise OSError(f"the export {export.decode()} is refused: {said.decode(errors='replace')}")
            if kind == _ACKNOWLEDGED:
                return

    def _ask(self, flags: int, kind: int, offset: int, length: int, data: bytes = b"") -> None:
        self._socket.sendall(_REQUEST.pack(_REQUEST_MAGIC, flags, kind, 0, offset, length) + data)
        magic, error, _ = _REPLY.unpack(self._receive(_REPLY.size))
        if magic != _REPLY_MAGIC:
            raise OSError("the answer is none of NBD's")
        if error:
            raise OSError(error, f"the server refuses {length} bytes at {offset}")

    def _receive(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            more = self._socket.recv(length - len(found))
            if not more:
                raise ConnectionResetError("the server has ended the connection")
            found += more
        return bytes(found)


class NumberedBlocks:
    """Which number each block must hold: the last one acknowledged, or of those whose answer never came, any."""

    def __init__(self, draw: random.Random, size_mib: int) -> None:
        self._draw = draw
        self._count = size_mib * 1024 * 1024 // BLOCK_BYTES
        self._allowed: dict[int, set[int]] = {}
        self._open: set[int] = set()
        """Blocks with a write that got no answer: it may be carried out later, so none is sent after it."""
        self._number = 0
        self.acknowledged = 0

    def next(self) -> tuple[int, int]:
        """The block to write, and its number."""
        block = self._draw.choice([each for each in self._candidates() if each not in self._open])
        self._number += 1
        return block, self._number

    def begin(self, block: int, number: int) -> None:
        """It is about to be sent."""
        self._allowed.setdefault(block, {0}).add(number)
        self._open.add(block)

    def confirm(self, block: int, number: int) -> None:
        """It was acknowledged."""
        self._allowed[block] = {number}
        self._open.discard(block)
        self.acknowledged += 1

    def wrong_in(self, content: bytes) -> list[str]:
        """What *content*, the whole disk, has otherwise."""
        return [
            f"block {block} holds {found}, not {' or '.join(str(each) for each in sorted(allowed))}"
            for block, allowed, found in self._compared(content)
            if found not in allowed
        ]

    def __bool__(self) -> bool:
        return bool(self._allowed)

    def _candidates(self) -> list[int]:
        """A block that was written before as often as another one: what is older would show."""
        return [self._draw.randrange(self._count) for _ in range(16)] + self._draw.sample(
            sorted(self._allowed), min(16, len(self._allowed))
        )

    def _compared(self, content: bytes) -> Iterator[tuple[int, set[int], int | str]]:
        for block, allowed in self._allowed.items():
            at = block * BLOCK_BYTES
            data = content[at : at + BLOCK_BYTES]
            number = int.from_bytes(data[:8], "big")
            yield block, allowed, number if data == filled(number) else "parts of several writes"


def filled(number: int) -> bytes:
    """The content of a block of that number; a block that was never written holds 0."""
    return number.to_bytes(8, "big") * (BLOCK_BYTES // 8)
