# SPDX-License-Identifier: BSD-2-Clause
"""Sends signed reports of nodes to the maintenance daemon: one POST each, without an HTTP library.

The daemons of every node send them, and must stay small.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ganeti.base.addresses import bracketed
from ganeti.base.errors import GanetiError

PORT = 1816
"""Of the maintenance daemon."""
_ANSWER_S = 10.0
_ACCEPTED, _NOT_BELIEVED = b" 202 ", " 403 "


class Fault(NamedTuple):
    """Why no address took a report: empty where one did."""

    text: str
    is_refused: bool = False
    """A machine answers, and no maintenance daemon runs there."""
    is_disbelieved: bool = False
    """The maintenance daemon says that the report is wrong, not that it cannot be noted now."""


async def send_report(addresses: Iterable[str], path: str, write: Callable[[], bytes], port: int = PORT) -> Fault:
    """Send what *write* gives to the first of these addresses that takes it; it is written anew for each."""
    text, is_refused = "no address of the master is known", False
    for address in addresses:
        try:
            async with asyncio.timeout(_ANSWER_S):
                text = await _post(address, path, write(), port)
            if not text:
                return Fault("")
        except ConnectionRefusedError:
            text, is_refused = f"no ganeti-maintd answers on {address}", True
        except (OSError, TimeoutError, GanetiError) as err:
            text = f"{address}: {getattr(err, 'strerror', None) or 'no answer'}"
    return Fault(text, is_refused, is_disbelieved=_NOT_BELIEVED in text)


async def _post(address: str, path: str, body: bytes, port: int) -> str:
    """Gives why the report was not taken, or nothing."""
    reader, writer = await asyncio.open_connection(address, port)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: {bracketed(address)}\r\nContent-Length: {len(body)}\r\n"
        head += "Connection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        status = await reader.readline()
        return "" if _ACCEPTED in status else status.decode(errors="replace").strip() or "it hangs up"
    finally:
        writer.close()
