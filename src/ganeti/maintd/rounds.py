# SPDX-License-Identifier: BSD-2-Clause
"""The daemon's work: look, record what is seen, and submit the next round when it is due (S4.38-S4.42).

A round is announced in the configuration before its jobs are submitted, with a token that stands in their reasons. Who
finds an announcement without jobs, after a crash or a move of the master, looks for them in the queue by that token: so
each action happens once.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.calls.luxi_client import LuxiClient
from ganeti.maintd.backups import ScheduledBackups
from ganeti.maintd.report_polling import ReportPoller
from ganeti.master.maintenance import repairs
from ganeti.master.maintenance.asking import next_round
from ganeti.master.maintenance.changes import (
    CANCELED,
    OPEN,
    BeginRound,
    EndRound,
    RecordIncidents,
    RecordRound,
    jobs_for_it_alone,
)
from ganeti.master.maintenance.incidents import GONE, SeenObjects, record
from ganeti.master.maintenance.rounds import is_due
from ganeti.master.maintenance.task import SOURCE, Round, Task, with_reason
from ganeti.model.objects import Plain
from ganeti.model.placement_requests import PlacementRequest
from ganeti.model.view import ConfigView
from ganeti.ports.config import Change
from ganeti.ports.luxid import AnswerPlacement, CancelUnbegun, Placement
from ganeti.wire.job_file import FINAL_STATUSES, QUEUED, WAITING

DIAGNOSE = "diagnose"
USUAL_INTERVAL_S = 5.0
SHORTEST_INTERVAL_S = 1.0
_PLANS_APART_S = 30.0
"""How often a plan that comes to nothing is made again while nothing changes."""
_RETRY_S = 5.0
_SEEN_S = 30.0
_log = logging.getLogger(__name__)


@dataclass
class _Attempt:
    """The last plan that came to nothing."""

    at_s: float = 0.0
    position: tuple[int, int] = (0, 0)
    held: frozenset[tuple[str, str]] = field(default_factory=frozenset)


class Maintenance:
    """Call `run` as a task."""

    def __init__(
        self, follower: ConfigFollower, commits: DaemonCommits, luxi: LuxiClient, poller: ReportPoller
    ) -> None:
        self._follower = follower
        self._commits = commits
        self._luxi = luxi
        self._poller = poller
        self._seen = SeenObjects()
        self._stuck: Sequence[str] = ()
        self._attempt = _Attempt()
        self._backups = ScheduledBackups(lambda: self._view, self._commit, luxi)

    @property
    def _view(self) -> ConfigView:
        return self._follower.configuration

    async def run(self) -> None:
        """Run until cancelled; what fails is tried again."""
        while True:
            pause_s = interval_s(self._view)
            try:
                await self.step()
            except GanetiError as err:
                _log.warning("nothing is done now, trying again: %s", err)
                pause_s = max(pause_s, _RETRY_S)
            await asyncio.sleep(pause_s)

    async def step(self) -> None:
        """Look once, and submit a round if one is due; so with the backups of schedules."""
        await self._backups.step()
        if self._view.maintenance.submitting:
            await self._find_round(self._view.maintenance.submitting)
        statuses = await self._statuses()
        await self._record(await self._look(), statuses)
        await self._cancel_unbegun(statuses)
        await self._end_round(statuses)
        if is_due(self._view, time.time()) and self._is_wanted():
            await self._next_round()

    async def _look(self) -> dict[str, Plain]:
        """Where no command diagnoses and nothing is known, all nodes are well: nobody needs to ask them."""
        view = self._view
        if not view.cluster.diagnose_data_collector_filename and not view.maintenance.incidents:
            return {}
        return await self._poller.poll(view.nodes(), interval_s(view))

    async def _record(self, found: Mapping[str, Plain], statuses: Mapping[int, str]) -> None:
        change = record(self._view, self._seen, found, statuses, _new_id, self._stuck)
        if change == RecordIncidents():
            return
        self._tell(change)
        await self._commit(change)
        self._stuck = ()

    def _tell(self, change: RecordIncidents) -> None:
        nodes = {each.uuid: self._name(each.node) for each in self._view.maintenance.incidents}
        for incident, node, action, _ in change.noted:
            _log.warning("%s: asks for %s (incident %s)", self._name(node), action, incident)
        for incident, status in change.ended:
            _log.warning("%s: incident %s has %s", nodes.get(incident, "?"), incident, status)
        for incident in change.forgotten:
            _log.info("%s: incident %s is forgotten", nodes.get(incident, "?"), incident)

    def _name(self, node: str) -> str:
        found = self._view.get("nodes", node)
        return getattr(found, "name", node)

    async def _statuses(self) -> dict[int, str]:
        """Of all jobs that something waits for."""
        own = self._view.maintenance
        wanted = {*own.jobs, *repairs.awaited(self._view)}
        wanted |= {*_jobs_of_canceled(self._view)}
        wanted |= {job for each in own.incidents if each.repair_status in OPEN for job in each.last_jobs or ()}
        if not wanted:
            return {}
        numbers = sorted(wanted)
        rows = await self._luxi.call("QueryJobs", numbers, ["status"], only_asks=True)
        return {job: row[0] if row and row[0] else GONE for job, row in zip(numbers, rows, strict=True)}

    async def _cancel_unbegun(self, statuses: Mapping[int, str]) -> None:
        """Jobs of an incident that was canceled while they were submitted."""
        left = [job for job in _jobs_of_canceled(self._view) if statuses.get(job) in (QUEUED, WAITING)]
        if left and (canceled := await self._luxi.ask(CancelUnbegun(left))):
            _log.warning("jobs %s are canceled as their incident is", ", ".join(map(str, canceled)))

    async def _end_round(self, statuses: Mapping[int, str]) -> None:
        own = self._view.maintenance
        tags = repairs.ended(self._view, statuses, time.time())
        running = [job for job in own.jobs if statuses.get(job, "") not in (*FINAL_STATUSES, GONE)]
        if tags or (own.jobs and not running):
            await self._commit(EndRound(left=own.jobs if running else [], repair_tags=tags))

    def _is_wanted(self) -> bool:
        """Whether there may be something to do, and the last plan that came to nothing is not as good as a new one."""
        own, view = self._view.maintenance, self._view
        if not (own.balance or own.repair_instances or any(each.repair_status in OPEN for each in own.incidents)):
            return False
        since_s = time.monotonic() - self._attempt.at_s
        return not self._attempt.at_s or since_s >= _PLANS_APART_S or view.position != self._attempt.position

    async def _next_round(self) -> None:
        own = self._view.maintenance
        load = await self._poller.loads(self._view.nodes()) if own.balance and own.balance_dynamic else None
        if known := [name for name in own.evacuated if name in (load or {})]:
            await self._commit(RecordIncidents(no_longer_evacuated=known))
        planned = await next_round(lambda: self._view, self._place, load, time.time())
        self._stuck = planned.stuck
        self._tell_held(planned)
        if planned.tasks or planned.repairs:
            await self._submit(planned, load)
            self._attempt = _Attempt(held=self._attempt.held)
        else:
            self._attempt = _Attempt(time.monotonic(), self._view.position, self._attempt.held)

    def _tell_held(self, planned: Round) -> None:
        held = frozenset((each.about, each.why) for each in planned.held)
        for about, why in sorted(held - self._attempt.held):
            _log.warning("%s: held back: %s", about, why)
        self._attempt.held = held

    async def _place(self, request: PlacementRequest) -> Placement:
        return await self._luxi.ask(AnswerPlacement(request, None, False))

    async def _submit(self, planned: Round, load: Mapping[str, float] | None) -> None:
        token = str(uuid.uuid4())
        await self._commit(BeginRound(token=token))
        numbered = [job for task in planned.tasks for job in with_reason(task.jobs, task, token, time.time_ns())]
        answers: list[list[Any]] = []
        if numbered:
            answers = await self._luxi.call("SubmitManyJobs", numbered)
        jobs = _jobs_of(planned.tasks, answers)
        tags = [
            repairs.begun(self._view, each, jobs.get(_key(planned.tasks, each.task), []), _new_id, time.time())
            for each in planned.repairs
        ]
        for number, task in enumerate(planned.tasks):
            _log.warning("%s (jobs %s)", task.why, ", ".join(map(str, jobs[number])) or "refused")
        await self._commit(
            RecordRound(
                token=token,
                jobs=[job for numbers in jobs.values() for job in numbers],
                of_incidents=_by_incident(planned.tasks, jobs),
                evacuated=[name for task in planned.tasks if load is not None for name in task.moves],
                repair_tags=tags,
            )
        )

    async def _find_round(self, token: str) -> None:
        """Jobs of a round that was announced, and of which nobody has written down the numbers."""
        rows = await self._luxi.call("QueryJobs", None, ["id", "ops"], only_asks=True)
        jobs, of_incidents = [], dict[str, list[int]]()
        for number, opcodes in rows:
            entries = [entry for opcode in opcodes or () for entry in opcode.get("reason") or () if entry[0] == SOURCE]
            if any(token in str(entry[1]) for entry in entries):
                jobs.append(int(number))
                for incident in {str(entry[1]) for entry in entries}:
                    of_incidents.setdefault(incident, []).append(int(number))
        _log.warning("a round was interrupted while it was submitted: it has the jobs %s", jobs or "none")
        await self._commit(RecordRound(token=token, jobs=jobs, of_incidents=of_incidents))

    async def _commit(self, change: Change) -> None:
        done = await self._commits.commit(change)
        if not await self._follower.reached(done.position, _SEEN_S):
            raise GanetiError("ganeti-wconfd does not send what is committed")


def interval_s(view: ConfigView) -> float:
    """How often nodes are looked at: as often as the collector works."""
    setting = view.cluster.data_collectors.get(DIAGNOSE)
    interval_us = setting.get("interval") if isinstance(setting, dict) else None
    usable = isinstance(interval_us, int | float) and interval_us > 0
    return max(SHORTEST_INTERVAL_S, float(interval_us) / 1e6 if usable and interval_us else USUAL_INTERVAL_S)


def _jobs_of_canceled(view: ConfigView) -> list[int]:
    """Those of the round that is under way, which nothing else needs."""
    own = view.maintenance
    canceled = [each for each in own.incidents if each.repair_status == CANCELED]
    return [job for each in canceled for job in jobs_for_it_alone(own, each) if job in own.jobs]


def _jobs_of(tasks: Sequence[Task], answers: Sequence[Sequence[Any]]) -> dict[int, list[int]]:
    """The numbers of the jobs of each task, by its place; a job that was refused has none."""
    found, place = {}, 0
    for number, task in enumerate(tasks):
        own = answers[place : place + len(task.jobs)]
        place += len(task.jobs)
        found[number] = [int(answer) for accepted, answer in own if accepted]
        for accepted, answer in own:
            if not accepted:
                _log.error("%s: the queue refuses a job: %s", task.about, answer)
    return found


def _by_incident(tasks: Sequence[Task], jobs: Mapping[int, list[int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, task in enumerate(tasks):
        for incident in task.incidents:
            found.setdefault(incident, []).extend(jobs[number])
    return found


def _key(tasks: Sequence[Task], task: Task | None) -> int:
    return next((number for number, each in enumerate(tasks) if each is task), -1)


def _new_id() -> str:
    return str(uuid.uuid4())
