# SPDX-License-Identifier: BSD-2-Clause
"""The commands of docs/operator/coming-over.md as the page has them: the test of a take-over types these."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ganeti.tools.testbed import guest

PAGE = "docs/operator/coming-over.md"
_ROW = re.compile(r"^\| (?P<step>\d+) \| (?P<machines>[^|]+) \| (?P<cell>.+) \|$", re.MULTILINE)
_PROMPT = re.compile(r"^    (?P<machine>[a-z0-9]+)# (?P<command>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One row of the page's tables."""

    machines: str
    """``master``, ``every node`` or ``every node, the master last``."""
    commands: tuple[str, ...]


def text() -> str:
    return (guest.tree() / PAGE).read_text()


def steps() -> dict[int, Step]:
    """Each numbered step with its commands, in the page's order."""
    return {
        int(row["step"]): Step(row["machines"], tuple(re.findall(r"`([^`]+)`", row["cell"])))
        for row in _ROW.finditer(text())
    }


def before() -> list[tuple[str, str]]:
    """(machine, command) of the section that comes before anything is changed."""
    section = text().split("\n## Over\n")[0]
    return [(found["machine"], found["command"]) for found in _PROMPT.finditer(section)]


def exports_over() -> tuple[str, ...]:
    """What makes exports of Debian's Ganeti found by this program, on the node that has them."""
    (row,) = (line for line in text().splitlines() if line.startswith("| exports |"))
    return tuple(word for word in re.findall(r"`([^`]+)`", row) if word.startswith(("mkdir ", "mv ")))
