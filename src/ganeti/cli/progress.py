# SPDX-License-Identifier: BSD-2-Clause
"""Log lines of a job as they come; on a terminal also a bar for steps whose length is known."""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BAR = 30


class LogPrinter:
    """Prints log entries ``[serial, [seconds, microseconds], type, content]``, and below them how far the job is."""

    def __init__(self) -> None:
        self.wants_progress = sys.stdout.isatty()
        self._bar_width = 0

    def show(self, entry: list[Any]) -> None:
        self._clear_bar()
        for line in log_lines(entry):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def finish(self) -> None:
        """Leave a clean line behind."""
        self._clear_bar()

    def show_progress(self, opcodes: list[Any]) -> None:
        """Draw the bar of the opcode under way, given as ``[text, done, total]``; none under way: no bar."""
        under_way = [progress for progress in opcodes or () if progress]
        if not under_way:
            self._clear_bar()
            return
        text, done, total = under_way[0]
        share = min(1.0, max(0.0, done / total)) if total else 1.0
        filled = round(share * _BAR)
        line = f"[{'#' * filled}{'.' * (_BAR - filled)}] {share * 100:3.0f}% {encoded(str(text))}"
        line = line[: max(20, os.get_terminal_size(sys.stdout.fileno()).columns - 1)]
        sys.stdout.write("\r" + line.ljust(self._bar_width))
        sys.stdout.flush()
        self._bar_width = len(line)

    def _clear_bar(self) -> None:
        if self._bar_width:
            sys.stdout.write("\r" + " " * self._bar_width + "\r")
            sys.stdout.flush()
            self._bar_width = 0


def log_lines(entry: list[Any]) -> list[str]:
    """Give the lines of an entry as 3.1 prints them, each with its local time."""
    _, (seconds, _), kind, content = entry
    if kind == "message":
        texts = [encoded(str(content), keep_newlines=True)]
    elif kind == "message-list" and isinstance(content, list):
        texts = [encoded(str(part)) for part in content]
    else:
        texts = [encoded(str(content))]
    return [f"{time.ctime(seconds)} {text}" for text in texts]


def encoded(text: str, *, keep_newlines: bool = False) -> str:
    """Write control characters as escapes: what a guest or a script printed must not steer the terminal."""
    if text.isprintable():
        return text
    kept = "\n\t" if keep_newlines else ""
    return "".join(
        letter if letter.isprintable() or letter in kept else letter.encode("unicode_escape").decode()
        for letter in text
    )
