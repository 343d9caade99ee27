# SPDX-License-Identifier: BSD-2-Clause
"""Work that is killed by SIGKILL before its nth change below a directory, in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod")
STEP = "test.step"
"""An event of `sys.audit` that counts as a change, for what a test stands in for."""


def kill_at(step: int, root: Path, work: Callable[[], object]) -> bool:
    """Do *work*, and kill it before its change number *step* (from 1); False if it has ended before that."""
    child = os.fork()
    if child == 0:
        _do(step, str(root), work)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work has failed by itself: see above"
    return os.WIFSIGNALED(status)


def _do(step: int, root: str, work: Callable[[], object]) -> None:
    changes = 0

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal changes
        if _is_change(event, arguments, root):
            changes += 1
            if changes == step:
                os.kill(os.getpid(), signal.SIGKILL)

    status = 1
    try:
        sys.addaudithook(hear)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _is_change(event: str, arguments: tuple[object, ...], root: str) -> bool:
    if event == STEP:
        return True
    if event == "open":
        path, _, flags = arguments
        return isinstance(path, str) and path.startswith(root) and bool(int(str(flags)) & (os.O_WRONLY | os.O_RDWR))
    return event in CHANGES and str(arguments[0]).startswith(root)
