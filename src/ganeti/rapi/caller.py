# SPDX-License-Identifier: BSD-2-Clause
"""A caller of the remote API, whatever has told who it is: a name, and the scopes that say what it may do."""

from dataclasses import dataclass
from typing import Final

from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.users import REALM
from ganeti.wire.api_tokens import Scope

LOGIN: Final = {"WWW-Authenticate": f'Basic realm="{REALM}"'}


@dataclass(frozen=True)
class Caller:
    name: str
    scopes: tuple[Scope, ...] = ()

    def may(self, kind: str, access: str) -> bool:
        """Whether this is allowed whatever the object's tags."""
        return any(scope.covers(kind, access) and not scope.tag for scope in self.scopes)

    def tags_for(self, kind: str, access: str) -> frozenset[str]:
        """The tags of which an object must have one, where `may` says no."""
        return frozenset(scope.tag for scope in self.scopes if scope.tag and scope.covers(kind, access))

    def has_right(self, access: str) -> bool:
        """Whether `/2` lets the caller do what needs *access*: read, write, or ``read or write``."""
        return any(self.may("*", each) for each in access.split(" or "))


ANYBODY: Final = Caller("")


def login_needed() -> RequestRefused:
    return RequestRefused(401, "Log in with a name and password of the users file, or a token", LOGIN)
