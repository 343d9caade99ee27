# SPDX-License-Identifier: BSD-2-Clause
"""Sizes and times as people write them, and back (spec: command line, section 1)."""

import math
import re

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
_BOUND = 2**63
"""No time in seconds is as long. Sizes are only to be numbers here: the master knows the bounds of what is meant."""
_MOST_DIGITS = 18
_MOST_TOLD = 30
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
    if not mib < math.inf:
        raise UnitParseError(f"'{_cut(str(text))}' is larger than any size: give at most 8796093022207t")
    return int(mib)


def parse_duration_s(text: str | int) -> int:
    """Read ``30``, ``5m``, ``2h`` and give seconds."""
    match = re.match(r"^([0-9]+)([a-z]?)$", str(text).strip())
    factor = _TIME_FACTORS_S.get(match[2]) if match else None
    if match is None or factor is None:
        raise UnitParseError(
            f"'{text}' is not a time: write a number with an optional suffix s, m, h, d or w, such as 5m"
        )
    if len(match[1].lstrip("0")) > _MOST_DIGITS or int(match[1]) * factor >= _BOUND:
        raise UnitParseError(f"'{_cut(str(text))}' is longer than any time: give at most 15250284452471w")
    return int(match[1]) * factor


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"


def format_size(size_mib: float, unit: str = "h") -> str:
    """Show MiB in unit ``m``, ``g``, ``t`` (bare numbers) or ``h`` (the largest that fits, with suffix)."""
    if unit == "m":
        return f"{round(size_mib)}"
    if unit == "g":
        return f"{size_mib / 1024:.1f}"
    if unit == "t":
        return f"{size_mib / 1024**2:.1f}"
    if unit != "h":
        raise UnitParseError(f"'{unit}' is not a unit: use h, m, g or t")
    if size_mib < 1024:
        return f"{round(size_mib)}M"
    if size_mib < 1024**2:
        return f"{size_mib / 1024:.1f}G"
    return f"{size_mib / 1024**2:.1f}T"
