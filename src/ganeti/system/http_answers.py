# SPDX-License-Identifier: BSD-2-Clause
"""Reading an answer of HTTP/1.1 from the bytes that have come: with its length, in chunks, or up to the end.

The reader has no socket: it takes bytes as they come and says when the answer is whole.
"""

from collections.abc import Generator
from typing import NamedTuple, TypeVar

_MOST_HEAD_BYTES = 64 * 1024
_LINE = b"\r\n"
_DIGITS = b"0123456789abcdefABCDEF"
_HEAD = b"\r\n\r\n"

T = TypeVar("T")
_Steps = Generator[None, None, T]
"""Pauses wherever more bytes are needed."""


class TooLong(Exception):
    """The answer is longer than the request allows."""


class NotHttp(Exception):
    """What came is no answer."""


class Answer(NamedTuple):
    status: int
    body: bytes
    goes_on: bool
    """The connection may carry another request."""


class AnswerReader:
    """One answer."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        """*limit_bytes* is for the body."""
        self._buffer = bytearray()
        self._is_ended = False
        self._limit_bytes = limit_bytes
        self._steps = self._answer()
        next(self._steps)

    def feed(self, data: bytes) -> Answer | None:
        """Take in *data*; gives the answer once it is whole. Raises `NotHttp`, `TooLong`."""
        self._buffer += data
        return self._step()

    def end(self) -> Answer | None:
        """Nothing more comes. Raises `EOFError` where the answer is not whole."""
        self._is_ended = True
        return self._step()

    def _step(self) -> Answer | None:
        try:
            next(self._steps)
        except StopIteration as done:
            answer: Answer = done.value
            return answer._replace(goes_on=False) if self._buffer else answer
        except ValueError as err:
            raise NotHttp(str(err)) from err
        return None

    def _answer(self) -> _Steps[Answer]:
        status = 100
        while status < 200:  # others come before the answer
            head = yield from self._until(_HEAD)
            if not head.startswith(b"HTTP/1."):
                raise NotHttp("the first line is not HTTP's")
            status = _number(head[9:12], 10)
        headers = head.lower() + _LINE
        goes_on = head.startswith(b"HTTP/1.1 ") and b"close" not in _header(headers, b"\r\nconnection:")
        if status in (204, 304):
            return Answer(status, b"", goes_on)
        if _header(headers, b"\r\ntransfer-encoding:") == b"chunked":
            return Answer(status, (yield from self._chunks()), goes_on)
        if length := _header(headers, b"\r\ncontent-length:"):
            return Answer(status, (yield from self._part(_number(length, 10), 0)), goes_on)
        return Answer(status, (yield from self._rest()), False)

    def _more(self) -> _Steps[None]:
        if self._is_ended:
            raise EOFError
        yield

    def _until(self, mark: bytes) -> _Steps[bytes]:
        """What stands before *mark*, which is taken away as well."""
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > _MOST_HEAD_BYTES:
                raise NotHttp(f"no end of a line within {_MOST_HEAD_BYTES} bytes")
            yield from self._more()
        part = bytes(self._buffer[:at])
        del self._buffer[: at + len(mark)]
        return part

    def _part(self, length: int, before: int) -> _Steps[bytes]:
        """The next *length* bytes of a body of which *before* bytes have been read."""
        self._allow(before + length)
        while len(self._buffer) < length:
            yield from self._more()
        part = bytes(self._buffer[:length])
        del self._buffer[:length]
        return part

    def _chunks(self) -> _Steps[bytes]:
        body = bytearray()
        while length := _number((yield from self._until(_LINE)).partition(b";")[0].strip(), 16):
            body += yield from self._part(length, len(body))
            if (yield from self._part(2, 0)) != _LINE:
                raise NotHttp("a chunk does not end where it should")
        while (yield from self._until(_LINE)):
            pass  # trailers are not used
        return bytes(body)

    def _rest(self) -> _Steps[bytes]:
        while not self._is_ended:
            self._allow(len(self._buffer))
            yield
        self._allow(len(self._buffer))
        body = bytes(self._buffer)
        self._buffer.clear()
        return body

    def _allow(self, length: int) -> None:
        if self._limit_bytes is not None and length > self._limit_bytes:
            raise TooLong


def _header(headers: bytes, name: bytes) -> bytes:
    """The value of a header, empty where there is none; *headers* in lower case, *name* as it stands there."""
    at = headers.find(name)
    return headers[at + len(name) : headers.index(_LINE, at + len(name))].strip() if at >= 0 else b""


def _number(digits: bytes, base: int) -> int:
    """Raises `ValueError` also for the signs, prefixes and underscores that `int` takes."""
    if not digits or digits.translate(None, _DIGITS):
        raise ValueError(f"no number: {digits[:20]!r}")
    return int(digits, base)
