# SPDX-License-Identifier: BSD-2-Clause
"""The audit log of the remote API: one JSON object a line, each with the hash of the one before. Standard library only.

The hash of a line is the SHA-256 of the line before's hash and of its own text without the hash, so no line can be
changed, taken out or put in without all that follow being written anew. What is cut off at the end shows only to
anybody who has kept a later hash.
"""

from __future__ import annotations

import hashlib
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

FIRST = "0" * 64
"""Stands for the hash before the first line."""


class AuditFault(ValueError):
    """The log is not as it was written; the sentence names the line."""


def sealed(entry: dict[str, Any], before: str) -> tuple[str, str]:
    """Give the line for *entry*, and its hash."""
    text = _text({**entry, "previous": before})
    hash_ = hashlib.sha256((before + text).encode()).hexdigest()
    return text[:-1] + f',"hash":"{hash_}"}}', hash_


def verified(lines: Iterable[str]) -> tuple[int, str]:
    """Check all lines; gives their number and the hash of the last. Raises `AuditFault`."""
    before, count = FIRST, 0
    for count, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            hash_ = entry.pop("hash")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise AuditFault(f"line {count} is not an entry of the audit log") from None
        if entry.get("previous") != before:
            raise AuditFault(f"line {count} does not follow the line before it: something was taken out or put in")
        if hashlib.sha256((before + _text(entry)).encode()).hexdigest() != hash_:
            raise AuditFault(f"line {count} was changed after it was written")
        before = hash_
    return count, before


def _text(entry: dict[str, Any]) -> str:
    return json.dumps(entry, separators=(",", ":"), sort_keys=False)
