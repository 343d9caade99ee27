# SPDX-License-Identifier: BSD-2-Clause
"""Long runs that a job names by a token before they begin, so that it can end them: the scripts of an OS, copies.

What must hold: when `end` has come back, nothing of that run is at work on this node, and nothing of it begins later.
A run ends with the daemon, so its name is kept in memory alone.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from ganeti.base.errors import ExecutionError

T = TypeVar("T")
_KEPT = 1000
_running: dict[str, "asyncio.Task[Any]"] = {}
_progress: dict[str, "Progress"] = {}
_ended: dict[str, None] = {}
"""Those that were ended, the newest last: a request may come after the one that ends it."""


@dataclass
class Progress:
    """How far a run is; *stopped* is set where nobody wants the rest."""

    bytes: int = 0
    stopped: bool = False


def progress(token: str) -> Progress:
    """That of a run which is under way, or of its own where none is."""
    return _progress.setdefault(token, Progress()) if token in _running else Progress()


async def endable(token: str, work: Coroutine[Any, Any, T]) -> T:
    """Do *work*, which `end` may end meanwhile: then, or if it has done so already, raises `ExecutionError`."""
    if not token:
        return await work
    if token in _ended:
        work.close()
        raise _was_ended()
    task = asyncio.ensure_future(work)
    _running[token] = task
    try:
        return await task
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if token in _ended and current is not None and not current.cancelling():
            raise _was_ended() from None
        raise
    finally:
        _running.pop(token, None)
        _progress.pop(token, None)


async def end(token: str) -> None:
    """End the run, and wait for that; one that is over, or has not begun, is no error."""
    while len(_ended) >= _KEPT:
        del _ended[next(iter(_ended))]
    _ended[token] = None
    task = _running.get(token)
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


def _was_ended() -> ExecutionError:
    return ExecutionError("It was ended: its job does not wait for it any more")
