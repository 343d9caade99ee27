# SPDX-License-Identifier: BSD-2-Clause
"""Measured load of instances: ``-U FILE``, a line each of name, cpu, memory, disk, net (spec: htools, 1)."""

from ganeti.tools.htools.haskell import numerals
from ganeti.tools.htools.haskell.failures import ToolError, read_text

Load = tuple[float, float, float, float]
NONE: Load = (0.0, 0.0, 0.0, 0.0)
_FIELDS = 5


def read_file(path: str) -> dict[str, Load]:
    """Load by the name of the instance; raises `ToolError` for a bad line and `OSError`."""
    lines = read_text(path).split("\n")
    if not lines[-1]:
        lines.pop()
    return dict(_read(line) for line in lines)


def _read(line: str) -> tuple[str, Load]:
    fields = line.split(" ")
    if len(fields) != _FIELDS:
        raise ToolError(f"can't parse utilisation data: Cannot parse line {line}")
    name = fields[0]
    try:
        cpu, memory, disk, network = (numerals.real(field) for field in fields[1:])
    except numerals.Unreadable as error:
        raise ToolError(f"can't parse utilisation data: {name}: {error}") from None
    return name, (cpu, memory, disk, network)
