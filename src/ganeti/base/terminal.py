# SPDX-License-Identifier: BSD-2-Clause
"""Texts as they may be printed on a terminal, or written into a log that somebody reads there. Standard library only.

Names, reasons, paths and messages come from users, strangers, nodes and guests: none of their letters may act.
"""

from __future__ import annotations

SPEAKER = "GANETI_SPEAKER"
"""Variable by which a command that becomes another program says how that is to begin its error messages."""

_STEERING = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))} | {
    code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
"""Characters by which a text steers the terminal, or shows otherwise than it is: all but the line break and the tab."""
_OF_A_LINE = _STEERING | {ord("\n"): r"\n"}


def harmless(text: str) -> str:
    """The text with escapes in the place of control characters; line breaks and tabs stay."""
    return text.translate(_STEERING)


def on_one_line(text: str) -> str:
    """The same, and line breaks are escapes, too: nothing in it looks like another line."""
    return text.translate(_OF_A_LINE)
