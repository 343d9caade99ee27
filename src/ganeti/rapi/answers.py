# SPDX-License-Identifier: BSD-2-Clause
"""What a client of `/2` gets back, and the error that becomes such an answer (rapi, section 2)."""

import html
from collections.abc import AsyncGenerator, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from ganeti.base.errors import (
    UNKNOWN_ENTITY,
    WRONG_INPUT,
    GanetiError,
    JobQueueError,
    JobQueueFull,
    OpCodeUnknown,
    ParameterError,
    PrerequisiteError,
    TransportError,
)
from ganeti.system.http_server import HttpReply

_OF_CODE = {UNKNOWN_ENTITY: 404, WRONG_INPUT: 400}
SHORT_BYTES = 128 * 1024
"""A longer answer is sent while it is written."""


class RequestRefused(Exception):
    """The request is answered with this status and sentence."""

    def __init__(self, status: int, message: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.headers = headers or {}


class Streamed(Protocol):
    """An answer that is written piece by piece."""

    def chunks(self) -> AsyncGenerator[bytes, None]: ...


async def answered(value: Any) -> HttpReply:
    """Give the reply to *value*, or to what a `Streamed` one writes: in one piece, where it is short."""
    if not hasattr(value, "chunks"):
        return HttpReply(200, msgspec.json.encode(value) + b"\n")
    pieces = value.chunks()
    begun = b""
    async for piece in pieces:
        begun += piece
        if len(begun) > SHORT_BYTES:
            return HttpReply(200, begun, chunks=pieces)
    return HttpReply(200, begun)


def refused(error: RequestRefused) -> HttpReply:
    """Give the error as 3.1 has it: code, message (escaped for HTML), and what the code means."""
    status = HTTPStatus(error.status)
    body = {
        "code": status.value,
        "message": html.escape(error.message or status.phrase, quote=True),
        "explain": status.description or status.phrase,
    }
    return HttpReply(status.value, msgspec.json.encode(body) + b"\n", headers=error.headers)


def as_refusal(error: GanetiError) -> RequestRefused:
    """Say with a status of 3.1 what LuxiD answered, or that it did not."""
    if isinstance(error, OpCodeUnknown):
        return _older(error)
    if isinstance(error, TransportError):
        status = 502
    elif isinstance(error, JobQueueFull):
        status = 503
    else:
        status = 404 if isinstance(error, PrerequisiteError) and error.code == UNKNOWN_ENTITY else 500
    return RequestRefused(status, str(error))


def _older(error: OpCodeUnknown) -> RequestRefused:
    """RapiD made the opcode by its own declarations, so LuxiD is the one that lacks it."""
    return RequestRefused(
        501, f"{error}: the master's ganeti-luxid is of an older version; restart it there once the update is complete"
    )


def problem(error: RequestRefused) -> HttpReply:
    """Give the error as `/3` has it: problem details of RFC 9457."""
    status = HTTPStatus(error.status)
    body = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": error.message or status.phrase,
    }
    return HttpReply(status.value, msgspec.json.encode(body) + b"\n", "application/problem+json", error.headers)


def as_problem_status(error: GanetiError) -> RequestRefused:
    """Say with a status of `/3` what LuxiD answered, or that it did not."""
    if isinstance(error, OpCodeUnknown):
        return _older(error)
    if isinstance(error, TransportError):
        return RequestRefused(502, str(error), {"Retry-After": "1"})
    if isinstance(error, JobQueueError):
        return RequestRefused(503, str(error))
    if isinstance(error, PrerequisiteError):
        return RequestRefused(_OF_CODE.get(error.code, 409), str(error))
    return RequestRefused(400 if isinstance(error, ParameterError) else 500, str(error))
