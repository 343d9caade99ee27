# SPDX-License-Identifier: BSD-2-Clause
"""The OpenAPI 3.1 document of `/3`, from the declarations of operations and lists. Pure."""

from typing import Any, Final

from ganeti.base.version import RELEASE
from ganeti.master.operation import REGISTRY, Operation
from ganeti.master.operations import load
from ganeti.rapi.v3 import queries
from ganeti.rapi.v3.bodies import body_schemas
from ganeti.rapi.v3.events import KINDS
from ganeti.rapi.v3.submission import path_word

_LEFT_OUT: Final = ("OP_PLAN",)
_JSON: Final = "application/json"
_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}


def document() -> dict[str, Any]:
    """Give the whole document. All operations are imported for it, which takes long the first time."""
    load()
    operations = [REGISTRY[op_id] for op_id in sorted(REGISTRY) if op_id not in _LEFT_OUT]
    schemas = body_schemas(operations)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Ganeti remote API", "version": RELEASE, "license": {"name": "BSD-2-Clause"}},
        "security": [{"basic": []}, {"token": []}],
        "paths": {**_fixed_paths(), **_list_paths(), **_operation_paths(operations, schemas)},
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {**schemas, **_OWN_SCHEMAS},
        },
    }


def _operation_paths(operations: list[type[Operation[Any]]], schemas: dict[str, Any]) -> dict[str, Any]:
    paths = {}
    for operation in operations:
        word = path_word(operation.op_id)
        summary = (operation.__doc__ or operation.op_id).strip().splitlines()[0].rstrip(".")
        needed = bool(schemas[operation.op_id]["required"])
        body = {"required": needed, "content": {_JSON: {"schema": {"$ref": f"#/components/schemas/{operation.op_id}"}}}}
        key = _header("Idempotency-Key", "the same request with the same key becomes one job only")
        plan = _argument("plan", "fingerprint of a plan: refused by the job if the cluster has changed since")
        submitted = {
            "200": _answer("the job, which has ended well", {"$ref": "#/components/schemas/Ended"}),
            "202": _answer("the job", {"$ref": "#/components/schemas/Submitted"}),
        }
        paths[f"/3/operations/{word}"] = {
            "post": _method(
                f"submit_{word}",
                summary,
                {**submitted, **_errors(409, 422, 501)},
                [key, plan, _WAIT],
                body,
                "operations",
            )
        }
        planned = {"200": _answer("the plan", {"$ref": "#/components/schemas/Plan"}), **_errors(409, 501, 504)}
        paths[f"/3/plan/{word}"] = {
            "post": _method(f"plan_{word}", f"What this would do: {summary}", planned, [_REASON], body, "plans")
        }
    return paths


def _list_paths() -> dict[str, Any]:
    paths = {}
    for plural in queries.FIELDS:
        singular = plural[:-1]
        fields = _argument("fields", "names with commas: /3/fields says which there are")
        chosen = _argument("filter", 'a filter of the query language in JSON, such as ["=", "name", "web1"]')
        rows = {"type": "array", "items": {"type": "object"}}
        paths[f"/3/{plural}"] = {
            "get": _method(f"list_{plural}", f"All {plural}", _given("objects", rows), [fields, chosen], None, "lists")
        }
        paths[f"/3/fields/{plural}"] = {
            "get": _method(f"fields_{plural}", f"Fields of {plural}", _given("fields", rows), [], None, "lists")
        }
        if plural in queries.SINGLE:
            one = _given("the object", {"type": "object"})
            name = _part("name", f"the {singular}")
            paths[f"/3/{plural}/{{name}}"] = {
                "get": _method(f"show_{singular}", f"One {singular}", one, [name, fields], None, "lists")
            }
    paths["/3/jobs/{name}"]["delete"] = _method(
        "cancel_job", "Cancel a job that does not run yet", {**_given("done", {"type": "object"}), **_errors(409)},
        [_part("name", "number of the job")], None, "jobs",
    )  # fmt: skip
    return paths


def _fixed_paths() -> dict[str, Any]:
    timeout = _argument("timeout_s", "how long to wait, at most 60", {"type": "number", "minimum": 0, "maximum": 60})
    kinds = _argument("kinds", f"of {', '.join(KINDS)}, with commas; all without it")
    position = _argument("position", "the id of the last event that was read, as Last-Event-ID")
    stream = {"200": {"description": "server-sent events", "content": {"text/event-stream": {}}}, **_errors()}
    page = {"200": {"description": "metrics", "content": {"text/plain": {}}}, **_errors()}
    anything = {"type": "object"}
    return {
        "/3": {"get": _method("index", "What there is", _given("paths", anything), [], None, "cluster", is_open=True)},
        "/3/openapi.json": {
            "get": _method("openapi", "This document", _given("it", anything), [], None, "cluster", is_open=True)
        },
        "/3/whoami": {"get": _method("whoami", "Who asks", _given("name and scopes", anything), [], None, "cluster")},
        "/3/cluster": {"get": _method("cluster", "The cluster", _given("its values", anything), [], None, "cluster")},
        "/3/jobs/{name}/wait": {
            "get": _method(
                "wait_for_job", "Wait for the end of a job", _given("status and results", anything),
                [_part("name", "number of the job"), timeout], None, "jobs",
            )
        },
        "/3/events": {"get": _method("events", "What happens", stream, [kinds, position], None, "events")},
        "/metrics": {"get": _method("metrics", "The cluster for Prometheus", page, [], None, "metrics")},
    }  # fmt: skip


def _method(
    name: str,
    summary: str,
    responses: dict[str, Any],
    parameters: list[dict[str, Any]],
    body: dict[str, Any] | None,
    tag: str,
    *,
    is_open: bool = False,
) -> dict[str, Any]:
    given: dict[str, Any] = {
        "operationId": name.replace("-", "_"),
        "summary": summary,
        "tags": [tag],
        "responses": responses,
    }
    if parameters:
        given["parameters"] = parameters
    if body is not None:
        given["requestBody"] = body
    return {**given, "security": []} if is_open else given


def _argument(name: str, text: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": schema or {"type": "string"}}


def _header(name: str, text: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"}
    return {"name": name, "in": "header", "description": text, "schema": schema}


def _part(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": text, "schema": {"type": "string"}}


def _given(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"200": _answer(text, schema), **_errors()}


def _answer(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {_JSON: {"schema": schema}}}


def _errors(*more: int) -> dict[str, Any]:
    problem = {"description": "what is wrong", "content": {"application/problem+json": {"schema": _PROBLEM}}}
    return {str(status): problem for status in sorted({400, 401, 403, 404, 405, 413, 415, 429, 502, 503, *more})}


_TEXT: Final = {"type": "string"}
_REASON: Final = _argument("reason", "why, for the job's reason trail")
_WAIT: Final = _argument(
    "wait_s",
    "how long to wait for the end of the job, at most 600: 200 with its results, or why it failed",
    {"type": "number", "minimum": 0, "maximum": 600},
)
_OWN_SCHEMAS: Final[dict[str, Any]] = {
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
    },
    "Submitted": {
        "type": "object",
        "required": ["job", "uri"],
        "properties": {"job": {"type": "integer"}, "uri": _TEXT},
    },
    "Ended": {
        "type": "object",
        "required": ["job", "uri", "results"],
        "properties": {"job": {"type": "integer"}, "uri": _TEXT, "results": {"type": "array"}},
    },
    "Plan": {
        "type": "object",
        "required": ["operation", "changes", "locks", "node_calls", "jobs", "notes", "complete", "fingerprint"],
        "properties": {
            "operation": _TEXT,
            "summary": _TEXT,
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "kind": _TEXT,
                        "name": _TEXT,
                        "action": {"enum": ["add", "change", "remove"]},
                        "fields": {"type": "object", "description": "each with its value before and after"},
                    },
                },
            },
            "locks": {"type": "array", "items": {"type": "array", "items": _TEXT}},
            "node_calls": {"type": "array", "items": {"type": "array", "items": _TEXT}},
            "jobs": {"type": "array", "items": {"type": "array", "items": _TEXT}},
            "notes": {"type": "array", "items": _TEXT},
            "complete": {"type": "boolean", "description": "false where what follows depends on answers of nodes"},
            "fingerprint": _TEXT,
            "job": {"type": "integer"},
        },
    },
}
