# SPDX-License-Identifier: BSD-2-Clause
"""The JSON schema of opcodes, from their declarations: for the reference and for the remote API's description. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ganeti.master.operation import Operation
from ganeti.master.parameter import declared, refused


def opcode_schemas(operations: Iterable[type[Operation[Any]]]) -> dict[str, Any]:
    """Give a schema document: ``$defs`` has one object schema for each opcode, by its `OP_ID`, and what they share."""
    classes = list(operations)
    _, definitions = msgspec.json.schema_components(classes, ref_template="#/$defs/{name}")
    for operation in classes:
        definitions[operation.op_id] = _described(operation, definitions.pop(operation.__name__))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Opcodes",
        "$defs": dict(sorted(definitions.items())),
    }


def _described(operation: type[Operation[Any]], schema: dict[str, Any]) -> dict[str, Any]:
    """Add to the schema that follows from the types what is declared beside them."""
    refusals = refused(operation)
    for name, parameter in declared(operation).items():
        field = schema["properties"].get(name, {})
        if parameter.given.help:
            field["description"] = parameter.given.help
        if parameter.given.subject:
            field["x-subject"] = parameter.given.subject
        if name in refusals:
            field["x-refused"] = refusals[name]
    schema["properties"] = {"OP_ID": {"const": operation.op_id}, **schema["properties"]}
    schema["required"] = ["OP_ID", *schema["required"]]
    schema["title"] = operation.op_id
    return schema
