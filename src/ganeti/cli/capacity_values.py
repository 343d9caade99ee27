# SPDX-License-Identifier: BSD-2-Clause
"""In what capacity is to be counted (S1.66): read as opcodes have it, and shown in the words it is given in."""

from __future__ import annotations

from ganeti.cli.failures import UsageError
from ganeti.cli.values import RESET, read_float, read_int, read_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPEC = {"memory": read_size, "disk": read_size, "vcpus": read_int}
_LEAST = {"memory": 1, "vcpus": 1}
_LARGEST_AMOUNT = 2**53
_RATIOS = {"cpu_ratio": "max_cpu_ratio", "disk_usage": "max_disk_usage"}


def read_spec(option: str, given: dict[str, Any]) -> list[int]:
    """Give memory and disk in MiB, and virtual CPUs."""
    if set(given) != set(_SPEC):
        raise UsageError(f"{option} needs all of memory, disk and vcpus, such as memory=4g,disk=20g,vcpus=2")
    amounts = [read(option, str(given[name])) for name, read in _SPEC.items()]
    for name, amount in zip(_SPEC, amounts, strict=True):
        if not _LEAST.get(name, 0) <= amount <= _LARGEST_AMOUNT:
            raise UsageError(
                f"{option}: {name}={given[name]} cannot be counted in: give at least 1 MiB of memory and 1 vcpu,"
                f" and of nothing more than {_LARGEST_AMOUNT}"
            )
    return amounts


def read_parameters(option: str, given: dict[str, Any]) -> dict[str, Any]:
    """Give the parameters that are named; those that are said to be ``default`` are not, nor is any by that alone.

    All are replaced together, so a user who resets some of them and names no other has most likely not meant all.
    """
    known = [*_SPEC, "disk_template", *_RATIOS]
    if given == {RESET: True}:
        return {}
    for name in given:
        if name not in known:
            raise UsageError(f"{option}: there is no '{name}': there are {', '.join(known)}, or {RESET} alone")
    if given and all(value == RESET for value in given.values()):
        raise UsageError(
            f"{option}: all parameters are replaced together, and this keeps none: name those that are to stay as well,"
            f" or say {RESET} alone to take all away"
        )
    given = {name: value for name, value in given.items() if value != RESET}
    found: dict[str, Any] = {}
    if spec := {name: value for name, value in given.items() if name in _SPEC}:
        found["max_inst_spec"] = read_spec(option, spec)
    if "disk_template" in given:
        found["default_template"] = given["disk_template"]
    for name, parameter in _RATIOS.items():
        if name in given:
            found[parameter] = read_float(option, str(given[name]))
    return found


def shown(parameters: dict[str, Any]) -> dict[str, Any]:
    """What opcodes have, by the names that `read_parameters` knows."""
    named = dict(zip(_SPEC, parameters.get("max_inst_spec") or (), strict=False))
    if "default_template" in parameters:
        named["disk_template"] = parameters["default_template"]
    return named | {name: parameters[parameter] for name, parameter in _RATIOS.items() if parameter in parameters}
