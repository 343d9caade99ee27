# SPDX-License-Identifier: BSD-2-Clause
"""The JSON schemas of operations' bodies in `/3`: types as declared, and what texts may hold. Pure."""

import json
from typing import Any, Final

from ganeti.master.operation import Operation
from ganeti.master.parameter import declared, local
from ganeti.master.queue.submission import SUBMITTABLE_PRIORITIES
from ganeti.master.schema import opcode_schemas

_LINE: Final = {"pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$"}
_OF_SUBJECT: Final[dict[str, dict[str, Any]]] = {
    "text": {"pattern": "^[^\\u0000]*$"},
    "file name": {"pattern": "^([A-Za-z0-9_][A-Za-z0-9_.+-]*)?$", "maxLength": 255},
    "allocator": {"pattern": "^[^/\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$", "maxLength": 255},
    "os": {"pattern": "^([A-Za-z0-9_][A-Za-z0-9_.-]*(\\+[A-Za-z0-9_.-]*)*)?$", "maxLength": 255},
}
"""What `base.names` asks of a text by its subject, as far as a schema can say it; of the others, one line."""


def body_schemas(operations: list[type[Operation[Any]]]) -> dict[str, Any]:
    """Give the component schemas: one for each operation by its `OP_ID`, and what they share."""
    schemas = json.loads(json.dumps(opcode_schemas(operations)["$defs"]).replace("#/$defs/", "#/components/schemas/"))
    by_id = {operation.op_id: operation for operation in operations}
    return {name: _body(each, by_id[name]) if name in by_id else _lined(each, "") for name, each in schemas.items()}


def _body(schema: dict[str, Any], operation: type[Operation[Any]]) -> dict[str, Any]:
    """The parameters of an operation as a request gives them: the path names it, and a reason is text."""
    known, left_out = declared(operation), {"OP_ID", *local(operation)}
    properties = {
        name: _lined(value, known[name].given.subject if name in known else "")
        for name, value in schema["properties"].items()
        if name not in left_out
    }
    properties["reason"] = {"type": ["string", "null"], "description": "why, for the job's reason trail"}
    properties["priority"] = {**properties["priority"], "enum": list(SUBMITTABLE_PRIORITIES)}
    required = [name for name in schema["required"] if name != "OP_ID"]
    properties = {name: value if name in required else _or_null(value) for name, value in properties.items()}
    return {**schema, "properties": properties, "required": required, "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Null for a parameter that has a default means that it is not given."""
    if {"type": "null"} in schema.get("anyOf", ()) or "null" in schema.get("type", ()):
        return schema
    outside: dict[str, Any] = {
        key: schema[key] for key in ("default", "description", "x-subject", "x-refused") if key in schema
    }
    inside = {key: value for key, value in schema.items() if key not in outside}
    return {"anyOf": [inside, {"type": "null"}], **outside} if inside else schema


def _lined(schema: Any, subject: str) -> Any:
    """Say of every text in a schema what it may hold: keys of maps too."""
    if isinstance(schema, list):
        return [_lined(each, subject) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _within(key, value, subject) for key, value in schema.items()}
    if found.get("type") == "string" and "enum" not in found:
        found = {**_OF_SUBJECT.get(subject, _LINE), **found}
    if found.get("type") == "object" and "properties" not in found:
        found.setdefault("propertyNames", _OF_SUBJECT.get(subject, _LINE))
    return found


def _within(key: str, value: Any, subject: str) -> Any:
    if key == "properties":
        return {name: _lined(each, subject) for name, each in value.items()}
    return _lined(value, subject) if key in ("anyOf", "items", "prefixItems", "additionalProperties") else value
