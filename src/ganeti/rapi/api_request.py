# SPDX-License-Identifier: BSD-2-Clause
"""A request of `/2` as its handlers read it: arguments after the question mark, and a body (rapi, section 1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from ganeti.rapi.answers import RequestRefused
from ganeti.system.http_server import HttpRequest

READS: Final = ("GET", "HEAD", "OPTIONS")
_OWN_PAGES: Final = ("same-origin", "none")


@dataclass(frozen=True)
class ApiRequest:
    parts: Mapping[str, str]
    """What the path says, by the names of its route."""
    arguments: Mapping[str, list[str]] = field(default_factory=dict)
    body: Any = None
    has_body: bool = False

    def word(self, name: str, default: str | None = None) -> str | None:
        """Give an argument that is told once; of several the first counts."""
        return self.arguments.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        """Give an argument that is 0 or 1."""
        return flag(name, self.word(name) or "0")

    def fields(self) -> list[str] | None:
        """Give the list after ``fields=``, which commas divide."""
        words = self.word("fields")
        return words.split(",") if words else None

    def object(self) -> dict[str, Any]:
        """Give the body, which must be a dictionary; without any, an empty one."""
        if not self.has_body:
            return {}
        if not isinstance(self.body, dict):
            raise RequestRefused(400, "The body must be a JSON object with the parameters by their names")
        return dict(self.body)


def read_request(request: HttpRequest, parts: Mapping[str, str]) -> ApiRequest:
    """Read arguments and body; raises `RequestRefused`."""
    arguments = parse_qs(request.query, keep_blank_values=True)
    if not request.body:
        return ApiRequest(parts, arguments)
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(415, "A body must come with the header 'Content-type: application/json'")
    try:
        return ApiRequest(parts, arguments, msgspec.json.decode(request.body), has_body=True)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise RequestRefused(400, f"The body is not JSON: {err}") from err


def refuse_other_sites(request: HttpRequest) -> None:
    """Raises `RequestRefused` for a change that a page of another site makes a browser ask for.

    A browser sends the password that was typed for this server with every request to it, whichever page makes it; and a
    form may send a POST without a body from anywhere. Programs send none of these headers, and no page can change them.
    """
    if request.method in READS:
        return
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if site is None and origin is not None:
        site = "none" if origin.partition("://")[2] == request.headers.get("Host") else "cross-site"
    if site is not None and site not in _OWN_PAGES:
        raise RequestRefused(
            403, "A page of another site may change nothing here: use a program, or a page of this server"
        )


def flag(name: str, word: str) -> bool:
    """Read a flag of the arguments, as 3.1 does: a number."""
    try:
        return int(word) != 0
    except ValueError:
        raise RequestRefused(400, f"The argument '{name}' must be 0 or 1, not '{word}'") from None
