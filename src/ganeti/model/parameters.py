# SPDX-License-Identifier: BSD-2-Clause
"""Parameters with a type, a default and a check: hypervisor, backend, node, NIC and disk parameters.

A hypervisor or a disk template declares its own list (in its own file); the four lists that belong to the
model itself are at the end (opcodes, sections 4 to 7), and what is recorded of the state of nodes.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ganeti.base import names
from ganeti.base.errors import TypeEnforcementError, UnitParseError
from ganeti.base.units import parse_size_mib

DEFAULT_MARK = "default"
"""What a user writes to take a parameter back to the inherited value."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: *kind* is ``string``, ``maybe-string``, ``bool``, ``int``, ``float`` or ``size`` (MiB)."""

    name: str
    kind: str
    default: Any
    help: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    required: bool = False
    is_file: bool = False
    """Names a file that must exist on the node (checked there, when set)."""
    is_directory: bool = False
    check: Callable[[Any], str | None] | None = None
    """Further check; gives what is wrong, or None."""
    cluster_only: bool = False
    """Cannot be set for a single instance."""
    hides_sockets: bool = False
    """A guest that has it cannot reach a socket of the node once more while it runs."""
    unused: str = ""
    """Why nothing acts on it yet: then only the default is accepted."""
    remote: bool = True
    """Can be given over the remote API; programs that nodes run are for root on the master alone."""
    not_in_3_1: bool = False
    """Ganeti refuses an export or a configuration that names it."""

    def accept(self, value: Any) -> Any:
        """Give *value* in this parameter's type; raises `TypeEnforcementError` saying what would be right."""
        value = self._typed(value)
        if self.required and value in ("", None):
            raise TypeEnforcementError(f"Parameter '{self.name}' must not be empty: {self.help}")
        if self.choices and value not in self.choices and not (value == "" and "" in self.choices):
            allowed = ", ".join(choice or "(empty)" for choice in self.choices)
            raise TypeEnforcementError(f"Parameter '{self.name}' cannot be '{value}': it must be one of {allowed}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                limit = f"the least is {self.minimum:.15g}"
                raise TypeEnforcementError(f"Parameter '{self.name}' cannot be {value}: {limit}")
            if self.maximum is not None and value > self.maximum:
                limit = f"the most is {self.maximum:.15g}"
                raise TypeEnforcementError(f"Parameter '{self.name}' cannot be {value}: {limit}")
        if self.check is not None and value not in ("", None) and (problem := self.check(value)) is not None:
            raise TypeEnforcementError(f"Parameter '{self.name}' cannot be '{value}': {problem}")
        if self.unused and value != self.default:
            raise TypeEnforcementError(f"Parameter '{self.name}' cannot be '{value}' yet: {self.unused}; leave it out")
        rule = names.absolute_path_fault if self.is_file or self.is_directory else names.line_fault
        if isinstance(value, str) and value and (fault := rule(value)) is not None:
            raise TypeEnforcementError(f"Parameter '{self.name}' cannot be '{names.shown(value)}': {fault}")
        return value

    def _typed(self, value: Any) -> Any:
        reader = _READERS.get(self.kind)
        if reader is None:
            raise TypeEnforcementError(f"Parameter '{self.name}' has an unknown kind '{self.kind}'")
        try:
            return reader(value)
        except (ValueError, TypeError, OverflowError, UnitParseError) as err:
            wanted = _WORDS[self.kind]
            raise TypeEnforcementError(f"Parameter '{self.name}' cannot be '{value}': it must be {wanted}") from err


def _read_string(value: Any) -> str:
    if value is None or value is False:
        return ""
    if isinstance(value, bool | dict | list):
        raise ValueError
    return str(value)


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "yes", "1"):
        return True
    if text in ("false", "no", "0", ""):
        return False
    raise ValueError


def _read_int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    return int(value)


def _read_float(value: Any) -> float:
    """Neither infinity nor what is no number: the configuration, which is JSON, would hold null."""
    if isinstance(value, bool) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": _read_string,
    "maybe-string": lambda value: None if value is None else _read_string(value),
    "bool": _read_bool,
    "int": _read_int,
    "float": _read_float,
    "size": parse_size_mib,
}
_WORDS = {
    "string": "text",
    "maybe-string": "text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "size": "a size such as 512m or 2G",
}


def accept_all(
    parameters: Iterable[Parameter], values: Mapping[str, Any], what: str, *, for_instance: bool = False
) -> dict[str, Any]:
    """Check and type a dict of values; ``default`` values stay (see `apply_changes`).

    Raises `TypeEnforcementError` for unknown names, wrong types, and, with *for_instance*, for parameters
    that only the cluster has.
    """
    known = {parameter.name: parameter for parameter in parameters}
    result: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            raise TypeEnforcementError(
                f"Unknown {what} parameter '{name}': there are {', '.join(sorted(known)) or 'none'}"
            )
        if for_instance and known[name].cluster_only:
            raise TypeEnforcementError(f"{what.capitalize()} parameter '{name}' can only be set for the whole cluster")
        result[name] = value if value == DEFAULT_MARK else known[name].accept(value)
    return result


def apply_changes(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Give *old* with *changes*; a value of ``default`` takes the key away."""
    result = dict(old)
    for name, value in changes.items():
        if value == DEFAULT_MARK:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def defaults(parameters: Iterable[Parameter]) -> dict[str, Any]:
    return {parameter.name: parameter.default for parameter in parameters}


def _check_vlan(value: Any) -> str | None:
    ok = re.fullmatch(r"\.?[0-9]+(:[0-9]+)*|:[0-9]+(:[0-9]+)*|\.[0-9]+(:[0-9]+)+", str(value))
    return None if ok else "write .N, .N:M or :N:M"


_MOST = 2**31 - 1
"""Bound of sizes and counts that have no other, so that sums of them are exact everywhere."""

_NO_SWITCH = "switches are not set up on nodes here, but used as they are found"

BACKEND_PARAMETERS = (
    Parameter("maxmem", "size", 128, "memory when there is no pressure (MiB)", minimum=1, maximum=_MOST),
    Parameter("minmem", "size", 128, "memory guaranteed (MiB)", minimum=1, maximum=_MOST),
    Parameter("vcpus", "int", 1, "virtual processors", minimum=1, maximum=_MOST),
    Parameter("auto_balance", "bool", True, "counted in N+1 and moved by balancing"),
    Parameter("always_failover", "bool", False, "fail over instead of migrating"),
    Parameter("spindle_use", "int", 1, "spindles used", minimum=0, maximum=_MOST),
)

NODE_PARAMETERS = (
    Parameter("oob_program", "string", "", "out-of-band program", is_file=True, remote=False),
    Parameter("spindle_count", "int", 1, "spindles of the node", minimum=0, maximum=_MOST),
    Parameter("exclusive_storage", "bool", False, "physical volumes are used by one instance each"),
    Parameter("ovs", "bool", False, "use Open vSwitch", unused=_NO_SWITCH),
    Parameter("ovs_name", "maybe-string", "switch1", "name of the switch", unused=_NO_SWITCH),
    Parameter("ovs_link", "maybe-string", "", "device linked to the switch", unused=_NO_SWITCH),
    Parameter("ssh_port", "int", 22, "port of sshd", minimum=1, maximum=65535),
    Parameter("cpu_speed", "float", 1.0, "relative speed of a processor", minimum=0.01),
)

NIC_PARAMETERS = (
    Parameter("mode", "string", "bridged", "how the NIC is attached", choices=("bridged", "routed", "openvswitch")),
    Parameter("link", "string", "xen-br0", "bridge, routing table or switch"),
    Parameter("vlan", "string", "", "VLAN of the port", check=_check_vlan),
)


def backend_input(values: Mapping[str, Any]) -> dict[str, Any]:
    """Type backend parameters as a user gives them: ``memory`` sets both bounds (opcodes, section 5)."""
    expanded = dict(values)
    if "memory" in expanded:
        memory = expanded.pop("memory")
        expanded.setdefault("maxmem", memory)
        expanded.setdefault("minmem", memory)
    return accept_all(BACKEND_PARAMETERS, expanded, "backend")
