# SPDX-License-Identifier: BSD-2-Clause
"""Whatever is wrong with a parameter of an opcode, the answer is one sentence that names it, and never a crash.

What can be wrong follows from the declarations (`tests.fakes.bad_parameters`).
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from tests.fakes.bad_parameters import (
    FIELDS,
    MISSED,
    OURS,
    OWN,
    UNKNOWN,
    fields_of,
    good,
    missing_object,
    refused_text,
    wrong,
)
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import add_instance, catalogue, configuration

from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.master.operation import Operation, decode
from ganeti.model.objects import NodeGroup


def refusal(op_id: str, parameters: dict[str, Any]) -> str:
    with pytest.raises(PrerequisiteError) as caught:
        decode({"OP_ID": op_id, **parameters})
    assert caught.value.code == WRONG_INPUT
    said = str(caught.value.message)
    assert said.isprintable() and "`" not in said and "Expected" not in said and "[..." not in said, said
    return said


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
            assert f"parameter '{field.name}" in said.lower(), (field.name, value, said)


@of_each_opcode(WALKED)
def test_a_text_that_its_subject_refuses_is_named(op_id, fields):
    for field in fields:
        said = refusal(op_id, good(op_id) | {field.name: refused_text(op_id, field)})
        assert said.startswith(f"Parameter '{field.name}' cannot be "), (field.name, said)


@pytest.mark.parametrize("op_id", OURS)
def test_an_unknown_parameter_is_named(op_id):
    assert f"there is no parameter '{UNKNOWN}'" in refusal(op_id, good(op_id) | {UNKNOWN: 1})


@named(MISSED)
def test_an_object_that_is_not_there_is_named(op_id, field):
    config = configuration()
    add_instance(config, "one", "uuid-node2")
    config.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    before = config.to_plain()
    with pytest.raises(PrerequisiteError) as caught:
        run(
            decode({"OP_ID": op_id, **good(op_id), field.name: missing_object(field)}), FakeContext(config, catalogue())
        )
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
