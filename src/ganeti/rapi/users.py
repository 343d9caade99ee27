# SPDX-License-Identifier: BSD-2-Clause
"""Who may use the remote API: the users file, and the credentials of a request (rapi, section 1)."""

import base64
import hashlib
import hmac
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from ganeti.base.errors import refusal_of_system
from ganeti.system.files import plain_file

_log = logging.getLogger(__name__)
_MISSING, _UNREADABLE = (0, 0, 0), (0, 0, 1)
REALM = "Ganeti Remote API"


@dataclass(frozen=True)
class User:
    """One line of the users file."""

    name: str
    secret: str
    is_digest: bool
    """Whether *secret* is the MD5 of user, realm and password."""
    rights: frozenset[str]

    def has_password(self, password: str) -> bool:
        shown = password
        if self.is_digest:
            shown = hashlib.md5(f"{self.name}:{REALM}:{password}".encode(), usedforsecurity=False).hexdigest()
        return hmac.compare_digest(shown.encode(), self.secret.encode())


def read_users(text: str) -> dict[str, User]:
    """Read the lines of a users file; one that says too little, or names an unknown scheme, lets nobody in."""
    users = {}
    for line in text.splitlines():
        words = line.strip().split(None, 2)
        if len(words) < 2 or words[0].startswith("#"):
            continue
        name, password, *options = words
        scheme, closed, rest = password.partition("}")
        kind = scheme.lower() if closed and scheme.startswith("{") else ""
        if kind not in ("", "{cleartext", "{ha1"):
            continue
        rights = {word.strip() for word in "".join(options).split(",")} & {"read", "write"}
        secret = rest if kind else password
        is_digest = kind == "{ha1"
        users[name] = User(name, secret.lower() if is_digest else secret, is_digest, _implied(rights))
    return users


def credentials(header: str) -> tuple[str, str] | None:
    """Read the name and the password of an ``Authorization`` header; None where it is none of Basic."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:  # no Base64, or no text
        return None
    return (name, password) if colon else None


class UsersFile:
    """The users file as it stands now: read again when it has changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._users: Mapping[str, User] = {}

    def find(self, name: str, password: str) -> User | None:
        """Give the user of that name, if the password is right."""
        self._refresh()
        user = self._users.get(name)
        return user if user is not None and user.has_password(password) else None

    def _refresh(self) -> None:
        try:
            state = os.stat(self._path)
            seen = (state.st_ino, state.st_size, state.st_mtime_ns)
            if seen == self._seen:
                return
            with open(self._path, encoding="utf-8", errors="replace", opener=plain_file) as file:
                # One odd comment locks nobody out.
                self._users = read_users(file.read())
        except FileNotFoundError:
            self._users, seen = {}, _MISSING
        except OSError as err:
            if self._seen != _UNREADABLE:  # once, and not for each request
                _log.error("nobody is let in by a password: %s", refusal_of_system(err))
            self._users, seen = {}, _UNREADABLE
        self._seen = seen


def _implied(rights: set[str]) -> frozenset[str]:
    return frozenset(rights | {"read"} if "write" in rights else rights)
