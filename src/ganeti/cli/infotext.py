# SPDX-License-Identifier: BSD-2-Clause
"""The text of info commands: YAML as 3.1 writes it (command line, section 5).

A dict is sorted by key; `Ordered` pairs keep their order; a tuple of plain values stands in brackets; nothing
follows the colon of what is empty.
"""

from __future__ import annotations

import sys
import time

from ganeti.base.terminal import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Ordered(list["tuple[str, Any]"]):
    """Pairs of key and value in the order they are shown."""


def print_info(value: Any) -> None:
    sys.stdout.write(harmless(render(value)))


def render(value: Any) -> str:
    lines: list[str] = []
    _container(lines, value, 0, "")
    return "".join(f"{line}\n" for line in lines)


def _container(lines: list[str], value: Any, level: int, lead: str) -> None:
    """Write a dict or a list; *lead* is what already stands on its first line."""
    margin = "  " * level
    if isinstance(value, Ordered | dict):
        pairs = value if isinstance(value, Ordered) else sorted(value.items(), key=lambda pair: str(pair[0]))
        items = [(f"{key}: ", item) for key, item in pairs]
    else:
        items = [("- ", item) for item in value]
    for index, (mark, item) in enumerate(items):
        start = (lead if index == 0 and lead else margin) + mark
        if not isinstance(item, dict | list):
            lines.append(start + scalar(item, level + 1))
        elif not item:
            lines.append(start)
        elif mark == "- ":
            _container(lines, item, level + 1, start)
        else:
            lines.append(start)
            _container(lines, item, level + 1, "")


def scalar(value: Any, level: int = 1) -> str:
    """Show one value; whole floats without a point, further lines of a text below its first."""
    if isinstance(value, tuple):
        return f"[{', '.join(scalar(part) for part in value)}]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value)
    return text.replace("\n", "\n" + "  " * level) if "\n" in text else text


def timestamp(value: Any) -> str:
    """Show seconds since the epoch, or ``[seconds, microseconds]``, in local time."""
    if isinstance(value, list | tuple):
        seconds, micros = value
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) + f".{micros:06d}"
    if value is None:
        return "None"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))


def defaulted(own: dict[str, Any], filled: dict[str, Any]) -> dict[str, Any]:
    """Show own values as they are and inherited ones as ``default (V)``."""
    return {key: own[key] if key in own else f"default ({scalar(value)})" for key, value in filled.items()}
