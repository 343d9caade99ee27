# SPDX-License-Identifier: BSD-2-Clause
"""Where a request or a job stands in a trace: W3C Trace Context, and its place in a reason trail. Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

SOURCE: Final = "gnt:trace"
"""Of the entry of an opcode's reason trail that names the span it was submitted in."""
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


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
    """Read a ``traceparent``; None for what is none. Of a version after 00 the parts of 00 count."""
    found = _FORM.fullmatch(text.strip())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace, span, flags = (int(part, 16) for part in found.group(2, 3, 4))
    return Place(trace, span, bool(flags & 1)) if trace and span else None


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
