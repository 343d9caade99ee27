# SPDX-License-Identifier: BSD-2-Clause
"""The door of `/2`: who asks, what for, and the answer (rapi, sections 1 and 2)."""

import logging
import time
from collections.abc import Callable
from typing import Any

import ganeti.master.operations
from ganeti.base.errors import GanetiError
from ganeti.base.registry import import_all
from ganeti.master.operation import REGISTRY
from ganeti.rapi.answers import RequestRefused, answered, as_refusal, refused
from ganeti.rapi.asked import Asked, read_request
from ganeti.rapi.reading import RESOURCES, Luxi, Resource
from ganeti.rapi.routes import PathTable, Route, filled, routes
from ganeti.rapi.submission import job
from ganeti.rapi.users import REALM, UsersFile, credentials
from ganeti.system.http_server import HttpReply, HttpRequest

_log = logging.getLogger(__name__)
FAILURES_MAX = 10
FAILURES_S = 60.0
"""So many failed log-ins in this time from one address, and the next ones are not even tried."""
_ADDRESSES_MAX = 4096


class Api:
    """Answers requests; *needs_login* asks for credentials also where anybody may read."""

    def __init__(
        self,
        luxi: Luxi,
        users: UsersFile,
        *,
        needs_login: bool = False,
        clients_max: int = 4096,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients_max = clients_max
        self._busy = 0
        self._luxi = luxi
        self._users = users
        self._needs_login = needs_login
        self._failures = _Failures(now_s)
        self.table = path_table()

    async def answer(self, request: HttpRequest) -> HttpReply:
        if self._busy >= self._clients_max:
            return refused(RequestRefused(503, "Too many requests are being answered: try again", {"Retry-After": "1"}))
        self._busy += 1
        try:
            return await self._guarded(request)
        finally:
            self._busy -= 1

    async def _guarded(self, request: HttpRequest) -> HttpReply:
        try:
            return await answered(await self._answer(request))
        except RequestRefused as refusal:
            return refused(refusal)
        except GanetiError as err:
            return refused(as_refusal(err))
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            return refused(RequestRefused(500, "This request could not be answered: the log of the master says why"))

    async def _answer(self, request: HttpRequest) -> Any:
        methods = self.table.find(request.path)
        if methods is None:
            raise RequestRefused(404)
        if request.method not in methods:
            raise RequestRefused(501, f"{request.path} has no {request.method}: use {', '.join(sorted(methods))}")
        template, target = methods[request.method]
        self._admit(request, _access(target))
        asked = read_request(request, filled(template, request.path))
        if isinstance(target, Resource):
            return await target.reader(self._luxi, asked)
        return await self._submit(target, asked)

    async def _submit(self, route: Route, asked: Asked) -> Any:
        return await self._luxi.call("SubmitJob", job(route, asked, time.time_ns()), patience_s=0.0)

    def _admit(self, request: HttpRequest, access: str) -> None:
        """Raises `RequestRefused` for who may not do this."""
        if access == "open" or (access == "read" and not self._needs_login):
            return
        given = credentials(request.headers.get("Authorization", ""))
        login = {"WWW-Authenticate": f'Basic realm="{REALM}"'}
        if given is None:
            raise RequestRefused(401, "Log in with a name and password of the users file", login)
        if self._failures.too_many(request.peer):
            raise RequestRefused(503, "Too many failed log-ins from this address: wait a minute")
        user = self._users.find(*given)
        if user is None:
            self._failures.note(request.peer)
            raise RequestRefused(401, "Name or password is wrong", login)
        if not user.rights & set(access.split(" or ")):
            raise RequestRefused(403, f"The user {user.name} has not the right this needs: {access}")


class _Failures:
    """Failed log-ins of late, by address."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._times: dict[str, list[float]] = {}

    def note(self, address: str) -> None:
        if address not in self._times and len(self._times) >= _ADDRESSES_MAX:
            del self._times[next(iter(self._times))]
        self._times.setdefault(address, []).append(self._now_s())

    def too_many(self, address: str) -> bool:
        late = [when for when in self._times.pop(address, []) if when > self._now_s() - FAILURES_S]
        if late:
            self._times[address] = late
        return len(late) >= FAILURES_MAX


def path_table() -> PathTable:
    """Give every method of every path: what is read first, then what operations declare."""
    import_all(ganeti.master.operations)
    table = PathTable()
    for resource in RESOURCES:
        table.add(resource.method, resource.path, resource)
    for route in routes(REGISTRY[op_id] for op_id in sorted(REGISTRY)):
        table.add(route.method, route.path, route)
    return table


def _access(target: Resource | Route) -> str:
    if isinstance(target, Resource):
        return target.access
    return "read" if target.path.endswith("/info") else "write"
