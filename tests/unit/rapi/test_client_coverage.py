# SPDX-License-Identifier: BSD-2-Clause
"""The clients of `client/` have a method for every method of every path of `/2` and `/3`, and ask for no other."""

from __future__ import annotations

import asyncio
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

import ganeti.master.operations
from ganeti.base.registry import import_all
from ganeti.rapi.routes import PathTable
from ganeti.rapi.server import Api
from ganeti.rapi.v3.queries import FIELDS, SINGLE
from ganeti.rapi.v3.submission import path_word

sys.path.insert(0, str(Path(__file__).parents[3] / "client/src"))
from ganeti_client import AsyncClient, Client
from ganeti_client.familiar import GanetiRapiClient
from ganeti_client.messages import Request, events_request
from ganeti_client.operations import Operations

import_all(ganeti.master.operations)
NOT_FOR_PROGRAMS = {("GET", "/"), ("GET", "/2"), ("GET", "/2/query/[resource]")}
"""The first two answer with null; PUT of the last says the same, with a filter."""
LISTED = [{"id": 1, "uuid": "x1", "name": "x1", "status": "success", "ended": True, "results": [], "job": 1}]


@pytest.fixture
def api() -> Api:
    return Api(None, None)  # type: ignore[arg-type]  # its tables alone


def called(table: PathTable, requests: list[Request]) -> set[tuple[str, str]]:
    """The method and the route of each request; all must be there."""
    found = set()
    for request in requests:
        methods = table.find(request.path)
        assert methods is not None and request.method in methods, (request.method, request.path)
        found.add((request.method, methods[request.method][0]))
    return found


class Answer(dict[str, Any]):
    """Looks like whatever a method makes of an answer."""

    def __init__(self) -> None:
        super().__init__(LISTED[0])

    def __int__(self) -> int:
        return 1

    def __iter__(self) -> Any:
        return iter(LISTED)


def arguments(method: Any) -> dict[str, Any]:
    """Something for each parameter without a default."""
    parameters = inspect.signature(method).parameters.values()
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    return {
        each.name: 1 if "job" in each.name else ["x1"] if "list" in str(each.annotation) else "x1" for each in needed
    }


def test_the_familiar_client_has_all_of_the_second_version(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client, requests = GanetiRapiClient("localhost"), []

    def record(request: Request) -> Any:
        requests.append(request)
        return Answer()

    monkeypatch.setattr(client._client, "request", record)
    for name, method in inspect.getmembers(client, inspect.ismethod):
        if name[0].isupper():
            method(**arguments(method))
    assert called(api.table, requests) == set(api.table.all()) - NOT_FOR_PROGRAMS


ASKS = {
    "query": [[each] for each in FIELDS],
    "show": [[each, "x1"] for each in SINGLE],
    "fields": [[each] for each in FIELDS],
    "wait": [[1]],
    "cancel": [[1]],
    **{name: [[]] for name in ("cluster", "whoami", "index", "description", "metrics")},
}
"""The methods of both clients, with arguments."""


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_the_clients_have_all_of_the_third_version(api: Api, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client, requests = kind("localhost"), [events_request(None, None)]

    def record(request: Request) -> Any:
        requests.append(request)
        return Answer()

    async def record_later(request: Request) -> Any:
        return record(request)

    monkeypatch.setattr(client, "request", record if kind is Client else record_later)
    calls = [getattr(client, name)(*each) for name, several in ASKS.items() for each in several]
    calls += [each.instance_remove(instance_name="x1") for each in (client.operations, client.plans)]
    for call in calls if kind is AsyncClient else []:
        asyncio.run(call)
    assert called(api.third.table, requests) == set(api.third.table.all())


def test_there_is_a_method_for_each_operation() -> None:
    from ganeti.master.operation import REGISTRY

    names = {name for name, _ in inspect.getmembers(Operations, inspect.isfunction) if not name.startswith("_")}
    ours = {op_id for op_id, operation in REGISTRY.items() if operation.__module__.startswith("ganeti.")} - {"OP_PLAN"}
    assert names == {path_word(op_id).replace("-", "_") for op_id in ours}
