# SPDX-License-Identifier: BSD-2-Clause
"""What the configuration says about the queue: how many jobs may run, and the job filters."""

import asyncio
import time

from ganeti.calls.config_follower import ConfigFollower
from ganeti.luxid.queue.decisions import Decisions
from ganeti.master.queue.events import Limits
from ganeti.master.queue.filters import Admission
from ganeti.model.configuration import Configuration
from ganeti.model.objects import FilterRule

_SLICE_S = 0.01


def limits(configuration: Configuration) -> Limits:
    return Limits(running=configuration.cluster.max_running_jobs)


class QueueRules:
    """Gives the queue machine the rules that hold now."""

    def __init__(self, decisions: Decisions, follower: ConfigFollower) -> None:
        self._decisions = decisions
        self._machine = decisions.machine
        self._follower = follower
        self._filters: list[FilterRule] = []
        self._reconsidering = False

    def apply(self) -> None:
        """Call this whenever the configuration has changed."""
        now = limits(self._follower.configuration)
        if now != self._machine.limits:
            self._decisions.carry_out(self._machine.resume(time.time(), now))
        filters = self._follower.configuration.filters()
        if filters != self._filters:
            self._filters = filters
            self._decisions.carry_out(self._machine.set_admission(Admission(filters), time.time()))
            if not self._reconsidering:
                self._reconsider()

    def _reconsider(self) -> None:
        """Very many jobs are asked about in slices: each may cost a write."""
        until_s = time.monotonic() + _SLICE_S
        self._reconsidering = self._machine.outdated > 0
        if self._reconsidering:
            asyncio.get_running_loop().call_soon(self._reconsider)
        while self._machine.outdated and time.monotonic() < until_s:
            self._decisions.carry_out(self._machine.reconsider(time.time()))
