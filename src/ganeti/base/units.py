# SPDX-License-Identifier: BSD-2-Clause
"""Sizes and times as people write them, and back (spec: command line, section 1)."""

import re

from ganeti.base.bounds import duration_fault, size_fault
from ganeti.base.errors import UnitParseError

_SIZE = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*$")
_SIZE_FACTORS_KIB = {
    "": 1024,
    "k": 1,
    "kb": 1,
    "kib": 1,
    "m": 1024,
    "mb": 1024,
    "mib": 1024,
    "g": 1024**2,
    "gb": 1024**2,
    "gib": 1024**2,
    "t": 1024**3,
    "tb": 1024**3,
    "tib": 1024**3,
}
_TIME_FACTORS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_size_mib(text: str | int) -> int:
    """Read ``1G``, ``512m`` or ``1024`` (MiB without a suffix) and give MiB, rounded up."""
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise UnitParseError(f"'{text}' is not a size: it must not be negative")
        return text
    match = _SIZE.match(str(text))
    factor = _SIZE_FACTORS_KIB.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UnitParseError(f"'{text}' is not a size: write a number with an optional suffix m, g or t, such as 512m")
    mib = -(-(float(match[1]) * factor) // 1024)
    if fault := size_fault(mib, str(text)):
        raise UnitParseError(fault)
    return int(mib)


def parse_duration_s(text: str | int) -> int:
    """Read ``30``, ``5m``, ``2h`` and give seconds."""
    match = re.match(r"^([0-9]+)([a-z]?)$", str(text).strip())
    factor = _TIME_FACTORS_S.get(match[2]) if match else None
    if match is None or factor is None:
        raise UnitParseError(
            f"'{text}' is not a time: write a number with an optional suffix s, m, h, d or w, such as 5m"
        )
    if fault := duration_fault(match[1], factor, str(text)):
        raise UnitParseError(fault)
    return int(match[1]) * factor
