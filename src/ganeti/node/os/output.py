# SPDX-License-Identifier: BSD-2-Clause
"""What scripts of an OS say while they run, for the job that waits for them.

A job names the run by a token before it begins. Only the way to the log is kept, and only by this daemon: a script ends
with it.

A job's messages have more readers than the log on the node: values of private and secret parameters are hidden in them,
which a script shows by `set -x`, say.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ganeti.model.node_calls.scripts import Said

PIECE_BYTES = 64 * 1024
LONGEST_LINE = 500
_KEPT = 200
_SHORTEST_HIDDEN = 4
"""What is shorter may be a part of any word."""


@dataclass(frozen=True)
class _Run:
    log_path: str
    begun_at: int
    """Where the run begins in its log: runs of one second share one."""
    hidden: tuple[str, ...]


_NO_RUN = _Run("", 0, ())
_runs: dict[str, _Run] = {}
"""By token."""


def begin(token: str, log_path: str, hidden: Iterable[str] = ()) -> None:
    """Remember where a run writes to, and what of it is to be hidden."""
    if token:
        while len(_runs) >= _KEPT:
            del _runs[next(iter(_runs))]
        begun_at = os.path.getsize(log_path) if os.path.exists(log_path) else 0
        _runs[token] = _Run(log_path, begun_at, tuple(hidden))


def said(token: str, offset: int) -> Said:
    """Whole lines that were written after *offset*; a last one without an end counts when nothing follows it."""
    run = _runs.get(token, _NO_RUN)
    path = run.log_path
    if not path:
        return Said(lines=[], offset=offset)
    try:
        with open(path, "rb") as log:
            data = os.pread(log.fileno(), PIECE_BYTES, run.begun_at + offset)
    except OSError:
        return Said(lines=[], offset=offset, log=path)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == PIECE_BYTES:  # a line without an end
        end = len(data)
    lines = [_shown(line) for line in without(run.hidden, data[:end].decode("utf-8", "replace")).splitlines()]
    return Said(lines=[line for line in lines if line], offset=offset + end, log=path)


def rest(token: str, offset: int) -> Said:
    """The same after the end of the run: the last line too."""
    found = said(token, offset)
    if found.lines or not found.log:
        return found
    run = _runs[token]
    with open(run.log_path, "rb") as log:
        data = os.pread(log.fileno(), PIECE_BYTES, run.begun_at + offset)
    last = _shown(without(run.hidden, data.decode("utf-8", "replace")))
    return Said(lines=[last] if last else [], offset=offset + len(data), log=found.log)


def without(hidden: Iterable[str], text: str) -> str:
    """The *text* with each line of the *hidden* values as ``<redacted>``."""
    lines = {line.strip() for value in hidden for line in value.splitlines()}
    for line in sorted(lines, key=lambda each: (-len(each), each)):
        if len(line) >= _SHORTEST_HIDDEN:
            text = text.replace(line, "<redacted>")
    return text


def _shown(line: str) -> str:
    text = "".join(each if each.isprintable() else " " for each in line).rstrip()
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
