# SPDX-License-Identifier: BSD-2-Clause
"""The OpenAPI 3.1 document of `/3`, from the declarations of its routes and of operations. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ganeti.base.version import RELEASE
from ganeti.master.operation import REGISTRY, Operation
from ganeti.master.operations import load
from ganeti.rapi.v3 import cluster, events, jobs, metrics, operations, queries
from ganeti.rapi.v3.bodies import body_schemas
from ganeti.rapi.v3.rights import scopes_of
from ganeti.rapi.v3.route import ANYBODY_MAY, JSON, ROUTES, TEXT, Answer, Argument, Route
from ganeti.rapi.v3.submission import path_word

__all__ = ["ANSWERING", "ROUTES", "document"]
ANSWERING: Final = (cluster, events, jobs, metrics, operations, queries)
"""The modules whose handlers declare routes."""
_LEFT_OUT: Final = ("OP_PLAN",)
_ALWAYS: Final = (400, 401, 403, 404, 405, 413, 415, 429, 502, 503)
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {"type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT},
}


def document() -> dict[str, Any]:
    """Give the whole document. All operations are imported for it, which takes long the first time."""
    load()
    known = [REGISTRY[op_id] for op_id in sorted(REGISTRY) if op_id not in _LEFT_OUT]
    schemas = body_schemas(known)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        for path, described in _described(route, known, schemas):
            paths.setdefault(path, {})[route.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ganeti remote API", "version": RELEASE, "license": {"name": "BSD-2-Clause"}},
        "security": [{"basic": []}, {"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {**schemas, **operations.SCHEMAS, "Problem": _PROBLEM},
        },
    }


def _described(
    route: Route, known: Iterable[type[Operation[Any]]], schemas: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give paths with what is to be said of them: one, or one for each operation."""
    if not route.is_for_each_operation:
        path = route.path.replace("[", "{").replace("]", "}")
        scopes = [f"{route.access.kind}:{route.access.right}"] if route.access.kind else []
        yield path, _method(route, route.name, route.summary, scopes)
        return
    for operation in known:
        word = path_word(operation.op_id)
        summary = (operation.__doc__ or operation.op_id).strip().splitlines()[0].rstrip(".")
        name = f"{route.name}_{word}".replace("-", "_")
        scopes = scopes_of(operation)
        body = {"schema": {"$ref": f"#/components/schemas/{operation.op_id}"}}
        yield (
            route.path.replace("[operation]", word),
            {
                **_method(route, name, route.summary.format(summary), scopes),
                "requestBody": {
                    "required": bool(schemas[operation.op_id]["required"]),
                    "content": {JSON: body},
                },
            },
        )


def _method(route: Route, name: str, summary: str, scopes: list[str]) -> dict[str, Any]:
    parts = {} if route.is_for_each_operation else route.parts
    parameters = [
        *({**_parameter(Argument(part, text), "path"), "required": True} for part, text in parts.items()),
        *(_parameter(header, "header") for header in route.headers),
        *(_parameter(argument, "query") for argument in route.arguments),
    ]
    described: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "tags": [route.tag],
        "security": [] if route.access is ANYBODY_MAY else [{"basic": []}, {"token": scopes}],
        "responses": {str(status): _answer(answer) for status, answer in route.answers.items()} | _errors(route.errors),
    }
    return described | ({"parameters": parameters} if parameters else {})


def _parameter(argument: Argument, place: str) -> dict[str, Any]:
    return {"name": argument.name, "in": place, "description": argument.text, "schema": argument.schema}


def _answer(answer: Answer) -> dict[str, Any]:
    content = {} if answer.schema is None else {"schema": answer.schema}
    return {"description": answer.text, "content": {answer.content_type: content}}


def _errors(more: Iterable[int]) -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    told = {"description": "what is wrong", "content": {"application/problem+json": problem}}
    return {str(status): told for status in sorted({*_ALWAYS, *more})}
