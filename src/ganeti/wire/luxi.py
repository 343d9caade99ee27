# SPDX-License-Identifier: BSD-2-Clause
"""LUXI messages: JSON ended by byte 0x03, as clients of 3.1 speak it (protocols, section 2).

Framing is in `framing.py` and `framing_sync.py`, the commands' own client in `cli/luxi.py`.
"""

from typing import Any

VERSION = 3010000
"""Version of the protocol: major · 1000000 + minor · 10000."""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The largest request a daemon reads; a longer one ends the connection."""

WAIT_TIMEOUT_S = 89.0
"""Longest wait of one `WaitForJobChange` call."""


class MalformedRequest(Exception):
    """The request cannot be understood: answered by a plain sentence, and the connection ends."""


def read_request(data: Any) -> tuple[str, list[Any]]:
    """Check a parsed request and give (method, arguments); raises `MalformedRequest`."""
    if not isinstance(data, dict):
        raise MalformedRequest("Failed to parse request: it must be a JSON object with 'method' and 'args'")
    method, args = data.get("method"), data.get("args")
    if not isinstance(method, str):
        raise MalformedRequest("Failed to parse request: 'method' must be the name of a call")
    if args is None:
        args = []
    if not isinstance(args, list):
        raise MalformedRequest(f"Failed to parse request: 'args' of {method} must be a list")
    return method, args
