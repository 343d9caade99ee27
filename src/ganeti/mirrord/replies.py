# SPDX-License-Identifier: BSD-2-Clause
"""The answers of an NBD server, as far as to find an error in them: the other node could not write, or not read."""

import struct

_GREETING_BYTES = 18
_OPTION = struct.Struct(">QIII")
_OPTION_MAGIC = 0x3E889045565A9
_GO, _ACKNOWLEDGED = 7, 1
_SIMPLE = struct.Struct(">IIQ")
_CHUNK = struct.Struct(">IHHQI")
_SIMPLE_MAGIC, _CHUNK_MAGIC = 0x67446698, 0x668E33EF
_ERROR_CHUNK = 1 << 15


class Replies:
    """Feed it every byte that one server sends. QEMU asks for structured replies, so no data follows a simple one."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._skip = _GREETING_BYTES
        """So many bytes are not of interest: the greeting, what belongs to an answer."""
        self._transmits = False
        self._is_known = True

    def feed(self, data: bytes) -> bool:
        """Whether *data* ends an answer that tells of an error, or is none of NBD's."""
        if not self._is_known:
            return False
        self._received += data
        failed = False
        while self._is_known:
            skipped = min(self._skip, len(self._received))
            del self._received[:skipped]
            self._skip -= skipped
            found = self._answer() if not self._skip else None
            if found is None:
                break
            failed = failed or found
        return failed or not self._is_known

    def _answer(self) -> bool | None:
        """Take one answer off; None where it is not complete yet."""
        if not self._transmits:
            return self._option()
        magic = bytes(self._received[:4])
        if len(magic) < 4:
            return None
        if magic == _SIMPLE_MAGIC.to_bytes(4, "big"):
            fields = self._take(_SIMPLE)
            return None if fields is None else fields[1] != 0
        if magic != _CHUNK_MAGIC.to_bytes(4, "big"):
            self._is_known = False
            return True
        fields = self._take(_CHUNK)
        if fields is None:
            return None
        self._skip = fields[4]
        return bool(fields[2] & _ERROR_CHUNK)

    def _option(self) -> bool | None:
        fields = self._take(_OPTION)
        if fields is None:
            return None
        magic, option, kind, self._skip = fields
        self._is_known = magic == _OPTION_MAGIC
        self._transmits = (option, kind) == (_GO, _ACKNOWLEDGED)
        return not self._is_known

    def _take(self, form: struct.Struct) -> tuple[int, ...] | None:
        if len(self._received) < form.size:
            return None
        fields = form.unpack_from(self._received)
        del self._received[: form.size]
        return fields
