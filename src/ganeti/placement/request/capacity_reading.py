# SPDX-License-Identifier: BSD-2-Clause
"""The request ``capacity`` as it comes in an allocator's message (S1.65)."""

import math
from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import ParameterError
from ganeti.model.templates import TEMPLATES
from ganeti.placement.request import what_if
from ganeti.placement.request.capacity import PARAMETER_NAMES, Capacity, CapacityParameters, Shape
from ganeti.placement.request.fields import Fields
from ganeti.placement.request.terms import RequestError
from ganeti.placement.request.what_if import WhatIf

_WHOLE_DISK = 1.0
_LEAST = Shape(memory_mib=1, disk_mib=0, vcpus=1)
_LARGEST = 2**53
"""Of any amount: up to there every program that reads JSON has whole numbers."""


def read(fields: Fields) -> Capacity:
    """Read the request; raises `RequestError` for what is no group, size, template or ratio."""
    own = fields.get("group_parameters", dict, {})
    return Capacity(
        groups=fields.strings("node_groups", []),
        parameters=_read_parameters(fields.data, "the request"),
        own={uuid: _read_parameters(data, f"node group {uuid}") for uuid, data in own.items()},
        what_if=_read_what_if(fields),
    )


def _read_what_if(fields: Fields) -> WhatIf | None:
    try:
        return what_if.read(list(fields.strings("if_added", [])), list(fields.strings("if_lost", [])))
    except ParameterError as err:
        raise RequestError(err.message) from err


def _read_parameters(data: Any, where: str) -> CapacityParameters:
    if not isinstance(data, Mapping):
        raise RequestError(f"The capacity parameters of {where} are not an object with {', '.join(PARAMETER_NAMES)}")
    template = data.get("default_template")
    if template is not None and template not in tuple(TEMPLATES):
        raise RequestError(f"The default_template of {where} is {template!r}: name one of {', '.join(TEMPLATES)}")
    return CapacityParameters(
        max_inst_spec=_read_shape(data.get("max_inst_spec"), where),
        default_template=template,
        max_cpu_ratio=_read_ratio(data, "max_cpu_ratio", math.inf, where),
        max_disk_usage=_read_ratio(data, "max_disk_usage", _WHOLE_DISK, where),
    )


def _read_shape(given: Any, where: str) -> Shape | None:
    if given is None:
        return None
    whole = isinstance(given, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in given)
    if not whole or len(given) != len(Shape._fields):
        raise RequestError(
            f"The max_inst_spec of {where} is {given!r}: give memory and disk in MiB and the number of vcpus, as in"
            " [4096, 20480, 2]"
        )
    if not all(least <= amount <= _LARGEST for least, amount in zip(_LEAST, given, strict=True)):
        raise RequestError(
            f"The max_inst_spec of {where} is {given!r}: give at least 1 MiB of memory and 1 vcpu, and of nothing"
            f" more than {_LARGEST}"
        )
    return Shape(*given)


def _read_ratio(data: Mapping[str, Any], name: str, most: float, where: str) -> float | None:
    given = data.get(name)
    if given is None:
        return None
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 < given <= most or given == math.inf:
        bound = "" if most == math.inf else f", at most {most:g}"
        raise RequestError(f"The {name} of {where} is {given!r}: give a number above 0{bound}")
    return float(given)
