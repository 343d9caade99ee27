# SPDX-License-Identifier: BSD-2-Clause
"""Who asks, and what that caller may do: a user of the users file, or the bearer of a token (rapi, section 1)."""

import hashlib
import logging
import os
import time
from collections.abc import Callable

from ganeti.base.failed_logins import FAILURES_MAX, FAILURES_S, FailedLogins
from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.caller import ANYBODY, LOGIN, Caller
from ganeti.rapi.issued import Issued
from ganeti.rapi.users import UsersFile, credentials
from ganeti.system.files import plain_file
from ganeti.system.http_server import HttpRequest
from ganeti.wire.api_tokens import Scope, Token, divided, read_scope, read_tokens

_log = logging.getLogger(__name__)
_SHOWN = 64
"""So much of a name is written to the log."""


class TokensFile:
    """The tokens as the file has them now: read again when it has changed."""

    def __init__(self, path: str, now_s: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now_s = now_s
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, Token] = {}

    def find(self, text: str) -> Caller | None:
        """Give the bearer of a token; None for one that is unknown, wrong or over."""
        words = divided(text)
        if words is None:
            return None
        self._refresh()
        token = self._tokens.get(words[0])
        if token is None or not token.has_secret(words[1]) or token.is_over(self._now_s()):
            return None
        return Caller(f"token {token.name}", tuple(read_scope(scope) for scope in token.scopes))

    def _refresh(self) -> None:
        try:
            state = os.stat(self._path)
            seen = (state.st_ino, state.st_size, state.st_mtime_ns)
            if seen != self._seen:
                with open(self._path, encoding="utf-8", opener=plain_file) as file:
                    self._tokens = read_tokens(file.read())
        except (OSError, UnicodeDecodeError):
            self._tokens, seen = {}, (0, 0, 0)
        self._seen = seen


class Callers:
    """Finds out who the caller is; slows down clients that guess."""

    def __init__(
        self,
        users: UsersFile,
        tokens: TokensFile | None = None,
        issued: Issued | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._tokens = tokens
        self._issued = issued
        self._failures = FailedLogins(now_s)
        self._key = os.urandom(32)

    async def prepare(self, request: HttpRequest) -> None:
        """Fetch what `of` needs to check a token of an issuer."""
        scheme, _, text = request.headers.get("Authorization", "").strip().partition(" ")
        if self._issued is not None and scheme.lower() == "bearer":
            await self._issued.prepare(text.strip())

    def of(self, request: HttpRequest) -> Caller:
        """Give the caller, `ANYBODY` where no credentials came; raises `RequestRefused` for wrong ones."""
        header = request.headers.get("Authorization", "")
        is_token = credentials(header) is None
        if is_token and header.strip().partition(" ")[0].lower() != "bearer":
            return ANYBODY
        if self._failures.too_many(request.peer):
            raise RequestRefused(
                429, "Too many failed log-ins from this address: wait a minute", {"Retry-After": f"{FAILURES_S:.0f}"}
            )
        caller = self._known(header)
        if caller is None:
            self._note(request.peer, header)
            what = (
                "The token is unknown, revoked, over or not for this cluster"
                if is_token
                else "Name or password is wrong"
            )
            raise RequestRefused(401, what, LOGIN)
        return caller

    def _note(self, peer: str, header: str) -> None:
        """Count a failed log-in; the log has the address, for programs that lock addresses out."""
        tried = hashlib.blake2b(header.encode(errors="backslashreplace"), key=self._key).digest()
        if not self._failures.note(peer, tried):
            return
        given = credentials(header)
        who = "a token" if given is None else f"user {given[0][:_SHOWN]!a}"
        _log.warning("a log-in from %s has failed: %s", peer, who)
        if self._failures.too_many(peer):
            _log.warning("no log-in from %s is tried for a minute: %d have failed", peer, FAILURES_MAX)

    def is_still(self, request: HttpRequest, caller: Caller) -> bool:
        """Whether a request that lasts would be let in now as it was, with the same rights."""
        try:
            return self._known(request.headers.get("Authorization", "")) == caller
        except RequestRefused:
            return False

    def _known(self, header: str) -> Caller | None:
        """Give the bearer of credentials that are good; raises `RequestRefused` where their issuer does not answer."""
        given = credentials(header)
        return self._bearer(header.strip().partition(" ")[2].strip()) if given is None else self._user(*given)

    def _user(self, name: str, password: str) -> Caller | None:
        user = self._users.find(name, password)
        if user is None:
            return None
        return Caller(name, tuple(Scope("*", right) for right in sorted(user.rights)))

    def _bearer(self, text: str) -> Caller | None:
        found = self._tokens.find(text) if self._tokens is not None else None
        return found if found is not None or self._issued is None else self._issued.find(text)
