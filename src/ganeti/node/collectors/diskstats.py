# SPDX-License-Identifier: BSD-2-Clause
"""How much the disks of a node read and write: the kernel's table of them (protocols, 5)."""

from typing import Any

from ganeti.node.collectors.report import UnreadableError, whole

NAME, CATEGORY = "diskstats", "storage"
PLACE = "/proc/diskstats"
_COUNTERS = (
    *("readsNum", "mergedReads", "secRead", "timeRead"),
    *("writes", "mergedWrites", "secWritten", "timeWrite"),
    *("ios", "timeIO", "wIOmillis"),
)
_FIXED = 3


def read(text: str) -> list[dict[str, Any]]:
    """The counters of each disk (times in ms, the rest counts); raises `UnreadableError`.

    Kernels since 4.18 add counters at the end of the line, which are left out: 3.1 knows eleven.
    """
    return [_disk(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _disk(number: int, fields: list[str]) -> dict[str, Any]:
    if len(fields) < _FIXED + len(_COUNTERS):
        raise UnreadableError(f"line {number} has {len(fields)} columns, not {_FIXED + len(_COUNTERS)} or more")
    major, minor, name, *rest = fields
    where = f"line {number}"
    counters = {key: whole(value, where) for key, value in zip(_COUNTERS, rest, strict=False)}
    return {"major": whole(major, where), "minor": whole(minor, where), "name": name, **counters}
