# SPDX-License-Identifier: BSD-2-Clause
"""The kinds of options (`ganeti.base.command.OPTION_KINDS`), each with what reads its values."""

from __future__ import annotations

from ganeti.cli.failures import UsageError
from ganeti.cli.values import (
    collect_changes,
    collect_disk_state,
    collect_disks,
    collect_idents,
    collect_nics,
    not_negative,
    read_bounds,
    read_duration,
    read_float,
    read_int,
    read_json,
    read_key_values,
    read_list,
    read_nodes,
    read_ranges,
    read_ratio,
    read_size,
    read_yes_no,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _read_capacity(option: str, text: str) -> dict[str, Any]:
    """Read in what capacity is counted; ``default`` alone takes all of it away."""
    from ganeti.cli.capacity_values import read_parameters

    return read_parameters(option, read_key_values(option, text))


def _each(option: str, text: str, read: Callable[[str, str], Any]) -> dict[str, Any]:
    values = read_key_values(option, text)
    return {name: read(option, str(value)) for name, value in values.items()}


def _read_microseconds(option: str, text: str) -> int:
    if text in ("True", "False"):
        raise UsageError(f"{option}: a name without its seconds: write NAME=SECONDS, such as diagnose=60")
    return round(not_negative(option, read_float(option, text)) * 1_000_000)


READERS: dict[str, Callable[[str, str], Any]] = {
    "string": lambda option, text: text,
    "int": read_int,
    "float": read_float,
    "ratio": read_ratio,
    "natural": lambda option, text: not_negative(option, read_int(option, text)),
    "amount": lambda option, text: not_negative(option, read_float(option, text)),
    "size": read_size,
    "duration": read_duration,
    "yesno": read_yes_no,
    "list": read_list,
    "nodes": read_nodes,
    "keyvalues": read_key_values,
    "name-yesno": lambda option, text: _each(option, text, read_yes_no),
    "name-seconds": lambda option, text: _each(option, text, _read_microseconds),
    "json": read_json,
    "ranges": read_ranges,
    "bounds": read_bounds,
    "capacity": _read_capacity,
}
"""One text to one value."""
COLLECTORS: dict[str, Callable[[str, list[str]], Any]] = {
    "ident-keyvalues": collect_idents,
    "disks": collect_disks,
    "nics": collect_nics,
    "disk-mods": collect_changes,
    "nic-mods": collect_changes,
    "disk-state": collect_disk_state,
}
"""All texts of a repeated option to one value."""
