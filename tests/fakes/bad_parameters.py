# SPDX-License-Identifier: BSD-2-Clause
"""What can be wrong with a parameter of an opcode, as its declaration says: for the walks of bad input.

A value missing, of another type, out of its bounds, not one of its choices, a text that its subject refuses, an object
that is not there. A new parameter is walked as soon as it is there.
"""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import inspect

from ganeti.master import operations
from ganeti.master.operation import REGISTRY, Operation
from ganeti.master.parameter import declared

operations.load()
OURS = {op_id: cls for op_id, cls in sorted(REGISTRY.items()) if cls.__module__.startswith("ganeti.")}
SAMPLES: dict[str, Any] = {"bool": True, "int": 7, "float": 2.5, "str": "x", "list": [], "dict": {}}
UNKNOWN = "nowhere"
REFUSED_TEXTS = {
    "instance": "n" * 256,
    "node": "n" * 256,
    "group": "n" * 256,
    "network": "n" * 256,
    "allocator": "../hail",
    "os": "../noop",
    "file name": "../x",
    "path": "/srv/../etc",
    "text": "a\0b",
    "IPv4 address": "192.0.2",
    "IPv4 network": "192.0.2.1/24",
    "IPv4 router": "192.0.2",
    "IPv6 network": "2001:db8::1/64",
    "IPv6 router": "192.0.2.1",
}
"""By subject; a line break, where nothing more is known."""
OTHERWISE = {
    "OP_INSTANCE_CHANGE_GROUP": {"instance_name": "one"},
    "OP_INSTANCE_CREATE": {"instance_name": "new"},
    "OP_INSTANCE_REPLACE_DISKS": {"instance_name": "one", "mode": "replace_new_secondary"},
    "OP_NODE_ADD": {"node_name": "new", "readd": False},
    "OP_NODE_EVACUATE": {"node_name": "node2"},
    "OP_GROUP_EVACUATE": {"group_name": "default"},
    "OP_TEST_ALLOCATOR": {"direction": "in", "mode": "relocate"},
}
"""What is not as in the examples: the instance and the node are there."""
LOOKED_UP = ("instance", "node", "group", "disk template", "hypervisor")
NOT_LOOKED_UP = {
    ("OP_INSTANCE_CREATE", "group_name"): "its node is named: the group is for an allocator to choose in",
    ("OP_NODE_ADD", "node_name"): "it is new",
    **{
        ("OP_TEST_ALLOCATOR", field.name): "it asks for it"
        for field in msgspec.structs.fields(REGISTRY["OP_TEST_ALLOCATOR"])
    },
}
"""Parameters whose objects need not be there, and why."""


def kinds_of(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def accepted(kind: inspect.Type) -> set[str]:
    """Names of the samples that a type may take."""
    match kind:
        case inspect.AnyType():
            return set(SAMPLES) | {"null"}
        case inspect.UnionType():
            return set().union(*map(accepted, kind.types))
        case inspect.FloatType():
            return {"int", "float"}
        case inspect.ListType() | inspect.TupleType() | inspect.VarTupleType():
            return {"list"}
        case inspect.DictType() | inspect.StructType():
            return {"dict"}
        case inspect.StrType() | inspect.LiteralType():
            return {"str"}
        case inspect.NoneType():
            return {"null"}
    return {type(kind).__name__.removesuffix("Type").lower()}


def wrong(kind: inspect.Type) -> Iterator[Any]:
    """Values that a type refuses: of other types, out of bounds, no choices, and the same of what it holds."""
    fitting = accepted(kind)
    yield from (value for name, value in SAMPLES.items() if name not in fitting)
    for each in kinds_of(kind):
        match each:
            case inspect.IntType() | inspect.FloatType():
                yield from beyond(each)
            case inspect.StrType(min_length=1):
                yield ""
            case inspect.LiteralType() if not any(isinstance(other, inspect.StrType) for other in kinds_of(kind)):
                yield UNKNOWN
            case inspect.ListType(item_type=item):
                yield from ([value] for value in wrong(item))
            case inspect.TupleType(item_types=items):
                yield [None] * (len(items) + 1)
            case inspect.DictType(value_type=item):
                yield from ({"key": value} for value in wrong(item))
            case inspect.StructType(fields=fields):
                yield {UNKNOWN: 1}
                yield from ({field.encode_name: value} for field in fields for value in wrong(field.type))


def beyond(kind: inspect.IntType | inspect.FloatType) -> Iterator[float]:
    for least in (kind.ge if kind.ge is None else kind.ge - 1, kind.gt):
        yield from () if least is None else (least,)
    for most in (kind.le if kind.le is None else kind.le + 1, kind.lt):
        yield from () if most is None else (most,)


def fields_of(operation: type[Operation[Any]]) -> tuple[inspect.Field, ...]:
    found = inspect.type_info(operation)
    assert isinstance(found, inspect.StructType)
    return found.fields


def good(op_id: str, renamed: Mapping[str, str] = MappingProxyType({"sharedfile": "common"})) -> dict[str, Any]:
    """Parameters that are fine on a cluster: those of an example, with its texts *renamed* to what is there."""
    examples = OURS[op_id].examples
    if not examples:
        required = {field.name: filler(field.type) for field in fields_of(OURS[op_id]) if field.required}
        return required | OTHERWISE.get(op_id, {})
    text = json.dumps(dict(examples[0].parameters) | OTHERWISE.get(op_id, {})).replace(".example.com", "")
    for old, new in renamed.items():
        text = text.replace(json.dumps(old), json.dumps(new))
    found: dict[str, Any] = json.loads(text)
    return found


def filler(kind: inspect.Type) -> Any:
    first = kinds_of(kind)[0]
    return first.values[0] if isinstance(first, inspect.LiteralType) else SAMPLES[min(accepted(first))]


FIELDS = [(op_id, field) for op_id, cls in OURS.items() for field in fields_of(cls)]
OWN = [(op_id, field) for op_id, field in FIELDS if field.name not in Operation.__struct_fields__]
MISSED = [
    (op_id, field)
    for op_id, field in OWN
    if declared(OURS[op_id])[field.name].given.subject in LOOKED_UP
    and declared(OURS[op_id])[field.name].refusal is None
    and (op_id, field.name) not in NOT_LOOKED_UP
]
"""Parameters that name an object which must be there."""


def missing_object(field: inspect.Field) -> Any:
    """A value of *field* that names an object which is not there."""
    return [UNKNOWN] if "list" in accepted(field.type) else UNKNOWN


def refused_text(op_id: str, field: inspect.Field) -> str:
    """A text that the subject of *field* refuses."""
    return REFUSED_TEXTS.get(declared(OURS[op_id])[field.name].given.subject, "a\nb")


def refused_at_once(op_id: str, fine: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Whatever the reader of opcodes refuses, by one thing that is not as in *fine*: its parameter, and all of them."""
    for field in fields_of(OURS[op_id]):
        if field.required:
            yield field.name, {name: value for name, value in fine.items() if name != field.name}
        for value in (*wrong(field.type), refused_text(op_id, field)):
            yield field.name, {**fine, field.name: value}
    yield UNKNOWN, {**fine, UNKNOWN: 1}
