# SPDX-License-Identifier: BSD-2-Clause
"""What scripts of an OS say while they run, for the job that waits for them.

A job names the run by a token before it begins. Only the way to the log is kept, and only by this daemon: a script ends
with it.
"""

import os

from ganeti.model.node_calls.scripts import Said

PIECE_BYTES = 64 * 1024
LONGEST_LINE = 500
_KEPT = 200
_logs: dict[str, tuple[str, int]] = {}
"""Path of the log of each run, by its token, and where the run begins in it: runs of one second share a log."""


def begin(token: str, log_path: str) -> None:
    """Remember where a run writes to."""
    if token:
        while len(_logs) >= _KEPT:
            del _logs[next(iter(_logs))]
        _logs[token] = (log_path, os.path.getsize(log_path) if os.path.exists(log_path) else 0)


def said(token: str, offset: int) -> Said:
    """Whole lines that were written after *offset*; a last one without an end counts when nothing follows it."""
    path, begun_at = _logs.get(token, ("", 0))
    if not path:
        return Said(lines=[], offset=offset)
    try:
        with open(path, "rb") as log:
            data = os.pread(log.fileno(), PIECE_BYTES, begun_at + offset)
    except OSError:
        return Said(lines=[], offset=offset, log=path)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == PIECE_BYTES:  # a line without an end
        end = len(data)
    lines = [_shown(line) for line in data[:end].decode("utf-8", "replace").splitlines()]
    return Said(lines=[line for line in lines if line], offset=offset + end, log=path)


def rest(token: str, offset: int) -> Said:
    """The same after the end of the run: the last line too."""
    found = said(token, offset)
    if found.lines or not found.log:
        return found
    path, begun_at = _logs[token]
    with open(path, "rb") as log:
        data = os.pread(log.fileno(), PIECE_BYTES, begun_at + offset)
    last = _shown(data.decode("utf-8", "replace"))
    return Said(lines=[last] if last else [], offset=offset + len(data), log=found.log)


def _shown(line: str) -> str:
    text = "".join(each if each.isprintable() else " " for each in line).rstrip()
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
