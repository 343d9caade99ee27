# SPDX-License-Identifier: BSD-2-Clause
"""What is no size and no time any more, for all that read one.

Apart from `units`, since commands read their values without regular expressions, and start the faster.
"""

import math

_BOUND_S = 2**63
"""No time is as long. Sizes are only to be numbers here: the master knows the bounds of what is meant."""
_MOST_DIGITS = 18
_MOST_TOLD = 30


def size_fault(mib: float, text: str) -> str:
    """What is wrong with a size that is written as *text*; nothing if nothing is."""
    return "" if mib < math.inf else f"'{_cut(text)}' is larger than any size: give at most 8796093022207t"


def duration_fault(number: str, factor_s: int, text: str) -> str:
    """The same of a time of *number* times *factor_s*; of more digits no number is made."""
    if len(number.lstrip("0")) <= _MOST_DIGITS and int(number) * factor_s < _BOUND_S:
        return ""
    return f"'{_cut(text)}' is longer than any time: give at most 15250284452471w"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"
