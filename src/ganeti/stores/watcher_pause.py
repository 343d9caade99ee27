# SPDX-License-Identifier: BSD-2-Clause
"""The file that keeps the watcher from acting until a time."""

import os
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.system.files import read_if_there, write_atomically


def watcher_pause(paths: Paths) -> float | None:
    """Until when the watcher is paused; None if it is not, or no longer."""
    raw = read_if_there(paths.watcher_pause_file)
    try:
        return float(raw) if raw else None
    except ValueError:
        return None


def pause_watcher(paths: Paths, until_s: float | None) -> None:
    """Let the watcher rest until *until_s*, or let it act again."""
    if until_s is not None:
        write_atomically(paths.watcher_pause_file, b"%d\n" % int(until_s), mode=0o644)
        return
    with suppress(FileNotFoundError):
        os.unlink(paths.watcher_pause_file)
