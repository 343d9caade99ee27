# SPDX-License-Identifier: BSD-2-Clause
"""Whatever is wrong with a parameter of an opcode, the answer is one sentence that names it, and never a crash.

What can be wrong follows from the declarations: a value missing, of another type, out of its bounds, not one of its
choices, a text that its subject refuses, an object that is not there. A new parameter is walked as soon as it is there.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master import operations
from ganeti.master.operation import REGISTRY, Operation, decode
from ganeti.master.parameter import declared
from ganeti.model.objects import NodeGroup

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


def good(op_id: str) -> dict[str, Any]:
    """Parameters that are fine on the cluster of `context`: those of an example."""
    examples = OURS[op_id].examples
    if not examples:
        required = {field.name: filler(field.type) for field in fields_of(OURS[op_id]) if field.required}
        return required | OTHERWISE.get(op_id, {})
    text = json.dumps(dict(examples[0].parameters)).replace(".example.com", "").replace("sharedfile", "common")
    found: dict[str, Any] = json.loads(text)
    return found | OTHERWISE.get(op_id, {})


def filler(kind: inspect.Type) -> Any:
    first = kinds_of(kind)[0]
    return first.values[0] if isinstance(first, inspect.LiteralType) else SAMPLES[min(accepted(first))]


def refusal(op_id: str, parameters: dict[str, Any]) -> str:
    with pytest.raises(PrerequisiteError) as caught:
        decode({"OP_ID": op_id, **parameters})
    assert caught.value.code == WRONG_INPUT
    said = str(caught.value.message)
    assert said.isprintable() and "`" not in said and "Expected" not in said and "[..." not in said, said
    return said


FIELDS = [(op_id, field) for op_id, cls in OURS.items() for field in fields_of(cls)]
OWN = [(op_id, field) for op_id, field in FIELDS if field.name not in Operation.__struct_fields__]
COMMON = [(FIELDS[0][0], field) for field in fields_of(Operation)]
WALKED = OWN + COMMON


def of_each_opcode(cases: Iterable[tuple[str, inspect.Field]]) -> Any:
    """Parametrises by opcode, with the list of its parameters: each test costs more than each look at a parameter."""
    by_opcode: dict[str, list[inspect.Field]] = {}
    for op_id, field in cases:
        by_opcode.setdefault(op_id, []).append(field)
    return pytest.mark.parametrize(("op_id", "fields"), by_opcode.items(), ids=list(by_opcode))


def named(cases: Iterable[tuple[str, inspect.Field]]) -> Any:
    """Parametrises by opcode and parameter."""
    return pytest.mark.parametrize(
        ("op_id", "field"), [pytest.param(op_id, field, id=f"{op_id}-{field.name}") for op_id, field in cases]
    )


@pytest.mark.parametrize("op_id", OURS)
def test_what_is_shown_as_an_example_is_accepted(op_id):
    for example in OURS[op_id].examples:
        decode({"OP_ID": op_id, **example.parameters})
    decode({"OP_ID": op_id, **good(op_id)})


@of_each_opcode((op_id, field) for op_id, field in OWN if field.required)
def test_a_missing_parameter_is_named(op_id, fields):
    for field in fields:
        parameters = {name: value for name, value in good(op_id).items() if name != field.name}
        assert f"the parameter '{field.name}' is missing" in refusal(op_id, parameters)


@of_each_opcode(WALKED)
def test_a_value_of_another_type_or_out_of_its_bounds_is_named(op_id, fields):
    fine = good(op_id)
    for field in fields:
        for value in wrong(field.type):
            said = refusal(op_id, fine | {field.name: value})
            assert f"parameter '{field.name}" in said, (field.name, value, said)


@of_each_opcode(WALKED)
def test_a_text_that_its_subject_refuses_is_named(op_id, fields):
    for field in fields:
        subject = declared(OURS[op_id])[field.name].given.subject
        said = refusal(op_id, good(op_id) | {field.name: REFUSED_TEXTS.get(subject, "a\nb")})
        assert said.startswith(f"Parameter '{field.name}' cannot be "), (field.name, said)


@pytest.mark.parametrize("op_id", OURS)
def test_an_unknown_parameter_is_named(op_id):
    assert f"there is no parameter '{UNKNOWN}'" in refusal(op_id, good(op_id) | {UNKNOWN: 1})


@named(
    (op_id, field)
    for op_id, field in OWN
    if declared(OURS[op_id])[field.name].given.subject in LOOKED_UP
    and declared(OURS[op_id])[field.name].refusal is None
    and (op_id, field.name) not in NOT_LOOKED_UP
)
def test_an_object_that_is_not_there_is_named(op_id, field):
    value = [UNKNOWN] if "list" in accepted(field.type) else UNKNOWN
    config = configuration()
    add_instance(config, "one", "uuid-node2")
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    before = config.to_plain()
    with pytest.raises(PrerequisiteError) as caught:
        run(decode({"OP_ID": op_id, **good(op_id), field.name: value}), FakeContext(config, catalogue()))
    said = str(caught.value.message)
    assert UNKNOWN in said and said.isprintable(), said
    assert config.to_plain() == before


def test_the_walk_knows_its_types():
    """A type that the walk does not know would be passed over in silence."""

    class Sample(msgspec.Struct):
        amount: int | None
        names: list[str]

    found = inspect.type_info(Sample)
    assert isinstance(found, inspect.StructType)
    amount, names = (list(wrong(field.type)) for field in found.fields)
    assert amount == [True, 2.5, "x", [], {}]
    assert names[:5] == [True, 7, 2.5, "x", {}] and [7] in names
