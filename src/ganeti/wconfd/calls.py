# SPDX-License-Identifier: BSD-2-Clause
"""What each call of WConfD's socket does with its arguments; those about locks are in `lock_calls`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ganeti.base.errors import ConfigVerifyError, LockError
from ganeti.calls.serving import Handler, handlers_of, serves
from ganeti.master.config.invariants import verify_all
from ganeti.stores.config_view import ConfigReader
from ganeti.stores.publisher import Publisher
from ganeti.system.livelock import is_alive
from ganeti.wconfd.arguments import After, Client, FileNames, JobId, JobIds, read_change, read_step
from ganeti.wconfd.commits import Committer
from ganeti.wconfd.lock_calls import VOID, LockCalls
from ganeti.wconfd.lock_stream import NewsCalls
from ganeti.wconfd.locks import LockService
from ganeti.wconfd.maintenance_calls import MaintenanceCalls, commits_by
from ganeti.wconfd.refused_calls import refused_calls
from ganeti.wconfd.replication import Replicator
from ganeti.wconfd.replication_queue import check_names
from ganeti.wconfd.reservations import ReservationCalls, ReservationService

_log = logging.getLogger(__name__)


@dataclass
class Parts:
    """What the calls work on."""

    committer: Committer
    locks: LockService
    reservations: ReservationService
    publisher: Publisher
    database: str
    clean_up: Callable[[], Awaitable[None]]
    replicator: Replicator


def calls_of(parts: Parts) -> dict[str, Handler]:
    """All calls by the names they have on the socket."""
    locks = LockCalls(parts.locks, parts.reservations, parts.committer.supersede, parts.clean_up)
    reservations = ReservationCalls(parts.reservations, lambda: parts.committer.form.position)
    maintenance = MaintenanceCalls(parts.database, commits_by(parts.committer))
    return refused_calls() | handlers_of(ConfigCalls(parts), locks, reservations, NewsCalls(parts.locks), maintenance)


class ConfigCalls:
    """The configuration."""

    def __init__(self, parts: Parts) -> None:
        self._committer = parts.committer
        self._publisher = parts.publisher
        self._database = parts.database
        self._replicator = parts.replicator

    @serves("echo")
    async def echo(self, text: Any) -> Any:
        return text

    @serves("commit")
    async def commit(
        self, owner: Any, step: Any, name: Any, fields: Any, settles: Any, queue_files: FileNames = ()
    ) -> Any:
        check_names(queue_files)
        job_step = read_step(owner, step, settles)
        change = read_change(name, fields)
        if not is_alive(job_step.lock_file):
            raise LockError(f"{job_step} is refused: nobody holds its lock file {job_step.lock_file}")
        return msgspec.Raw(await self._committer.commit(job_step, change, queue_files))

    @serves("lastStep")
    async def last_step(self, job: JobId) -> Any:
        return self._committer.steps.last_settling(job)

    @serves("position")
    async def position(self) -> Any:
        return self._committer.form.position

    @serves("waitPublished")
    async def wait_published(self, wanted: After) -> Any:
        await self._publisher.wait_published(wanted)
        return VOID

    @serves("readConfig")
    async def read_config(self) -> Any:
        parts_of_file = self._committer.form.config_parts()
        return msgspec.Raw(await asyncio.to_thread(b"".join, parts_of_file))

    @serves("verifyConfig")
    async def verify_config(self) -> Any:
        problems = await asyncio.to_thread(_verify, self._database)
        if problems:
            raise ConfigVerifyError(f"The configuration has {len(problems)} problems", problems)
        return VOID

    @serves("flushConfig")
    async def flush_config(self) -> Any:
        await self._publisher.flush()
        return VOID

    @serves("flushConfigGroup")
    async def flush_config_group(self, group_uuid: Any) -> Any:
        """The same of the nodes of one group: when each group is verified, not all nodes are asked for each."""
        await self._publisher.flush(str(group_uuid))
        return VOID

    @serves("replicateQueue")
    async def replicate_queue(self, names: FileNames, archived: JobIds) -> Any:
        await self._replicator.replicate_queue(names, archived)
        return []

    @serves("compareQueue")
    async def compare_queue(self) -> Any:
        self._replicator.refuse_deposed()
        self._replicator.compare_queue()
        return []

    @serves("replicationState")
    async def replication_state(self) -> Any:
        return self._replicator.state()

    @serves("prepareClusterDestruction")
    async def prepare_cluster_destruction(self, client: Client) -> Any:
        _log.info("%s prepares the end of the cluster: nothing is published any more", client)
        self._publisher.stop_publishing()
        return VOID


def _verify(database: str) -> list[str]:
    with ConfigReader(database).view() as view:
        return verify_all(view)
