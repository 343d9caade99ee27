# SPDX-License-Identifier: BSD-2-Clause
"""Tokens of the remote API: their scopes, and the file that keeps their hashes. Standard library only.

A token is ``gnt_ID_SECRET``. The file has one JSON object a line; the secret is not in it, only its SHA-256: it is
random and long, so that a slow hash would protect nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass

KINDS = ("cluster", "event", "export", "filter", "group", "instance", "job", "lock", "metrics", "network", "node")
ACCESSES = ("read", "write")
ROLES = {
    "reader": ("*:read",),
    "operator": ("*:read", "instance:write", "job:write"),
    "administrator": ("*:write",),
    "monitor": ("metrics:read",),
}
"""Names for lists of scopes."""
_PREFIX = "gnt"


@dataclass(frozen=True)
class Scope:
    """What may be done to objects of one kind (``*``: of all), with *tag* only to those that have it."""

    kind: str
    access: str
    tag: str = ""

    def covers(self, kind: str, access: str) -> bool:
        """Whether it allows this access; a right to write is one to read."""
        return self.kind in ("*", kind) and (self.access == "write" or access == "read")

    def __str__(self) -> str:
        return f"{self.kind}:{self.access}" + (f"@{self.tag}" if self.tag else "")


def read_scope(text: str) -> Scope:
    """Read ``KIND:ACCESS`` or ``KIND:ACCESS@TAG``; raises `ValueError` with a sentence."""
    words, _, tag = text.partition("@")
    kind, _, access = words.partition(":")
    if kind not in ("*", *KINDS) or access not in ACCESSES or (text.endswith("@")):
        raise ValueError(
            f"'{text}' is no scope: write KIND:read or KIND:write, with @TAG for objects with a tag; kinds are *, "
            + ", ".join(KINDS)
        )
    if tag and kind not in ("instance", "node", "group", "network"):
        raise ValueError(f"'{text}' is no scope: objects of kind '{kind}' have no tags")
    return Scope(kind, access, tag)


@dataclass(frozen=True)
class Token:
    """One line of the file; times are seconds since the epoch."""

    id: str
    name: str
    hash: str
    scopes: tuple[str, ...]
    created: int
    expires: int | None = None

    def is_over(self, now_s: float) -> bool:
        return self.expires is not None and self.expires <= now_s

    def has_secret(self, secret: str) -> bool:
        return hmac.compare_digest(hash_of(secret), self.hash)


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def shown_once(token_id: str, secret: str) -> str:
    """The token as its user gets it."""
    return f"{_PREFIX}_{token_id}_{secret}"


def divided(text: str) -> tuple[str, str] | None:
    """Give id and secret of a token; None where *text* is none."""
    words = text.split("_", 2)
    return (words[1], words[2]) if len(words) == 3 and words[0] == _PREFIX and words[2] else None


def read_tokens(text: str) -> dict[str, Token]:
    """Read the file, by id; a line that is not understood lets nobody in."""
    found = {}
    for line in text.splitlines():
        try:
            given = json.loads(line)
            token = Token(**{**given, "scopes": tuple(given["scopes"])})
            for scope in token.scopes:
                read_scope(scope)
        except (ValueError, TypeError, KeyError):
            continue
        found[token.id] = token
    return found


def write_tokens(tokens: dict[str, Token]) -> str:
    return "".join(json.dumps(asdict(token)) + "\n" for token in tokens.values())
