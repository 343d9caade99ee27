# SPDX-License-Identifier: BSD-2-Clause
"""LUXI messages: JSON ended by byte 0x03, as clients of 3.1 speak it (protocols, section 2).

Standard library only: the command line imports this. JSON encoders escape control characters, so the end mark
cannot occur inside a message.
"""

import json
from typing import Any

from ganeti.base.errors import TransportError, from_wire

EOM = b"\x03"
VERSION = 3010000
"""Version of the protocol: major · 1000000 + minor · 10000."""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The largest request a daemon reads; a longer one ends the connection."""

CONNECT_TIMEOUT_S = 30.0
IO_TIMEOUT_S = 180.0
WAIT_TIMEOUT_S = 89.0
"""Longest wait of one `WaitForJobChange` call."""


class MalformedRequest(Exception):
    """The request cannot be understood: answered by a plain sentence, and the connection ends."""


def encode_request(method: str, args: Any) -> bytes:
    return json.dumps({"method": method, "args": args, "version": VERSION}).encode() + EOM


def decode_request(raw: bytes) -> tuple[str, list[Any]]:
    """Read one request, without its end mark; raises `MalformedRequest`."""
    try:
        return read_request(json.loads(raw))
    except (ValueError, RecursionError) as err:
        raise MalformedRequest(f"Failed to parse request: it is not JSON ({err})") from err


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


def encode_response(success: bool, result: Any) -> bytes:
    return json.dumps({"success": success, "result": result}).encode() + EOM


def decode_response(raw: bytes) -> Any:
    """Give the result of a response, without its end mark; raises the error it carries, or `TransportError`."""
    try:
        data = json.loads(raw)
    except ValueError as err:
        raise TransportError(f"The master daemon's answer is not JSON: {err}") from err
    if not isinstance(data, dict) or "success" not in data or "result" not in data:
        raise TransportError("The master daemon's answer has no 'success' or no 'result'")
    if data["success"]:
        return data["result"]
    raise from_wire(data["result"])
