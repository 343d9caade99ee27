# SPDX-License-Identifier: BSD-2-Clause
"""What all collectors have in common: the frame of a report, and a complaint of what makes no sense (protocols, 5)."""

from typing import Any

from ganeti.base.errors import ParameterError

PERFORMANCE, STATUS = 0, 1
"""Kinds of reports."""
OK, BEING_FIXED, UNKNOWN, NEEDS_A_PERSON = 0, 1, 2, 4
"""Codes of a status; of several the greatest counts."""
_BUILT_IN, _FORMAT = "B", 1


class UnreadableError(ParameterError):
    """What a collector was given makes no sense; the message says where."""


def report(name: str, category: str | None, kind: int, data: Any, now_ns: int) -> dict[str, Any]:
    """A report with its keys in the order of 3.1; *now_ns* is the time it was made, since 1970."""
    return {
        "name": name,
        "version": _BUILT_IN,
        "format_version": _FORMAT,
        "timestamp": now_ns,
        "category": category,
        "kind": kind,
        "data": data,
    }


def whole(text: str, what: str) -> int:
    """A whole number; raises `UnreadableError`."""
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise UnreadableError(f"{what}: '{text}' is not a whole number")
    return int(text)


def text_of(place: str) -> str:
    """The content of a file of the kernel's; raises `OSError`."""
    with open(place, encoding="utf-8", errors="replace") as file:
        return file.read()


def failed(kind: int, reason: str) -> dict[str, Any]:
    """The data of a report that could not be made."""
    if kind == STATUS:
        return {"error": reason, "status": {"code": NEEDS_A_PERSON, "message": reason}}
    return {"error": reason}
