# SPDX-License-Identifier: BSD-2-Clause
"""The bodies of node calls: whole where they are short, in pieces where an argument is a long text.

`config.data` of 10,000 instances has 36 MB. To read it, to write it as JSON or to encrypt it in one go, in whatever
thread, would stop the event loop of its sender for a third of a second, at every candidate.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import msgspec

_LONG = 64 * 1024
"""Characters in one piece, and in an argument that is not sent in pieces."""


class TextOfFile(NamedTuple):
    """An argument: the text of a file, as it is when the call is sent."""

    path: str


class RequestBody:
    """One request, which may be sent several times."""

    def __init__(self, fields: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        """*fields* stand beside ``arguments``."""
        self._long = {
            key: value for key, value in arguments.items() if isinstance(value, str | TextOfFile) and _is_long(value)
        }
        short = arguments
        if self._long:
            short = {key: value for key, value in arguments.items() if key not in self._long}
        self._begin = msgspec.json.encode({**fields, "arguments": short})
        self._comma = b"," if short else b""

    @property
    def data(self) -> bytes | AsyncIterator[bytes]:
        """What an HTTP client takes."""
        return self._pieces() if self._long else self._begin

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self._begin[:-2]
        comma = self._comma
        for key, text in self._long.items():
            yield comma + msgspec.json.encode(key) + b':"'
            async for piece in _in_file(text.path) if isinstance(text, TextOfFile) else _in_memory(text):
                yield msgspec.json.encode(piece)[1:-1]
            yield b'"'
            comma = b","
        yield b"}}"


def _is_long(value: str | TextOfFile) -> bool:
    return not isinstance(value, str) or len(value) > _LONG


async def _in_memory(text: str) -> AsyncIterator[str]:
    for begin in range(0, len(text), _LONG):
        yield text[begin : begin + _LONG]
        await asyncio.sleep(0)  # a node that takes it quickly would otherwise have the loop to itself


async def _in_file(path: str) -> AsyncIterator[str]:
    with await asyncio.to_thread(open, path, encoding="utf-8", newline="") as stream:
        while piece := await asyncio.to_thread(stream.read, _LONG):
            yield piece
