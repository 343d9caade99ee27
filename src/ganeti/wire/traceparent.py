# SPDX-License-Identifier: BSD-2-Clause
"""Where a request or a job stands in a trace: W3C Trace Context, version 00, and its place in a reason trail. Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

SOURCE: Final = "gnt:trace"
"""Of the entry of an opcode's reason trail that names the span it was submitted in."""
_FORM: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


@dataclass(frozen=True)
class Place:
    """One span of a trace."""

    trace_id: int
    span_id: int
    is_sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"

    def below(self, *words: Any) -> "Place":
        """Give the span within this one that *words* name: the same one to each caller."""
        digest = hashlib.sha256(" ".join(map(str, (self, *words))).encode()).digest()
        return Place(self.trace_id, int.from_bytes(digest[:8]) | 1, self.is_sampled)


def read_place(text: str) -> Place | None:
    """Read a ``traceparent``; None for what is none."""
    found = _FORM.fullmatch(text.strip())
    if found is None or not int(found[1], 16) or not int(found[2], 16):
        return None
    return Place(int(found[1], 16), int(found[2], 16), bool(int(found[3], 16) & 1))


def place_in(reason: Iterable[Any]) -> Place | None:
    """Give the span that a reason trail names."""
    for entry in reason:
        if isinstance(entry, list | tuple) and len(entry) > 1 and entry[0] == SOURCE:
            return read_place(str(entry[1]))
    return None


def made_up(*words: Any) -> Place:
    """Give the beginning of a trace that *words* name."""
    digest = hashlib.sha256(" ".join(map(str, words)).encode()).digest()
    return Place(int.from_bytes(digest[:16]) | 1, int.from_bytes(digest[16:24]) | 1)
