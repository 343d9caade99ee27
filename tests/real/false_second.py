# SPDX-License-Identifier: BSD-2-Clause
"""A secondary node that does wrong: a server of NBD behind TLS which answers as a test wants it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tests.real import nbd_client
from tests.real.nbd_client import PATIENCE_S
from tests.real.storage_program import BLOCK, EXPORT, MIB, read_line

from ganeti.node.storage.mirror.requests import Done

_KEY_UPDATE = 24


@dataclass
class Wrong:
    """What it does; as it stands, nothing is wrong."""

    size: int | None = None
    """Of the export, in bytes; without it the right one."""
    greeting: bytes = nbd_client.MAGIC + nbd_client.OPTIONS + struct.pack(">H", 3)
    line: bytes = msgspec.json.encode(Done(export=EXPORT)) + b"\n"
    flags: int = 1 | nbd_client.CAN_FLUSH | nbd_client.CAN_FUA | nbd_client.CAN_TRIM | nbd_client.CAN_WRITE_ZEROES
    knows_export: bool = True
    answer: Callable[[int, int], bytes | None] = lambda kind, cookie: good_answer(cookie)
    """To a request of this kind and with this cookie: what it sends. No bytes end the connection, None is no answer."""


def good_answer(cookie: int, error: int = 0) -> bytes:
    return struct.pack(">IIQ", nbd_client.SIMPLE_ANSWER, error, cookie)


class FalseSecond:
    """It listens at *port* of this machine."""

    def __init__(self, certificate: Path, authority: Path, size: int) -> None:
        self.wrong = Wrong()
        self.asked: list[tuple[int, int, int]] = []
        """Kind, flags and length of each request."""
        self.key_updates = 0
        self._size = size
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._context.load_verify_locations(authority)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context._msg_callback = self._note_message  # type: ignore[attr-defined]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)

    def _note_message(
        self, connection: object, way: str, version: object, content: object, kind: int, *_: object
    ) -> None:
        self.key_updates += kind == _KEY_UPDATE

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                sock.settimeout(PATIENCE_S)
                with contextlib.suppress(OSError), sock:
                    read_line(sock)
                    with self._context.wrap_socket(sock, server_side=True) as connection:
                        self._serve(connection, self.wrong)

    def _serve(self, sock: ssl.SSLSocket, wrong: Wrong) -> None:
        assert read_line(sock)
        sock.sendall(wrong.line + wrong.greeting)
        exactly(sock, 4)
        while not self._option(sock, wrong):
            pass
        while True:
            magic, flags, kind, cookie, _, length = struct.unpack(">IHHQQI", exactly(sock, 28))
            assert magic == nbd_client.REQUEST
            self.asked.append((kind, flags, length))
            if kind == nbd_client.DISCONNECT:
                return
            if kind == nbd_client.WRITE:
                exactly(sock, length)
            answer = wrong.answer(kind, cookie)
            if answer == b"":
                return
            sock.sendall(answer or b"")

    def _option(self, sock: ssl.SSLSocket, wrong: Wrong) -> bool:
        """Whether it was the last one."""
        magic, option, length = struct.unpack(">8sII", exactly(sock, 16))
        assert magic == nbd_client.OPTIONS
        exactly(sock, length)

        def answer(kind: int, data: bytes = b"") -> None:
            sock.sendall(struct.pack(">QIII", nbd_client.OPTION_ANSWER, option, kind, len(data)) + data)

        if option != nbd_client.GO:
            answer(nbd_client.UNSUPPORTED)
        elif not wrong.knows_export:
            answer(nbd_client.UNKNOWN)
        else:
            size = self._size if wrong.size is None else wrong.size
            answer(nbd_client.INFORMATION, struct.pack(">HQH", nbd_client.INFO_EXPORT, size, wrong.flags))
            answer(nbd_client.INFORMATION, struct.pack(">HIII", nbd_client.INFO_BLOCK_SIZE, BLOCK, BLOCK, MIB))
            answer(nbd_client.ACK)
            return True
        return False


def exactly(sock: ssl.SSLSocket, count: int) -> bytes:
    """Raises `OSError` where the other side has ended."""
    found = b""
    while len(found) < count:
        some = sock.recv(count - len(found))
        if not some:
            raise ConnectionResetError("ended")
        found += some
    return found
