# SPDX-License-Identifier: BSD-2-Clause
"""What the user may have meant. Imported only when something is wrong."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Give ``; did you mean 'x'?`` or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
