# SPDX-License-Identifier: BSD-2-Clause
"""Natural order of names: node2 comes before node10."""

import re
from functools import lru_cache

_DIGITS = re.compile(r"0*([0-9]+)")
_KEPT = 1 << 16


@lru_cache(maxsize=_KEPT)
def natural_key(name: str) -> str:
    """Sort key that compares runs of digits by value: before each stands how long it is, which no name begins with.

    One text is compared many times faster than a list of parts, and lists of 20,000 names are sorted for many answers.
    """
    return _DIGITS.sub(_measured, name)


def _measured(digits: "re.Match[str]") -> str:
    return f"\0{chr(len(digits[1]))}{digits[1]}"
