# SPDX-License-Identifier: BSD-2-Clause
"""Hypervisor parameters that a new cluster has, as specified."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ganeti.model.hypervisors import HYPERVISORS, PARAMETERS_OF_3_1
from ganeti.model.parameters import defaults
from ganeti.node.catalogue import build_catalogue

SPEC = Path(__file__).parents[2] / "docs/spec/opcodes.md"


def in_the_spec(hypervisor: str) -> dict[str, Any]:
    section = re.split(r"^### ", SPEC.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (table,) = [each for each in section if each.startswith(f"`{hypervisor}` (")]
    cells = [[cell.strip() for cell in line.split("|")[1:4]] for line in table.splitlines() if line.startswith("| `")]
    return {name.strip("`"): _value(kind, default) for name, kind, default in cells}


def _value(kind: str, default: str) -> Any:
    if kind == "bool":
        return {"true": True, "false": False}[default]
    if kind == "int":
        return int(default)
    return "" if default.startswith('""') else default.replace("<sysconfdir>", "/etc")


@pytest.mark.parametrize("hypervisor", sorted(PARAMETERS_OF_3_1))
def test_the_defaults_are_those_of_the_specification(hypervisor: str) -> None:
    assert PARAMETERS_OF_3_1[hypervisor] == in_the_spec(hypervisor)
    known = build_catalogue().hypervisors
    assert hypervisor not in known or defaults(known[hypervisor].parameters) == in_the_spec(hypervisor)


def test_each_hypervisor_has_a_driver_or_defaults() -> None:
    assert set(PARAMETERS_OF_3_1) | set(build_catalogue().hypervisors) >= set(HYPERVISORS)


def test_parameters_of_kvm_that_3_1_does_not_have_are_marked() -> None:
    parameters = build_catalogue().hypervisors["kvm"].parameters
    assert {each.name for each in parameters if each.not_in_3_1} == {each.name for each in parameters} - set(
        in_the_spec("kvm")
    )
