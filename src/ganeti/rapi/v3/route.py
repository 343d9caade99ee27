# SPDX-License-Identifier: BSD-2-Clause
"""What a request of `/3` is, said once where it is answered: `@route(…)` stands on its handler (docs/design/0203).

The table of paths, who may send what, the OpenAPI document and `docs/reference/api.md` follow from these declarations.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ganeti.rapi.api_request import ApiRequest
from ganeti.rapi.caller import Caller
from ganeti.rapi.reading import Luxi
from ganeti.rapi.v3.event_fan import EventFan
from ganeti.rapi.v3.group_capacity import GroupCapacity
from ganeti.rapi.v3.request_counts import RequestCounts
from ganeti.rapi.v3.submission import Submitter
from ganeti.wire.traceparent import Place

Schema = Mapping[str, Any]
TEXT: Final[Schema] = {"type": "string"}
OBJECT: Final[Schema] = {"type": "object"}
JSON: Final = "application/json"


@dataclass(frozen=True)
class Services:
    """What handlers ask."""

    luxi: Luxi
    fan: EventFan | None
    counts: RequestCounts
    submitter: Submitter
    capacity: GroupCapacity
    document: Callable[[], bytes]
    """Gives the OpenAPI document."""


@dataclass
class Turn:
    """One request as its handler gets it; the handler leaves in *told* what the audit log is to say."""

    caller: Caller
    request: ApiRequest
    key: str | None = None
    """Its Idempotency-Key."""
    last_event: str | None = None
    place: Place | None = None
    """Where the request stands in a trace."""
    is_allowed: Callable[[], bool] = lambda: True
    """Whether the caller would still be let in: for answers that last."""
    told: dict[str, Any] = field(default_factory=dict)


Handler = Callable[[Services, Turn], Awaitable[Any]]


@dataclass(frozen=True)
class Access:
    """Who may send a request; the server asks before the handler is called."""

    words: str
    """As the documentation says it."""
    kind: str = ""
    """The kind of objects that a scope of the caller must be for."""
    right: str = "read"
    is_narrowed: bool = False
    """Whether callers with tags alone may send it, too: the handler gives them only objects with these tags."""


ANYBODY_MAY: Final = Access("anybody")
WITH_LOGIN: Final = Access("any log-in")
OF_OPERATION: Final = Access("that of the operation")
"""The handler asks, for it reads the operation first."""


def scope(kind: str, right: str = "read", *, is_narrowed: bool = False) -> Access:
    return Access(f"`{kind}:{right}`", kind, right, is_narrowed)


@dataclass(frozen=True)
class Argument:
    """One of the query, or a header."""

    name: str
    text: str
    schema: Schema = field(default_factory=lambda: TEXT)


@dataclass(frozen=True)
class Answer:
    text: str
    schema: Schema | None = field(default_factory=lambda: OBJECT)
    """None for what is no JSON."""
    content_type: str = JSON


@dataclass(frozen=True)
class Route:
    """One method of one path, whose parts in brackets vary."""

    method: str
    path: str
    name: str
    """For programs that are generated from the document."""
    summary: str
    access: Access
    answers: Mapping[int, Answer]
    handler: Handler
    tag: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """What each part in brackets is."""
    arguments: tuple[Argument, ...] = ()
    headers: tuple[Argument, ...] = ()
    errors: tuple[int, ...] = ()
    """Those that not every request can end with."""
    takes_any_argument: bool = False
    is_for_each_operation: bool = False
    """The document has a path for each operation in place of ``[operation]``; *summary* has a place for its own."""


ROUTES: Final[list[Route]] = []
"""All, once the modules that answer them are imported (`v3.document` does)."""


def route(method: str, path: str, name: str, summary: str, **more: Any) -> Callable[[Handler], Handler]:
    """Declare the request that a handler answers; *more* are the fields of `Route`."""

    def declare(handler: Handler) -> Handler:
        declared = Route(method, path, name, summary, handler=handler, **more)
        if any((each.method, each.path) == (method, path) for each in ROUTES):
            raise ValueError(f"{method} {path} is declared twice")
        ROUTES.append(declared)
        return handler

    return declare
