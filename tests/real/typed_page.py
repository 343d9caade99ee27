# SPDX-License-Identifier: BSD-2-Clause
"""Commands of a page for operators with what each prints, and whether a cluster prints just that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ganeti.tools.testbed import guest

_TIME = re.compile(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} ", re.MULTILINE)
_UNDER_WAY = re.compile(r"^(memory|disks are copied): (?!done).*\n", re.MULTILINE)
"""How far a job is: a fast one says it once, a slow one often."""
_MAC = re.compile(r"\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b")
_JOB = re.compile(r"\bjob \d+")


@dataclass(frozen=True)
class Typed:
    """One command of a page."""

    words: tuple[str, ...]
    prints: str


def commands(page: str) -> list[Typed]:
    """Each command of a page of docs/operator in its order: indented lines after a prompt, up to the next."""
    found: list[Typed] = []
    for line in Path(guest.tree(), "docs/operator", page).read_text().splitlines():
        if line.startswith("    $ "):
            found.append(Typed(tuple(line.removeprefix("    $ ").split()), ""))
        elif line.startswith("    ") and found:
            found[-1] = Typed(found[-1].words, f"{found[-1].prints}{line.removeprefix('    ').rstrip()}\n")
    return found


def shown(said: str) -> str:
    """What a command printed as a page shows it: no times, not how far a job is, one MAC and one job for all."""
    lines = "".join(f"{line.rstrip()}\n" for line in _TIME.sub("", said).splitlines() if line.strip())
    return _JOB.sub("job 1", _MAC.sub("aa:00:00:00:00:00", _UNDER_WAY.sub("", lines)))
