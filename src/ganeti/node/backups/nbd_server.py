# SPDX-License-Identifier: BSD-2-Clause
"""A server of the NBD protocol (fixed newstyle, simple replies) for disks that are only read.

Exports are named by the numbers of disks. Everything else than reading is refused.
"""

import errno
import socket
import struct
import sys
from contextlib import suppress

from ganeti.base.errors import BlockDeviceError
from ganeti.node.backups.chain_reader import ChainReader

_GREETING, _OPTION, _ANSWER = b"NBDMAGIC", b"IHAVEOPT", 0x3E889045565A9
_FIXED_NEWSTYLE, _NO_ZEROES = 1, 2
_EXPORT_NAME, _ABORT, _LIST, _INFO, _GO = 1, 2, 3, 6, 7
_ACK, _SERVER, _INFO_REPLY = 1, 2, 3
_UNSUPPORTED, _UNKNOWN = (1 << 31) + 1, (1 << 31) + 6
_HAS_FLAGS, _READ_ONLY, _MULTI_CONN = 1, 2, 1 << 8
_FLAGS = _HAS_FLAGS | _READ_ONLY | _MULTI_CONN
_REQUEST, _REPLY = 0x25609513, 0x67446698
_READ, _DISCONNECT, _FLUSH = 0, 2, 3
_LARGEST_READ, _LARGEST_OPTION = 64 * 1024 * 1024, 4096


def serve(connection: socket.socket, reader: ChainReader) -> None:
    """Answer one client until it goes."""
    with connection, suppress(OSError, EOFError, struct.error):
        disk = _negotiate(connection, reader)
        if disk is not None:
            _transmit(connection, reader, disk)


def _negotiate(connection: socket.socket, reader: ChainReader) -> int | None:
    """Give the disk that the client has chosen; None where it leaves."""
    connection.sendall(_GREETING + _OPTION + struct.pack(">H", _FIXED_NEWSTYLE | _NO_ZEROES))
    no_zeroes = struct.unpack(">I", _received(connection, 4))[0] & _NO_ZEROES
    while True:
        magic, option, length = struct.unpack(">8sII", _received(connection, 16))
        if magic != _OPTION or length > _LARGEST_OPTION:
            return None
        data = _received(connection, length)
        if option == _EXPORT_NAME:
            disk = _disk(data, reader)
            if disk is not None:
                zeros = b"" if no_zeroes else bytes(124)
                connection.sendall(struct.pack(">QH", reader.sizes[disk], _FLAGS) + zeros)
            return disk
        if option == _ABORT:
            _say(connection, option, _ACK)
            return None
        if option in (_INFO, _GO):
            disk = _disk(data[4 : 4 + struct.unpack(">I", data[:4])[0]], reader)
            if disk is None:
                _say(connection, option, _UNKNOWN)
                continue
            _say(connection, option, _INFO_REPLY, struct.pack(">HQH", 0, reader.sizes[disk], _FLAGS))
            _say(connection, option, _ACK)
            if option == _GO:
                return disk
        elif option == _LIST:
            for number in range(len(reader.sizes)):
                name = str(number).encode()
                _say(connection, option, _SERVER, struct.pack(">I", len(name)) + name)
            _say(connection, option, _ACK)
        else:
            _say(connection, option, _UNSUPPORTED)


def _disk(name: bytes, reader: ChainReader) -> int | None:
    return int(name) if name.isdigit() and int(name) < len(reader.sizes) else None


def _say(connection: socket.socket, option: int, kind: int, data: bytes = b"") -> None:
    connection.sendall(struct.pack(">QIII", _ANSWER, option, kind, len(data)) + data)


def _transmit(connection: socket.socket, reader: ChainReader, disk: int) -> None:
    while True:
        magic, _, kind, handle, offset, length = struct.unpack(">IHHQQI", _received(connection, 28))
        if magic != _REQUEST or kind == _DISCONNECT:
            return
        error, data = 0, b""
        if kind == _READ and length <= _LARGEST_READ and offset + length <= reader.sizes[disk]:
            try:
                data = reader.read(disk, offset, length)
            except (BlockDeviceError, OSError) as err:
                print(err, file=sys.stderr, flush=True)
                error = errno.EIO
        elif kind != _FLUSH:
            error = errno.EINVAL if kind == _READ else errno.EPERM
        if kind == 1:
            return  # a write has data behind it; a client that ignores the flag is left
        connection.sendall(struct.pack(">IIQ", _REPLY, error, handle) + data)


def _received(connection: socket.socket, length: int) -> bytes:
    """Raises `EOFError` where the client has gone."""
    found = bytearray()
    while len(found) < length:
        data = connection.recv(length - len(found))
        if not data:
            raise EOFError
        found += data
    return bytes(found)
