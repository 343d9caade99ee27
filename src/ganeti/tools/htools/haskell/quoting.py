# SPDX-License-Identifier: BSD-2-Clause
"""Strings and lists of them as 3.1 shows them in sentences: ``["a","b"]``. Light on imports."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTROLS = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "a", "b", "t", "n", "v", "f", "r", "SO", "SI", "DLE", "DC1"),
    *("DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\x7f": "\\DEL"} | {chr(code): f"\\{name}" for code, name in enumerate(_CONTROLS)}
_GAP = "\\&"


def quoted(fields: Iterable[str]) -> str:
    """A list of strings, other letters than those of ASCII by number."""
    return f"[{','.join(map(quote, fields))}]"


def quote(text: str) -> str:
    """One string. A gap keeps a number apart from a digit that follows it, and ``SO`` from an ``H``."""
    words = []
    for letter, following in zip(text, text[1:] + " ", strict=False):
        word = letter if " " <= letter <= "~" else f"\\{ord(letter)}"
        word = _ESCAPES.get(letter, word)
        ambiguous = (letter > "\x7f" and following in "0123456789") or (letter == "\x0e" and following == "H")
        words.append(word + _GAP if ambiguous else word)
    return f'"{"".join(words)}"'
