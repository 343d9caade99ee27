# SPDX-License-Identifier: BSD-2-Clause
"""Names, defaults, nulls and bounds of parameters are those of docs/spec/opcodes.md: what 3.1 accepts is accepted."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from ganeti.master import operations
from ganeti.master.operation import REGISTRY, Operation

operations.load()
SPEC = Path(__file__).parents[2] / "docs" / "spec" / "opcodes.md"
IN_ADDITION = {"why", "capacity_params", "node_groups", "diagnose_data_collector_filename"}
"""Parameters that 3.1 has not, or not of every such opcode."""
IN_ADDITION_OF = {
    "OP_INSTANCE_MIGRATE": {"move_disks"},
    "OP_INSTANCE_MOVE": {"live"},
    "OP_INSTANCE_CHANGE_GROUP": {"nodes"},
    "OP_INSTANCE_REPLACE_DISKS": {"between_groups"},
    "OP_NODE_SET_PARAMS": {"group"},
    "OP_OS_DIAGNOSE": {"group_name"},
    "OP_COMPUTE_CAPACITY": {"if_added", "if_lost"},
    "OP_CLUSTER_RENEW_CRYPTO": {"cluster_certificate", "only_nodes"},
    "OP_CLUSTER_SET_PARAMS": {
        *("maint_round_delay", "maint_balance", "maint_balance_threshold", "maint_balance_dynamic"),
        *("maint_balance_disk_moves", "maint_repair_instances", "maint_nodes_at_once", "maint_keep_redundancy"),
        *("maint_load_threshold", "maint_cool_down"),
    },
}
"""Those of one opcode, where others have one of that name in 3.1."""
CONSTANTS = {"false": False, "true": True, "[]": [], "{}": {}}
TYPES = {"str": inspect.StrType, "bool": inspect.BoolType, "dict": inspect.DictType, "list": inspect.ListType}
NOT_GIVEN = "not given"
Row = tuple[str, str, str, str | None]


def rows() -> Iterator[Row]:
    """Opcode, parameter, type and default of each line of parameters of an opcode that we have."""
    for op_id, parameters in re.findall(r"^\*\*(OP_\w+)\*\*.*\n- Params: (.*)$", SPEC.read_text(), re.MULTILINE):
        if op_id in REGISTRY and not op_id.startswith("OP_TEST_"):
            for each in parameters.split("; "):
                if found := re.fullmatch(r"`(\w+)`: (.+?\??)(?: \(.*\))?(?: = (.+))?", each):
                    yield op_id, found[1], found[2], found[3]


def field_of(op_id: str, name: str) -> inspect.Field:
    operation = inspect.type_info(REGISTRY[op_id])
    assert isinstance(operation, inspect.StructType)
    return next(field for field in operation.fields if field.encode_name == name)


def default_of(field: inspect.Field) -> Any:
    if field.required:
        return NOT_GIVEN
    return field.default if field.default_factory is inspect.NODEFAULT else field.default_factory()


def read_default(text: str | None, *, nullable: bool) -> Any:
    if text is None:
        return None if nullable else NOT_GIVEN
    if text in CONSTANTS:
        return CONSTANTS[text]
    return text.strip('"') if text.startswith('"') else float(text)


@pytest.mark.parametrize("op_id", sorted({op_id for op_id, *_ in rows()}))
def test_parameters_are_as_in_the_spec(op_id):
    for _, name, kind, default in (row for row in rows() if row[0] == op_id):
        check_parameter(op_id, name, kind, default)


def check_parameter(op_id: str, name: str, kind: str, default: str | None) -> None:
    field = field_of(op_id, name)
    types = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    nullable = kind.endswith("?")
    assert nullable == any(isinstance(each, inspect.NoneType) for each in types)
    assert default_of(field) == read_default(default, nullable=nullable)
    word = re.match(r"[a-z]+", kind)
    if word and word[0] in TYPES and not kind.startswith("list[(") and "→" not in kind:
        assert isinstance(types[0], TYPES[word[0]])
    if isinstance(types[0], inspect.StrType) and kind.rstrip("?") in ("str", "str+"):
        assert bool(types[0].min_length) == kind.startswith("str+")
    if isinstance(types[0], inspect.IntType) and "≥0" in kind:
        assert types[0].ge == 0


@pytest.mark.parametrize("op_id", sorted({op_id for op_id, *_ in rows()}))
def test_an_opcode_has_the_parameters_of_the_spec(op_id):
    wanted = {name for each, name, *_ in rows() if each == op_id} - IN_ADDITION
    own = set(REGISTRY[op_id].__struct_encode_fields__) - set(Operation.__struct_fields__)
    assert own - IN_ADDITION - IN_ADDITION_OF.get(op_id, set()) == wanted
