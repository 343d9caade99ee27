# SPDX-License-Identifier: BSD-2-Clause
"""What the master sends to the candidates that hold copies (D6): records of the configuration, memberships.

The shapes are those of the node calls `replica_*`: arrays where the change stream has arrays. A fragment travels as
the JSON it is in the store, and comes out of `fragment_of` as the same bytes.
"""

from typing import Any

import msgspec

Position = tuple[int, int]
"""(epoch, serial)."""
WirePut = tuple[str, str, dict[str, Any]]
"""(kind, uuid, fragment)."""
Acknowledged = tuple[Position, str]
"""What every member has: position and fingerprint of a configuration that the node holds, or held on its way."""
WireStep = tuple[int, int, int, bool, str, Any]
"""(job, attempt, step, settles, lock file, answer); the answer is its JSON, as text or as it is."""


class CommitRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One commit; one without objects is a step alone and leaves the position as it is."""

    position: Position
    time_s: float
    digest: str
    """Fingerprint of the configuration that holds this commit."""
    put: list[WirePut] = []
    remove: list[tuple[str, str]] = []
    step: WireStep | None = None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a record or asks for a promise: the first arguments of every call."""

    cluster: str
    """UUID of the cluster."""
    software: str
    """Release of the caller."""
    epoch: int
    master: str
    """UUID of the node that asks."""
    time_s: float
    """The caller's clock."""


def fragment_of(plain: Any) -> bytes:
    """The JSON of a decoded fragment: encoding what was decoded gives the bytes that were encoded first."""
    return msgspec.json.encode(plain)


def answer_of(answer: Any) -> bytes:
    """The JSON of a step's answer."""
    return answer.encode() if isinstance(answer, str) else msgspec.json.encode(answer)
