# SPDX-License-Identifier: BSD-2-Clause
"""A commit is held against the locks of its job: told in the log, and refused where the environment says so (S2.58)."""

import logging
import os

from ganeti.base.errors import LockError
from ganeti.master.config.head import Staged
from ganeti.master.config.lock_cover import missing
from ganeti.master.locks.owners import Owner
from ganeti.wconfd.commits import JobStep
from ganeti.wconfd.locks import LockService

STRICT = "GANETI_STRICT_LOCKS"
"""Set in the environment of tests, so that an operation with too few locks fails there."""
_log = logging.getLogger(__name__)


class LockCheck:
    """For a `Committer`. Daemons, which are job 0, hold no locks.

    Nor does a successor that undoes what a job left on another master, where its locks were: until that is done the
    queue starts no other job, which is as good as all locks.
    """

    def __init__(self, locks: LockService) -> None:
        self._locks = locks
        self._is_strict = bool(os.environ.get(STRICT))

    def __call__(self, step: JobStep, staged: Staged) -> None:
        """Raises `LockError` where that is wanted."""
        if step.job == 0:
            return
        held = self._locks.table.held(Owner(step.job, step.lock_file))
        found = missing(staged, held)
        if not found or (not held and step.attempt > 1):
            return
        sentence = f"{step} changes {', '.join(found)} without having the lock for itself"
        _log.warning("%s", sentence)
        if self._is_strict:
            raise LockError(f"The change is refused: {sentence}")
