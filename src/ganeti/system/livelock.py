# SPDX-License-Identifier: BSD-2-Clause
"""Lock files that say whether a process lives (S2.21-S2.31).

An owner of something creates a file of its own and keeps it locked; the kernel unlocks it when the process ends,
whatever the way. Invariants: the descriptor is opened after the fork and closed in every child, since a fork would
share the lock; a path is used once, since a file removed and made again would be two locks.
"""

import fcntl
import os
import re
import time
import weakref
from contextlib import suppress

from ganeti.base.errors import LockError

_JOB_LOCK = re.compile(r"/job_[0-9]+_([0-9]+)$")
_PROBE_S = 0.001
_PROBES_PASS_S = 0.1
"""A probe locks a file for microseconds (S2.28); it must not be taken for an owner."""
_held: "weakref.WeakSet[LiveLock]" = weakref.WeakSet()


class LiveLock:
    """This process's own lock file, locked until `remove`, `close`, or the end of the process."""

    def __init__(self, path: str) -> None:
        """Create and lock; raises `LockError` if another process holds the path."""
        self.path = path
        self._descriptor = -1
        while self._descriptor < 0:
            self._descriptor = _open_and_lock(path)
        _held.add(self)

    def fileno(self) -> int:
        return self._descriptor

    def remove(self) -> None:
        """The work is done: remove the file, then let go (S2.30)."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self.close()

    def close(self) -> None:
        """Let go and leave the file: to others, this process looks dead."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        _held.discard(self)


def _open_and_lock(path: str) -> int:
    """Give the locked descriptor, or -1 if the file was cleaned up between the two steps: then make it again."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    try:
        lock_past_probes(descriptor, pass_s=_PROBES_PASS_S, every_s=_PROBE_S)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except BlockingIOError as err:
        os.close(descriptor)
        raise LockError(f"Lock file {path} is held by another process") from err
    except FileNotFoundError:
        pass
    os.close(descriptor)
    return -1


def lock_past_probes(descriptor: int, *, pass_s: float, every_s: float) -> None:
    """Lock, and let pass who only probes at this very moment; raises `BlockingIOError` if the file is really held."""
    deadline = time.monotonic() + pass_s
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(every_s)


def is_alive(path: str) -> bool:
    """True if some process holds the lock file; a missing file means dead and cleaned up (S2.28).

    Never blocks and never takes the lock away from its owner: the probe is shared and dropped at once.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def job_lock_path(livelock_dir: str, job_id: int, attempt: int) -> str:
    """The lock file of one attempt of a job: ``job_NNNNNN_A``."""
    return f"{livelock_dir}/job_{job_id:06d}_{attempt}"


def attempt_of(lock_file: str) -> int | None:
    """The attempt a job's lock file belongs to; None for the lock files of daemons."""
    found = _JOB_LOCK.search(lock_file)
    return int(found.group(1)) if found else None


def _close_in_child() -> None:
    for lock in list(_held):
        lock.close()


os.register_at_fork(after_in_child=_close_in_child)
