# SPDX-License-Identifier: BSD-2-Clause
"""What the user may have meant. Imported only when something is wrong.

A mistyped command must not lead to one that takes something away: a user who follows a hint has
not thought about the word yet. So only what is named here is ever suggested.
"""

import difflib
from collections.abc import Iterable

SUGGESTED_COMMANDS = frozenset(
    (
        *("add", "add-tags", "allocator", "capacity", "change-priority", "console", "delay", "events", "getmaster"),
        *("health", "iallocator", "info", "list", "list-fields", "list-tags", "locks", "master-ping", "modify"),
        *("search-tags", "show", "start", "startup", "verify", "version", "wait", "watch", "why"),
    )
)
"""Commands and aliases that show, add or change what they are told to, and neither stop nor remove anything."""
_NEVER_SUGGESTED_OPTIONS = ("--force", "--yes-do-it", "--ignore-", "--kill", "--no-")
"""Options that skip a question or a check."""


def command_hint(word: str, known: Iterable[str]) -> str:
    """Give ``; did you mean 'x'?`` or nothing."""
    near = _nearest(word, known)
    return _hint(near) if near in SUGGESTED_COMMANDS else ""


def option_hint(flag: str, known: Iterable[str]) -> str:
    """The same of an option. A single letter is too short to be near another one."""
    near = _nearest(flag, known)
    return _hint(near) if near.startswith("--") and not near.startswith(_NEVER_SUGGESTED_OPTIONS) else ""


def _nearest(word: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), "")


def _hint(near: str) -> str:
    return f"; did you mean '{near}'?"
