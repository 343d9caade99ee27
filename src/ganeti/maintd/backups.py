# SPDX-License-Identifier: BSD-2-Clause
"""Submits the jobs that schedules of backups ask for: recorded in the configuration before, so none is made twice."""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ganeti.calls.luxi_client import LuxiClient
from ganeti.master.backups import RecordTries, due, jobs_of
from ganeti.master.maintenance.task import SOURCE
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change

AT_ONCE = 20
"""Jobs that are submitted in one round; the others are due in the next."""
_log = logging.getLogger(__name__)


class ScheduledBackups:
    """Call `step` again and again; *commit* makes a change and waits until the view shows it."""

    def __init__(
        self, view: Callable[[], ConfigView], commit: Callable[[Change], Awaitable[None]], luxi: LuxiClient
    ) -> None:
        self._view, self._commit, self._luxi = view, commit, luxi

    async def step(self) -> None:
        """Raises `GanetiError` where the queue takes nothing; what was recorded is then tried again after a while."""
        if not self._view().backups.schedules:
            return
        now_s = time.time()
        wanted = due(self._view(), now_s)[:AT_ONCE]
        if not wanted:
            return
        await self._commit(RecordTries(tried=[each.key for each in wanted], now_s=now_s))
        jobs = [
            [opcode | {"reason": [[SOURCE, f"backup schedule {each.schedule}", time.time_ns()]]} for opcode in ops]
            for each in wanted
            for ops in [jobs_of(each)]
        ]
        answers: list[list[Any]] = await self._luxi.call("SubmitManyJobs", jobs)
        for each, (accepted, answer) in zip(wanted, answers, strict=True):
            what = f"job {answer}" if accepted else f"the queue refuses it: {answer}"
            _log.info("%s: %s by schedule %s: %s", each.instance.name, each.kind, each.schedule, what)
