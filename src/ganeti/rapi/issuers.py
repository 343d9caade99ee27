# SPDX-License-Identifier: BSD-2-Clause
"""Which issuers of OpenID Connect the cluster trusts, and what their tokens allow: the file ``rapi/issuers``."""

import logging
import os
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ganeti.system.files import plain_file
from ganeti.wire.api_tokens import ROLES, Scope, read_scope

_log = logging.getLogger(__name__)
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""With a public key alone: what the cluster knows of an issuer makes no tokens."""


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of whom tokens are taken."""

    issuer: str
    """As the claim ``iss`` has it."""
    audience: str
    """What the claim ``aud`` must name."""
    roles: dict[str, list[str]]
    """For each value of the claim of roles what it allows: scopes, or roles of `wire.api_tokens`."""
    roles_claim: str = "groups"
    """A claim with a list, or with words; dots lead into objects."""
    name_claim: str = "sub"
    jwks_uri: str | None = None
    """Where its keys are; told by the issuer's configuration unless given."""
    ca_file: str | None = None
    """Who signs its certificates, where that is none of the authorities of the machine."""
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway_s: float = 30.0

    def __post_init__(self) -> None:
        for address in (self.issuer, self.jwks_uri):
            if address is not None and (urlsplit(address).scheme != "https" or not urlsplit(address).hostname):
                raise ValueError(f"'{address}' must be an address that begins with https://")
        if wrong := sorted(set(self.algorithms) - set(ALGORITHMS)):
            raise ValueError(f"'{wrong[0]}' is no algorithm that is taken: use some of {', '.join(ALGORITHMS)}")
        if not self.audience or not self.algorithms or not 0 <= self.leeway_s <= 300:
            raise ValueError("audience and algorithms may not be empty, and leeway_s is from 0 to 300")
        for words in self.roles.values():
            scopes_of(words)

    def allowed(self, claims: dict[str, Any]) -> tuple[Scope, ...]:
        """Give the scopes of a token with these claims."""
        found = _claim(claims, self.roles_claim)
        values = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
        scopes = {scope: None for value in values for scope in scopes_of(self.roles.get(str(value), []))}
        return tuple(scopes)

    def name(self, claims: dict[str, Any]) -> str | None:
        """Give the name of the bearer, with the issuer's host; None where the claim is no name."""
        found = _claim(claims, self.name_claim)
        if not isinstance(found, str) or not found or len(found) > 255 or not found.isprintable():
            return None
        return f"{found} at {urlsplit(self.issuer).hostname}"


def scopes_of(words: list[str]) -> list[Scope]:
    """Give the scopes that words name, which may be roles; raises `ValueError`."""
    return [read_scope(scope) for word in words for scope in ROLES.get(word, (word,))]


def read_issuers(data: bytes) -> dict[str, Issuer]:
    """Read the file, a list in JSON; raises `ValueError`."""
    issuers = msgspec.json.decode(data, type=list[Issuer])
    return {each.issuer: each for each in issuers}


class IssuersFile:
    """The issuers as the file has them now; one that is not understood lets nobody in, and the log says why."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._issuers: dict[str, Issuer] = {}

    def read(self) -> dict[str, Issuer]:
        try:
            state = os.stat(self._path)
        except OSError:
            self._issuers, self._seen = {}, None
            return self._issuers
        seen = (state.st_ino, state.st_size, state.st_mtime_ns)
        if seen != self._seen:
            self._seen, self._issuers = seen, {}
            try:
                with open(self._path, "rb", opener=plain_file) as file:
                    self._issuers = read_issuers(file.read())
            except (OSError, ValueError) as err:
                _log.error("nobody is let in by %s: %s", self._path, err)
        return self._issuers


def _claim(claims: dict[str, Any], name: str) -> Any:
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
