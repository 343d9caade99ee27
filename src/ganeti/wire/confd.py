# SPDX-License-Identifier: BSD-2-Clause
"""Datagrams of ConfD, which tells of the configuration (protocols, 4). Pure.

Signed with the cluster's key both ways: an answer that is not, or that answers something else, is none, and a question
that is not, or whose time is not now, gets none.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ganeti.base.clocks import CLOCK_SKEW_S

MAGIC = b"plj0"
_LONGEST_TIME = 12
PORT = 1814
LARGEST_REPLY_BYTES = 61440
LARGEST_REQUEST_BYTES = 4096
PROTOCOL = 1


class Kind(IntEnum):
    """What can be asked."""

    PING = 0
    NODE_ROLE = 1
    NODE_OF_ADDRESS = 2
    MASTER = 3
    NODE_ADDRESSES = 4
    CANDIDATE_ADDRESSES = 5
    INSTANCE_ADDRESSES = 6
    NODE_MINORS = 7
    NODE_INSTANCES = 8
    INSTANCE_DISKS = 9
    CONFIG = 10
    COLLECTORS = 11
    PRIMARY_INSTANCES = 100
    """Not of 3.1: [name, UUID, admin state, time of change] of a node's primary instances, short enough for many."""


class Status(IntEnum):
    """How an answer is meant."""

    OK = 0
    ERROR = 1
    NOT_IMPLEMENTED = 2


class Fault(IntEnum):
    """The answer with `Status.ERROR`, where it is no sentence."""

    UNKNOWN = 0
    INTERNAL = 1
    ARGUMENT = 2


_KINDS = frozenset(Kind)


class Role(IntEnum):
    """Of a node."""

    MASTER = 0
    CANDIDATE = 1
    OFFLINE = 2
    DRAINED = 3
    REGULAR = 4


LINK = "0"
"""Key of a question that is a dictionary; "1" is for one address, "2" for several, "3" for fields of the master."""


class MasterField(IntEnum):
    """Values of `FIELDS` in a question about the master."""

    NAME = 0
    ADDRESS = 1
    NODE_ADDRESS = 2


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
    return MAGIC + json.dumps(sign(message, salt, key)).encode()


def sign(message: str, salt: str, key: bytes) -> dict[str, str]:
    """A message with what shows that it comes from somebody who has the cluster's key."""
    return {"msg": message, "salt": salt, "hmac": _signature(message, salt, key)}


def _signature(message: str, salt: str, key: bytes) -> str:
    return hmac.new(key, (salt + message).encode("utf-8", "surrogatepass"), hashlib.sha1).hexdigest()


def read_request(datagram: bytes, now_s: float, keys: Sequence[bytes]) -> tuple[Question, bytes] | None:
    """A question with the key that it is signed with; None for what gets no answer."""
    try:
        outer = json.loads(datagram[len(MAGIC) :]) if datagram.startswith(MAGIC) else None
        match outer:
            case {"msg": str(message), "salt": str(salt), "hmac": str(found)} if salt.isascii() and salt.isdigit():
                known = [key for key in keys if _is_signature(found, message, salt, key)]
            case _:
                return None
        if not known or len(salt) > _LONGEST_TIME or abs(int(salt) - now_s) > CLOCK_SKEW_S:
            return None
        body = json.loads(message)
    except (ValueError, RecursionError):
        return None
    match body:
        case {"protocol": 1, "type": int(kind), "rsalt": str(token)} if kind in _KINDS and not isinstance(kind, bool):
            return Question(kind, body.get("query"), token), known[0]
    return None


def clock_of(datagram: bytes, keys: Sequence[bytes]) -> float | None:
    """The time of a question that is signed with one of *keys*; None for anything else."""
    for key in keys:
        try:
            outer = json.loads(datagram[len(MAGIC) :])
            message, salt, found = outer["msg"], outer["salt"], outer["hmac"]
            if _is_signature(found, message, salt, key):
                return float(salt)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
    return None


def is_signed(found: str, message: str, salt: str, key: bytes) -> bool:
    """Whether *found* is the signature of `sign` for this message."""
    return _is_signature(found, message, salt, key)


def _is_signature(found: str, message: str, salt: str, key: bytes) -> bool:
    return hmac.compare_digest(_signature(message, salt, key).encode(), found.encode("utf-8", "surrogatepass"))


def reply(question: Question, answer: Any, serial: int, key: bytes, status: int = Status.OK) -> bytes:
    """What ConfD answers; a sentence in its place if it is too long for a datagram."""
    told = _reply(question, answer, serial, key, status)
    if len(told) <= LARGEST_REPLY_BYTES:
        return told
    sentence = "the answer is too long for a datagram: ask for less, or a master daemon"
    return _reply(question, sentence, 0, key, Status.ERROR)


def _reply(question: Question, answer: Any, serial: int, key: bytes, status: int) -> bytes:
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
                known = any(_is_signature(found, message, salt, key) for key in keys)
                body = json.loads(message) if known else None
            case _:
                body = None
    except (ValueError, TypeError, RecursionError):
        return None
    match body:
        case {"protocol": 1, "status": int(status), "answer": answer, "serial": int(serial)}:
            return Reply(answer if status == Status.OK else None, serial)
    return None
