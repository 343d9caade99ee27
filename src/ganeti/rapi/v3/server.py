# SPDX-License-Identifier: BSD-2-Clause
"""The door of `/3`: which request is whose, what may be asked, and who may ask it, as the routes declare."""

from typing import Any

import msgspec

from ganeti.rapi.answers import RequestRefused
from ganeti.rapi.caller import ANYBODY, login_needed
from ganeti.rapi.reading import Luxi
from ganeti.rapi.routes import PathTable
from ganeti.rapi.v3.document import ROUTES, document
from ganeti.rapi.v3.event_fan import EventFan
from ganeti.rapi.v3.group_capacity import GroupCapacity
from ganeti.rapi.v3.request_counts import RequestCounts
from ganeti.rapi.v3.rights import require
from ganeti.rapi.v3.route import ANYBODY_MAY, Route, Services, Turn
from ganeti.rapi.v3.submission import Submitter


class Resources:
    """What `/3` has; with *needs_login* nothing of it is open to anybody."""

    def __init__(self, luxi: Luxi, fan: EventFan | None, counts: RequestCounts, *, needs_login: bool = False) -> None:
        self._luxi = luxi
        self._needs_login = needs_login
        self._services = Services(luxi, fan, counts, Submitter(luxi), GroupCapacity(luxi), self._encoded_document)
        self._document: bytes | None = None
        self.table = PathTable()
        for each in ROUTES:
            self.table.add(each.method, each.path, each)

    async def answer(self, route: Route, turn: Turn) -> Any:
        """Carry out one request; raises `RequestRefused`, or what LuxiD answers."""
        if turn.caller is ANYBODY and (self._needs_login or route.access is not ANYBODY_MAY):
            raise login_needed()
        _refuse_arguments(route, turn)
        await self._require(route, turn)
        return await route.handler(self._services, turn)

    async def _require(self, route: Route, turn: Turn) -> None:
        """Raises `RequestRefused` for a caller without the scope that the route names."""
        kind, right = route.access.kind, route.access.right
        if not kind or (route.access.is_narrowed and turn.caller.tags_for(kind, right)):
            return
        parts = turn.request.parts
        await require(self._luxi, turn.caller, kind, right, [parts["name"]] if "name" in parts else [])

    def _encoded_document(self) -> bytes:
        if self._document is None:
            self._document = msgspec.json.encode(document())
        return self._document


def _refuse_arguments(route: Route, turn: Turn) -> None:
    known = [argument.name for argument in route.arguments]
    unknown = [name for name in turn.request.arguments if name not in known]
    if unknown and not route.takes_any_argument:
        there = f"there are {', '.join(known)}" if known else "there are none"
        raise RequestRefused(400, f"There is no argument '{unknown[0][:40]}' here: {there}")
    for name in known:
        if len(turn.request.arguments.get(name, ())) > 1:
            raise RequestRefused(400, f"The argument '{name}' is given twice: give it once, several words with commas")
