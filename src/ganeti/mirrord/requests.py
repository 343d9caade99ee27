# SPDX-License-Identifier: BSD-2-Clause
"""The requests of an NBD client: how many answers are due."""

import struct

from ganeti.mirrord.replies import NotNbdError

_CLIENT_FLAGS_BYTES = 4
_OPTION = struct.Struct(">QII")
_REQUEST = struct.Struct(">IHHQQI")
_EXTENDED = struct.Struct(">IHHQQQ")
_OPTION_MAGIC = int.from_bytes(b"IHAVEOPT", "big")
_REQUEST_MAGIC, _EXTENDED_MAGIC = 0x25609513, 0x21E41C71
_FORMS = {_OPTION_MAGIC >> 32: _OPTION, _REQUEST_MAGIC: _REQUEST, _EXTENDED_MAGIC: _EXTENDED}
"""By the first four bytes."""
_WRITE, _DISCONNECT = 1, 2
_HAS_PAYLOAD = 1 << 5


class Requests:
    """Feed it every byte that one client sends."""

    def __init__(self) -> None:
        self.count = 0
        """Of what is answered: options and requests other than the one to disconnect."""
        self._begun = b""
        """Of a request whose header is not complete."""
        self._skip = _CLIENT_FLAGS_BYTES
        """So many bytes are not of interest: what belongs to a request."""

    def feed(self, data: bytes | memoryview) -> None:
        """Raises `NotNbdError`."""
        if self._begun:
            data, self._begun = self._begun + bytes(data), b""
        at, end = self._skip, len(data)
        while at < end:
            form = self._form(data[at : at + 4])
            if form is None or at + form.size > end:
                self._begun = bytes(data[at:])
                at = end
            else:
                at += form.size + self._take(form.unpack_from(data, at))
        self._skip = at - end

    def _form(self, magic: bytes | memoryview) -> struct.Struct | None:
        """None where *magic* is not complete yet."""
        if len(magic) < 4:
            return None
        form = _FORMS.get(int.from_bytes(magic, "big"))
        if form is None:
            raise NotNbdError(f"A request to the other node begins with {bytes(magic).hex()}")
        return form

    def _take(self, fields: tuple[int, ...]) -> int:
        """Count one; gives the length of what belongs to it."""
        length = fields[-1]
        if fields[0] == _OPTION_MAGIC:
            self.count += 1
            return length
        flags, kind = fields[1:3]
        self.count += kind != _DISCONNECT
        return length if kind == _WRITE or flags & _HAS_PAYLOAD else 0
