# SPDX-License-Identifier: BSD-2-Clause
"""The answers of an NBD server: how many there are, and whether one tells of an error at the other node."""

import struct

from ganeti.base.errors import BlockDeviceError

_GREETING = struct.Struct(">QQH")
_OPTION = struct.Struct(">QIII")
_OPTION_MAGIC = 0x3E889045565A9
_GO, _ACKNOWLEDGED = 7, 1
_MORE_FOLLOWS = (2, 3, 4)
"""Kinds of answers to an option that are not its last: a server, information, a meta context."""
_SIMPLE = struct.Struct(">IIQ")
_CHUNK = struct.Struct(">IHHQI")
_EXTENDED = struct.Struct(">IHHQQQ")
_SIMPLE_MAGIC, _CHUNK_MAGIC, _EXTENDED_MAGIC = 0x67446698, 0x668E33EF, 0x6E8A278C
_LAST_CHUNK, _ERROR_CHUNK = 1, 1 << 15
_DONE = _SIMPLE.pack(_SIMPLE_MAGIC, 0, 0)[:8]


class NotNbdError(BlockDeviceError):
    """What the server sends is none of NBD's answers that are known here: no error could be found in what follows."""


class Replies:
    """Feed it every byte that one server sends. QEMU asks for structured replies, and from 8.2 on for extended ones, so
    no data follows a simple one.
    """

    def __init__(self) -> None:
        self.count = 0
        """Of complete answers, the greeting among them."""
        self._received = bytearray()
        self._skip = 0
        """So many bytes are not of interest: what belongs to an answer."""
        self._is_greeted = self._transmits = False

    def feed(self, data: bytes | memoryview) -> bool:
        """Whether *data* ends an answer that tells of an error. Raises `NotNbdError`."""
        if self._are_done(data):
            self.count += len(data) // _SIMPLE.size
            return False
        self._received += data
        failed = False
        while True:
            skipped = min(self._skip, len(self._received))
            del self._received[:skipped]
            self._skip -= skipped
            found = self._answer() if not self._skip else None
            if found is None:
                break
            failed = failed or found
        return failed

    def _are_done(self, data: bytes | memoryview) -> bool:
        """Whether *data* is nothing but answers to writes that went well, each complete: nearly always."""
        if not self._transmits or self._skip or self._received or len(data) % _SIMPLE.size:
            return False
        return all(data[at : at + len(_DONE)] == _DONE for at in range(0, len(data), _SIMPLE.size))

    def _answer(self) -> bool | None:
        """Take one answer off; None where it is not complete yet."""
        if not self._transmits:
            return self._option() if self._is_greeted else self._greeting()
        if len(self._received) < 4:
            return None
        magic = int.from_bytes(self._received[:4], "big")
        if magic == _SIMPLE_MAGIC:
            fields = self._take(_SIMPLE)
            if fields is None:
                return None
            self.count += 1
            return fields[1] != 0
        if magic not in (_CHUNK_MAGIC, _EXTENDED_MAGIC):
            raise NotNbdError(f"An answer of the other node begins with {magic:08x}")
        fields = self._take(_CHUNK if magic == _CHUNK_MAGIC else _EXTENDED)
        if fields is None:
            return None
        self._skip = fields[-1]
        self.count += fields[1] & _LAST_CHUNK
        return bool(fields[2] & _ERROR_CHUNK)

    def _greeting(self) -> bool | None:
        if self._take(_GREETING) is None:
            return None
        self._is_greeted = True
        self.count += 1
        return False

    def _option(self) -> bool | None:
        fields = self._take(_OPTION)
        if fields is None:
            return None
        magic, option, kind, self._skip = fields
        if magic != _OPTION_MAGIC:
            raise NotNbdError(f"An answer to an option begins with {magic:016x}")
        self.count += kind not in _MORE_FOLLOWS
        self._transmits = (option, kind) == (_GO, _ACKNOWLEDGED)
        return False

    def _take(self, form: struct.Struct) -> tuple[int, ...] | None:
        if len(self._received) < form.size:
            return None
        fields = form.unpack_from(self._received)
        del self._received[: form.size]
        return fields
