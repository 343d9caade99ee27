# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's calls that tell what is stored of maintenance, and change it (S4.34).

No job and no lock is about that, so each of these is a commit of its own. The daemon itself commits what it does by the
changes of `master/maintenance/changes.py`, and hears of the others' as of every commit.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.calls.serving import Reads, serves
from ganeti.master.maintenance.called_changes import ChangeRound, PutIncident
from ganeti.master.maintenance.changes import ChangeMaintenance, EndRound, ForgetIncident
from ganeti.model.objects import Maintenance
from ganeti.ports.config import Change
from ganeti.stores.config_view import ConfigReader
from ganeti.wconfd.commits import Committer, JobStep
from ganeti.wconfd.lock_calls import VOID

_DAEMONS = 0
"""The job id of all daemons."""
_LONGEST_S = 2**31 - 1
Commit = Callable[[Change], Awaitable[Any]]


def commits_by(committer: Committer) -> Commit:
    """Commits of WConfD itself: each is an attempt of its own, and nobody repeats it.

    Answers to other daemons are kept as long as the newest one lives: so each names the lock file of the one before.
    """
    one_at_a_time = asyncio.Lock()

    async def commit(change: Change) -> None:
        async with one_at_a_time:
            steps = committer.steps
            attempt, newest = steps.next_attempt(_DAEMONS, time.time_ns()), steps.newest_by_job().get(_DAEMONS)
            lock_file = newest.lock_file if newest is not None else ""
            await committer.commit(JobStep(_DAEMONS, attempt, 1, lock_file, settles=True), change)

    return commit


def _read(what: str, kind: Any) -> Reads:
    def read(value: Any) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as err:
            raise GanetiError(f"The {what} cannot be read: {err}") from err

    return Reads(read)


Delay = Annotated[int, _read("delay", Annotated[int, msgspec.Meta(ge=1, le=_LONGEST_S)])]
Switch = Annotated[bool, _read("switch", bool)]
Threshold = Annotated[float, _read("threshold", Annotated[float, msgspec.Meta(ge=0)])]
Jobs = Annotated[list[int], _read("list of jobs", list[Annotated[int, msgspec.Meta(ge=1, le=2**62)]])]
Names = Annotated[list[str], _read("list of instances", list[str])]
Name = Annotated[str, _read("name", str)]
Object = Annotated[dict[str, Any], _read("incident", dict[str, Any])]


class MaintenanceCalls:
    """What they tell is durable; so is what they have changed."""

    def __init__(self, database: str, commit: Commit) -> None:
        self._database = database
        self._commit = commit

    @serves("maintenanceRoundDelay")
    async def round_delay(self) -> Any:
        return (await self._stored()).round_delay_s

    @serves("maintenanceJobs")
    async def jobs(self) -> Any:
        return (await self._stored()).jobs

    @serves("maintenanceBalancing")
    async def balancing(self) -> Any:
        own = await self._stored()
        return [own.balance, own.balance_threshold]

    @serves("maintenanceEvacuated")
    async def evacuated(self) -> Any:
        return (await self._stored()).evacuated

    @serves("maintenanceIncidents")
    async def incidents(self) -> Any:
        return [each.to_plain() for each in (await self._stored()).incidents]

    @serves("setMaintdRoundDelay")
    async def set_round_delay(self, seconds: Delay) -> Any:
        return await self._changed(ChangeMaintenance(values={"round_delay_s": seconds}))

    @serves("setMaintdBalance")
    async def set_balance(self, balance: Switch) -> Any:
        return await self._changed(ChangeMaintenance(values={"balance": balance}))

    @serves("setMaintdBalanceThreshold")
    async def set_balance_threshold(self, threshold: Threshold) -> Any:
        return await self._changed(ChangeMaintenance(values={"balance_threshold": threshold}))

    @serves("clearMaintdJobs")
    async def clear_jobs(self) -> Any:
        return await self._changed(EndRound(left=[]))

    @serves("appendMaintdJobs")
    async def append_jobs(self, jobs: Jobs) -> Any:
        return await self._changed(ChangeRound(jobs=jobs))

    @serves("addMaintdEvacuated")
    async def add_evacuated(self, instances: Names) -> Any:
        return await self._changed(ChangeRound(evacuated=instances))

    @serves("rmMaintdEvacuated")
    async def remove_evacuated(self, instance: Name) -> Any:
        return await self._changed(ChangeRound(no_longer_evacuated=[instance]))

    @serves("updateMaintdIncident")
    async def update_incident(self, incident: Object) -> Any:
        return await self._changed(PutIncident(incident=incident))

    @serves("rmMaintdIncident")
    async def remove_incident(self, uuid: Name) -> Any:
        return await self._changed(ForgetIncident(uuid=uuid))

    async def _changed(self, change: Change) -> Any:
        await self._commit(change)
        return VOID

    async def _stored(self) -> Maintenance:
        return await asyncio.to_thread(_stored_in, self._database)


def _stored_in(database: str) -> Maintenance:
    with ConfigReader(database).view() as view:
        return view.maintenance
