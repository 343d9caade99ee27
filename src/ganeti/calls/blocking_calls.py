# SPDX-License-Identifier: BSD-2-Clause
"""Messages over Unix sockets for a job process that has nothing else to do until the answer comes.

Nearly all that a short job costs is the pages it touches first after the fork, so this touches little: no streams, no
transports, no text codec. Framing and errors are those of `wire.framing`.
"""

import os
import socket
from typing import Any

import msgspec

from ganeti.base.errors import TransportError
from ganeti.wire.framing_sync import END, MESSAGE_LIMIT_BYTES, reachable_path

_CHUNK_BYTES = 64 * 1024
_PATH_LIMIT_BYTES = 107
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def connect(path: str, timeout_s: float) -> socket.socket:
    """Connect to a daemon; *timeout_s* counts for each step of all that follows. Raises `TransportError`."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    try:
        if len(os.fsencode(path)) <= _PATH_LIMIT_BYTES:
            connection.connect(path)
        else:
            with reachable_path(path) as name:
                connection.connect(name)
    except OSError as err:
        connection.close()
        raise TransportError(f"Cannot connect to {path}: {err.strerror or err}; is the daemon running?") from err
    return connection


def send(connection: socket.socket, message: Any) -> None:
    """Send one document; raises `TransportError`."""
    try:
        connection.sendall(_encoder.encode(message) + END)
    except OSError as err:
        raise TransportError(f"The connection broke while sending: {err.strerror or err}") from err


def receive(connection: socket.socket) -> Any:
    """Wait for one document, after which the other side sends nothing unasked; raises `TransportError`."""
    data = b""
    while not data.endswith(END):
        try:
            chunk = connection.recv(_CHUNK_BYTES)
        except OSError as err:  # TimeoutError is one
            raise TransportError(f"The connection broke: {err.strerror or err}") from err
        if not chunk or len(data) > MESSAGE_LIMIT_BYTES:
            raise TransportError("The other side closed the connection" if not chunk else "The answer is too long")
        data += chunk
    try:
        return _decoder.decode(data[:-1])
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise TransportError(f"The other side sent something that is not JSON: {err}") from err
