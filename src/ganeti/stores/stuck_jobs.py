# SPDX-License-Identifier: BSD-2-Clause
"""A job's process says that it cannot write its file: in its lock file, which is on no disk, for `gnt-job why`.

Its own file is what it cannot write, and it is told to nobody else; LuxiD, which is asked, may be a later one.
"""

import json
import os
from contextlib import suppress

from ganeti.system.files import plain_file


def tell(lock_path: str, since_s: float, reason: str) -> None:
    """Note since when, and why; where that cannot be written either, nobody hears of it but the log."""
    with suppress(OSError):
        _replace(lock_path, json.dumps([since_s, reason]).encode())


def over(lock_path: str) -> None:
    with suppress(OSError):
        _replace(lock_path, b"")


def told(lock_path: str | None) -> tuple[float, str] | None:
    """(since when, why) a job's process cannot write its file; None if it does not say so."""
    if lock_path is None:
        return None
    try:
        with open(lock_path, "rb", opener=plain_file) as source:
            since_s, reason = json.loads(source.read(4096))
        return float(since_s), str(reason)
    except (OSError, ValueError, TypeError):
        return None


def _replace(path: str, content: bytes) -> None:
    """The lock is of another description of the same file, so opening and closing it here does it no harm."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
