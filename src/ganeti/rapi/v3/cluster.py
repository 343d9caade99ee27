# SPDX-License-Identifier: BSD-2-Clause
"""`/3` itself, who asks, and the cluster's own values."""

from typing import Any

import msgspec

from ganeti.rapi.reading import ask
from ganeti.rapi.v3 import queries
from ganeti.rapi.v3.route import ANYBODY_MAY, WITH_LOGIN, Answer, Services, Turn, route, scope


@route("GET", "/3", "index", "What there is", access=ANYBODY_MAY, tag="cluster", answers={200: Answer("paths")})
async def _index(services: Services, turn: Turn) -> Any:
    return {"version": 3, "openapi": "/3/openapi.json", "lists": [f"/3/{plural}" for plural in queries.FIELDS]}


@route(
    *("GET", "/3/openapi.json", "openapi", "This document"),
    access=ANYBODY_MAY,
    tag="cluster",
    answers={200: Answer("it")},
)
async def _openapi(services: Services, turn: Turn) -> Any:
    return msgspec.Raw(services.document())


@route(
    *("GET", "/3/whoami", "whoami", "Who asks"),
    access=WITH_LOGIN,
    tag="cluster",
    answers={200: Answer("name and scopes")},
)
async def _whoami(services: Services, turn: Turn) -> Any:
    return {"name": turn.caller.name, "scopes": [str(scope) for scope in turn.caller.scopes]}


@route(
    *("GET", "/3/cluster", "cluster", "The cluster"),
    access=scope("cluster"),
    tag="cluster",
    answers={200: Answer("its values")},
)
async def _cluster(services: Services, turn: Turn) -> Any:
    return await ask(services.luxi, "QueryClusterInfo")
