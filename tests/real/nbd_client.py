# SPDX-License-Identifier: BSD-2-Clause
"""A client of NBD for tests: many requests at once on one connection, with or without TLS, and answers as they come.

https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

EXPORT_NAME, ABORT, LIST, INFO, GO, STRUCTURED_REPLY, LIST_META_CONTEXT, SET_META_CONTEXT = 1, 2, 3, 6, 7, 8, 9, 10
ACK, SERVER, INFORMATION, META_CONTEXT = 1, 2, 3, 4
UNSUPPORTED, UNKNOWN = 1 << 31 | 1, 1 << 31 | 6
INFO_EXPORT, INFO_BLOCK_SIZE = 0, 3
READ, WRITE, DISCONNECT, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE = 1, 2
IS_HOLE, IS_ZERO = 1, 2
CAN_FLUSH, CAN_FUA, CAN_TRIM, CAN_WRITE_ZEROES, CAN_MULTI_CONN = 4, 8, 32, 64, 256
MAGIC, OPTIONS = b"NBDMAGIC", b"IHAVEOPT"
OPTION_ANSWER, REQUEST, SIMPLE_ANSWER, CHUNK = 0x3E889045565A9, 0x25609513, 0x67446698, 0x668E33EF
IS_LAST, OFFSET_DATA, OFFSET_HOLE, STATUS_CHUNK, ERROR_CHUNKS = 1, 1, 2, 5, 1 << 15
ALLOCATION = b"base:allocation"
PATIENCE_S = 30.0


class ExportRefusedError(Exception):
    """The server does not serve what was asked for; *code* is the type of its answer."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(f"{code:#x}: {sentence}")
        self.code = code


@dataclass(eq=False)
class Answer:
    """To one request; of one that is not *done* the server has not said the last word."""

    kind: int
    length: int
    offset: int
    done: bool = False
    error: int = 0
    data: bytearray = field(default_factory=bytearray)
    extents: list[tuple[int, int]] = field(default_factory=list)
    """Length and flags, of a block status."""


def request(kind: int, cookie: int, offset: int = 0, length: int = 0, flags: int = 0) -> bytes:
    return struct.pack(">IHHQQI", REQUEST, flags, kind, cookie, offset, length)


class Handshake:
    """The options of NBD, one after another, on a connection that blocks."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        greeting = self._exactly(18)
        assert greeting[:16] == MAGIC + OPTIONS, greeting
        self.flags = struct.unpack(">H", greeting[16:])[0]
        assert self.flags & 3 == 3, "fixed newstyle, and no zeroes after an export's name"
        sock.sendall(struct.pack(">I", 3))

    def option(self, number: int, data: bytes = b"") -> list[tuple[int, bytes]]:
        """All answers, as types and data; the last one is an acknowledgement or an error."""
        self.send(number, data)
        answers: list[tuple[int, bytes]] = []
        while not answers or not (answers[-1][0] == ACK or answers[-1][0] >> 31):
            magic, option, kind, length = struct.unpack(">QIII", self._exactly(20))
            assert (magic, option) == (OPTION_ANSWER, number)
            answers.append((kind, self._exactly(length)))
        return answers

    def send(self, number: int, data: bytes = b"") -> None:
        self._sock.sendall(OPTIONS + struct.pack(">II", number, len(data)) + data)

    def good(self, number: int, data: bytes = b"") -> list[tuple[int, bytes]]:
        """As `option`, without the acknowledgement; raises `ExportRefusedError`."""
        *answers, (code, said) = self.option(number, data)
        if code != ACK:
            raise ExportRefusedError(code, said.decode(errors="replace"))
        return answers

    def go(self, export: str, option: int = GO) -> dict[int, bytes]:
        """What the server tells of the export, by type of information."""
        name = export.encode()
        wanted = struct.pack(">I", len(name)) + name + struct.pack(">HH", 1, INFO_BLOCK_SIZE)
        answers = self.good(option, wanted)
        return {struct.unpack(">H", data[:2])[0]: data[2:] for kind, data in answers if kind == INFORMATION}

    def by_name(self, export: str) -> bytes:
        """By the oldest option, which has no way to refuse: size and flags."""
        self.send(EXPORT_NAME, export.encode())
        return self._exactly(10)

    def exports(self) -> list[str]:
        return [data[4:].decode() for kind, data in self.good(LIST) if kind == SERVER]

    def set_allocation(self, export: str) -> None:
        name = export.encode()
        query = struct.pack(">I", 1) + struct.pack(">I", len(ALLOCATION)) + ALLOCATION
        [(kind, data)] = self.good(SET_META_CONTEXT, struct.pack(">I", len(name)) + name + query)
        assert (kind, data[4:]) == (META_CONTEXT, ALLOCATION)

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            some = self._sock.recv(count - len(found))
            if not some:
                raise ConnectionResetError("the server has ended the connection")
            found += some
        return found


class NbdClient:
    """One connection. Requests are begun; `pump` and `finish` carry bytes in both directions."""

    def __init__(
        self, sock: socket.socket, export: str, *, is_structured: bool = True, has_allocation: bool = True
    ) -> None:
        sock.settimeout(PATIENCE_S)
        self._sock = sock
        self._in, self._out = bytearray(), bytearray()
        self._next = 1
        self.pending: dict[int, Answer] = {}
        self.has_ended = False
        self._is_structured = is_structured
        try:
            handshake = Handshake(sock)
            if is_structured:
                handshake.good(STRUCTURED_REPLY)
                if has_allocation:
                    handshake.set_allocation(export)
            told = handshake.go(export)
        except BaseException:
            sock.close()
            raise
        self.size, self.flags = struct.unpack(">QH", told[INFO_EXPORT])
        self.block_sizes: tuple[int, int, int] = struct.unpack(">III", told[INFO_BLOCK_SIZE])
        sock.setblocking(False)

    @classmethod
    def at(cls, path: str, export: str, *, is_structured: bool = True, has_allocation: bool = True) -> Self:
        return cls(connected(path), export, is_structured=is_structured, has_allocation=has_allocation)

    def begin(self, kind: int, offset: int = 0, length: int = 0, data: bytes = b"", flags: int = 0) -> Answer:
        cookie, self._next = self._next, self._next + 1
        answer = self.pending[cookie] = Answer(kind, length or len(data), offset)
        if kind == READ:
            answer.data = bytearray(length)
        self._out += request(kind, cookie, offset, length or len(data), flags)
        self._out += data
        return answer

    def send_raw(self, data: bytes) -> None:
        self._out += data

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def events(self) -> int:
        return select.POLLIN | (select.POLLOUT if self._out else 0)

    def turn(self) -> None:
        """Send and receive what is possible without waiting."""
        try:
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                while self._out:
                    del self._out[: self._sock.send(memoryview(self._out)[: 1 << 18].tobytes())]
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                while some := self._sock.recv(1 << 18):
                    self._in += some
                self.has_ended = True
        except OSError:
            self.has_ended = True
        while self._take():
            pass

    def _take(self) -> bool:
        """Whether there was a whole answer."""
        if len(self._in) < 4:
            return False
        if self._in[:4] == struct.pack(">I", CHUNK):
            return self._take_chunk()
        assert self._in[:4] == struct.pack(">I", SIMPLE_ANSWER), bytes(self._in[:32])
        if len(self._in) < 16:
            return False
        error, cookie = struct.unpack(">IQ", self._in[4:16])
        answer = self.pending[cookie]
        assert not (self._is_structured and answer.kind in (READ, BLOCK_STATUS)), "such an answer must be structured"
        due = answer.length if answer.kind == READ and not error else 0
        if len(self._in) < 16 + due:
            return False
        answer.data[:] = self._in[16 : 16 + due]
        answer.error = error
        self._ended(cookie, 16 + due)
        return True

    def _take_chunk(self) -> bool:
        if len(self._in) < 20:
            return False
        flags, kind, cookie, length = struct.unpack(">HHQI", self._in[4:20])
        if len(self._in) < 20 + length:
            return False
        answer, said = self.pending[cookie], bytes(self._in[20 : 20 + length])
        if kind == OFFSET_DATA:
            start = struct.unpack(">Q", said[:8])[0] - answer.offset
            assert 0 <= start <= start + length - 8 <= answer.length
            answer.data[start : start + length - 8] = said[8:]
        elif kind == OFFSET_HOLE:
            start, size = struct.unpack(">QI", said)
            answer.data[start - answer.offset : start - answer.offset + size] = bytes(size)
        elif kind == STATUS_CHUNK:
            answer.extents = [struct.unpack(">II", said[at : at + 8]) for at in range(4, length, 8)]
        elif kind & ERROR_CHUNKS:
            answer.error = struct.unpack(">I", said[:4])[0]
        else:
            assert kind == 0, f"chunk of type {kind}"
        if flags & IS_LAST:
            self._ended(cookie, 20 + length)
        else:
            del self._in[: 20 + length]
        return True

    def _ended(self, cookie: int, used: int) -> None:
        self.pending.pop(cookie).done = True
        del self._in[:used]

    def do(self, kind: int, offset: int = 0, length: int = 0, data: bytes = b"", flags: int = 0) -> Answer:
        answer = self.begin(kind, offset, length, data, flags)
        finish(self)
        return answer

    def read(self, offset: int, length: int) -> bytes:
        answer = self.do(READ, offset, length)
        if answer.error:
            raise OSError(answer.error, os.strerror(answer.error))
        return bytes(answer.data)

    def write(self, offset: int, data: bytes, flags: int = 0) -> None:
        self.change(WRITE, offset, data=data, flags=flags)

    def change(self, kind: int, offset: int = 0, length: int = 0, data: bytes = b"", flags: int = 0) -> None:
        error = self.do(kind, offset, length, data, flags).error
        if error:
            raise OSError(error, os.strerror(error))

    def leave(self) -> None:
        """As the protocol wants it: answers that are due come first, then the server ends the connection."""
        self.send_raw(request(DISCONNECT, 0))
        pump([self], lambda: self.has_ended)
        assert self.has_ended
        self.close()

    def close(self) -> None:
        self._sock.close()


def connected(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(PATIENCE_S)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def pump(clients: Iterable[NbdClient], until: Callable[[], bool], for_s: float = PATIENCE_S) -> bool:
    """Carry bytes until *until* holds; gives whether it does."""
    deadline = time.monotonic() + for_s
    watched = list(clients)
    while True:
        for client in watched:
            if not client.has_ended:
                client.turn()
        if until():
            return True
        left = deadline - time.monotonic()
        alive = [client for client in watched if not client.has_ended]
        if left <= 0 or not alive:
            return False
        poll = select.poll()
        for client in alive:
            poll.register(client.fileno(), client.events)
        poll.poll(min(left, 0.05) * 1000)


def finish(*clients: NbdClient) -> None:
    """Until every request is answered."""
    done = pump(clients, lambda: not any(client.pending for client in clients))
    ended = any(client.has_ended for client in clients)
    assert done, "the server has ended a connection" if ended else f"no answer within {PATIENCE_S:g} s"
