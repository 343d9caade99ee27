# SPDX-License-Identifier: BSD-2-Clause
"""The opcodes: a page for people, a JSON schema for programs."""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ganeti.master import operations
from ganeti.master.operation import REGISTRY, Operation
from ganeti.master.parameter import Declared, declared
from ganeti.master.schema import opcode_schemas

_HEAD = """\
# Opcodes

Generated from the declarations (`src/ganeti/master/operations/`) by `python -m ganeti.reference`; do not edit.
`opcodes.schema.json` beside this page says the same to programs. Parameters that every opcode has stand at the end.
"""


def pages() -> dict[str, str]:
    operations.load()
    ours = {op_id: REGISTRY[op_id] for op_id in sorted(REGISTRY) if REGISTRY[op_id].__module__.startswith("ganeti.")}
    schema = opcode_schemas(ours.values())
    known = schema["$defs"]
    sections = [line for op_id, operation in ours.items() for line in _section(operation, known[op_id]["properties"])]
    common = _table(declared(Operation).values(), next(iter(known.values()))["properties"])
    text = "\n".join([_HEAD, *sections, "## Parameters of every opcode\n", *common])
    return {
        "opcodes.md": text,
        "opcodes.schema.json": f"{json.dumps(schema, indent=1, ensure_ascii=False)}\n",
    }


def _section(operation: type[Operation[Any]], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {operation.op_id}\n"
    if operation.__doc__ and not operation.__doc__.startswith(f"{operation.__name__}("):
        yield f"{paragraph(operation.__doc__)}\n"
    for title, words in _facts(operation):
        yield f"- {title}: {words}"
    yield ""
    own = [parameter for name, parameter in declared(operation).items() if name not in declared(Operation)]
    if own:
        yield from _table(own, schemas)
    if operation.examples:
        example = {"OP_ID": operation.op_id, **operation.examples[0].parameters}
        yield f"Example: `{json.dumps(example, ensure_ascii=False)}`\n"


def _facts(operation: type[Operation[Any]]) -> Iterator[tuple[str, str]]:
    if operation.commands:
        yield "commands", ", ".join(f"`{command.line}`" for command in operation.commands)
    if operation.routes:
        yield "remote API", ", ".join(f"`{route}`" for route in operation.routes)
    if operation.hooks_path:
        yield "hooks", f"`{operation.hooks_path}`"
    yield "result", _result(operation)


def _result(operation: type[Operation[Any]]) -> str:
    made = inspect.get_annotations(operation.execute).get("return", Any)
    words = made if isinstance(made, str) else inspect.formatannotation(made)
    return f"`{re.sub(r'(?:[a-z_]+[.])+(?=[A-Z])', '', words)}`"


def _table(parameters: Iterable[Declared], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield "| parameter | type | default | meaning |"
    yield "|---|---|---|---|"
    for parameter in parameters:
        default = "" if parameter.required else f"`{json.dumps(parameter.default, default=str)}`"
        meaning = parameter.given.help
        if parameter.refusal is not None:
            meaning += f". Refused: {parameter.refusal.sentence.format(name=parameter.name)}"
        kind = type_words(schemas.get(parameter.name, {}))
        yield f"| `{parameter.name}` | {cell(kind)} | {cell(default)} | {cell(meaning)} |"
    yield ""


_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
_BOUNDS = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}"}


def type_words(schema: Mapping[str, Any]) -> str:
    """What a JSON schema admits, in words."""
    if "anyOf" in schema:
        return _one_of([type_words(each) for each in schema["anyOf"]])
    if "enum" in schema:
        return _one_of([f"`{value}`" for value in schema["enum"]])
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items") or {}]
        return f"list of {' and '.join(type_words(each) for each in items)}" if items != [{}] else "list"
    if kind == "object":
        values = type_words(schema.get("additionalProperties") or {})
        return "dictionary" if "or" in values or values == "anything" else f"dictionary of {values}"
    bounds = [form.format(schema[name]) for name, form in _BOUNDS.items() if name in schema]
    empty = ["not empty"] if schema.get("minLength") == 1 else []
    words = _KINDS.get(str(kind), "anything")
    return f"{words} ({', '.join([*bounds, *empty])})" if bounds or empty else words


def _one_of(words: Sequence[str]) -> str:
    """With null at the end: it says that nothing need be given."""
    return " or ".join(sorted(words, key=lambda word: word == "null"))


def paragraph(docstring: str) -> str:
    """The first paragraph of a docstring in one line, with emphasis as Markdown has it."""
    first = inspect.cleandoc(docstring).partition("\n\n")[0]
    return re.sub(r"``([^`]*)``", r"`\1`", " ".join(first.split()))


def cell(text: str) -> str:
    """A text that can stand in a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split())).replace("<", "&lt;")
