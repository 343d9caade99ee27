# SPDX-License-Identifier: BSD-2-Clause
"""Tables: columns joined by one space, numbers to the right, nothing after the last word (command line, section 5)."""

from __future__ import annotations

import os
import sys

from ganeti.base.terminal import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST_COLUMN = 6


def print_table(
    titles: Sequence[str],
    right: Sequence[bool],
    rows: Sequence[Sequence[str]],
    *,
    headers: bool = True,
    separator: str | None = None,
) -> None:
    """Print rows of texts; *right* says which columns are numbers. Fitted only when a terminal shows it."""
    shown = ([list(titles)] if headers else []) + [list(row) for row in rows]
    if separator is not None:
        lines = [separator.join(row) for row in shown]
    else:
        limit = os.get_terminal_size(sys.stdout.fileno()).columns if shown and sys.stdout.isatty() else 0
        lines = aligned(shown, right, limit or None)  # a terminal that does not know its width says 0
    sys.stdout.write(harmless("".join(f"{line}\n" for line in lines)))


def aligned(rows: list[list[str]], right: Sequence[bool], limit: int | None = None) -> list[str]:
    """Pad the columns; with *limit*, shorten the widest text columns until a line fits."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if limit is not None:
        _shrink(widths, right, limit)
    lines = []
    for row in rows:
        cells = []
        for column, (text, width) in enumerate(zip(row, widths, strict=True)):
            if len(text) > width:
                text = text[: width - 1] + "…"
            if right[column]:
                cells.append(text.rjust(width))
            else:
                cells.append(text if column == len(widths) - 1 else text.ljust(width))
        lines.append(" ".join(cells))
    return lines


def _shrink(widths: list[int], right: Sequence[bool], limit: int) -> None:
    """Take from the widest text column, one letter at a time, while there is something to take."""
    excess = sum(widths) + len(widths) - 1 - limit
    while excess > 0:
        candidates = [column for column, numeric in enumerate(right) if not numeric and widths[column] > _LEAST_COLUMN]
        if not candidates:
            return
        widest = max(candidates, key=lambda column: widths[column])
        widths[widest] -= 1
        excess -= 1
