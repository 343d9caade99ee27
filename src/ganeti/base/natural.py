# SPDX-License-Identifier: BSD-2-Clause
"""Natural order of names: node2 comes before node10."""

import re

_DIGITS = re.compile(r"([0-9]+)")


def natural_key(name: str) -> list[tuple[int, int | str]]:
    """Sort key that compares runs of digits by value."""
    return [(0, int(part)) if place % 2 else (1, part) for place, part in enumerate(_DIGITS.split(name))]
