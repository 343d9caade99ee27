# SPDX-License-Identifier: BSD-2-Clause
"""Datagrams of ConfD, the daemon of Ganeti 3.1 that tells of the configuration (protocols, 4). Pure.

Signed with the cluster's key both ways: an answer that is not, or that answers something else, is none.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAGIC = b"plj0"
PORT = 1814
LARGEST_REPLY_BYTES = 61440
PROTOCOL = 1
NODE_INSTANCES, INSTANCE_DISKS = 8, 9
"""Kinds of questions, about a node and about an instance, by name."""
_OK = 0


@dataclass(frozen=True)
class Question:
    """What is asked; *token* is told back by who answers."""

    kind: int
    query: Any
    token: str


def request(question: Question, now_s: float, key: bytes) -> bytes:
    """A datagram; ConfD takes it for 300 seconds from *now_s*."""
    body = {"protocol": PROTOCOL, "type": question.kind, "query": question.query, "rsalt": question.token}
    return _signed(json.dumps(body), str(int(now_s)), key)


def _signed(message: str, salt: str, key: bytes) -> bytes:
    return MAGIC + json.dumps({"msg": message, "salt": salt, "hmac": _signature(message, salt, key)}).encode()


def _signature(message: str, salt: str, key: bytes) -> str:
    return hmac.new(key, (salt + message).encode(), hashlib.sha1).hexdigest()


def reply(question: Question, answer: Any, serial: int, key: bytes, status: int = _OK) -> bytes:
    """What ConfD answers."""
    body = {"protocol": PROTOCOL, "status": status, "answer": answer, "serial": serial}
    return _signed(json.dumps(body), question.token, key)


@dataclass(frozen=True)
class Reply:
    """*answer* is None if ConfD has none to give."""

    answer: Any
    serial: int


def read_reply(datagram: bytes, question: Question, keys: Sequence[bytes]) -> Reply | None:
    """The answer to *question*, signed with one of *keys*; None for a datagram that is not that."""
    try:
        outer = json.loads(datagram[len(MAGIC) :]) if datagram.startswith(MAGIC) else None
        match outer:
            case {"msg": str(message), "salt": str(salt), "hmac": str(found)} if salt == question.token:
                known = any(hmac.compare_digest(_signature(message, salt, key), found) for key in keys)
                body = json.loads(message) if known else None
            case _:
                body = None
    except (ValueError, TypeError, RecursionError):
        return None
    match body:
        case {"protocol": 1, "status": int(status), "answer": answer, "serial": int(serial)}:
            return Reply(answer if status == _OK else None, serial)
    return None
