# SPDX-License-Identifier: BSD-2-Clause
"""Pid files of daemons, seen from outside: a daemon lives as long as it holds the lock on its own.

The process id alone could be another process's by now.
"""

import fcntl
import os
from contextlib import suppress

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def living_process(path: str) -> int | None:
    """The process id in a pid file, if a living process holds it. Raises `OSError` for a file that cannot be opened."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 32).strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
    return None


def remove_unless_held(path: str) -> None:
    """Remove a file whose process has died; one that is held stays. Raises `OSError`."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            os.unlink(path)
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)
