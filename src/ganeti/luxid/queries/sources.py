# SPDX-License-Identifier: BSD-2-Clause
"""Where the rows of queries come from: our copy of the configuration, the queue, WConfD's locks, the nodes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ganeti.base.errors import GanetiError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.copies import ask_copies
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queries.job_listing import JobLists, JobSelection
from ganeti.luxid.queries.kept_rows import KeptRows
from ganeti.luxid.queries.report_listener import ReportListener
from ganeti.luxid.queries.slices import in_idle_time, joined, of_objects, written
from ganeti.luxid.queries.state_cache import StateCache
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.query import collecting, resources
from ganeti.master.query.fields import Field, QueryWorld, Resource, StoredRows
from ganeti.master.query.filters import asked_names, check_work, compile_filter
from ganeti.master.query.jobs import JobRow
from ganeti.master.query.running import Collect, legacy_rows, selected
from ganeti.model.configuration import Configuration
from ganeti.model.copies import Copies
from ganeti.model.traits import Catalogue
from ganeti.ports.nodes import NodesPort
from ganeti.system.event_loop import Background
from ganeti.wire.framing import Pieces
from ganeti.wire.job_file import read_job_id

_YIELD_EVERY = 100
_LONG = 500
"""So many rows are more than a few milliseconds of work."""


class QuerySources:
    """Gives the rows of every resource LuxiD answers for."""

    def __init__(
        self,
        follower: ConfigFollower,
        queue: QueueDriver,
        wconfd: WConfdClient,
        catalogue: Catalogue,
        nodes: NodesPort,
    ) -> None:
        self._follower = follower
        follower.observers.append(self._coming)
        self._queue = queue
        self._wconfd = wconfd
        self._catalogue = catalogue
        self.asker = collecting.NodeAsker(nodes, self._ask_copies)
        self.cache = StateCache()
        """What nodes told last; placement keeps it up to date, too."""
        self.asker.observers.append(self.cache.note_answering)
        self._resources = resources.build(catalogue)
        self._job_lists = JobLists(queue)
        self._background = Background()
        self._renewing = False
        self._kept = {
            each.name: KeptRows(each.made_of, catalogue, lambda: self.view)
            for each in self.resources
            if each.made_of is not None
        }

    async def close(self) -> None:
        await self._background.cancel()

    def _coming(self, event: dict[str, Any]) -> Callable[[], None]:
        """A whole new configuration: what is kept would keep the old one in memory."""
        if event["event"] == "snapshot":
            for kept in self._kept.values():
                kept.forget()
        return self._renew_rows

    def _renew_rows(self) -> None:
        """Write lists anew that the change has made stale, so that no client has to wait for that."""
        if not self._renewing and any(kept.is_stale() for kept in self._kept.values()):
            self._renewing = True
            self._background.start(self._renew(), "writing the rows of long lists")

    async def _renew(self) -> None:
        try:
            for kept in self._kept.values():
                with suppress(GanetiError):
                    await in_idle_time(kept.renewed())
        finally:
            self._renewing = False

    @property
    def view(self) -> Configuration:
        return self._follower.configuration

    @property
    def catalogue(self) -> Catalogue:
        return self._catalogue

    @property
    def drained(self) -> bool:
        return self._queue.files.drained()

    @property
    def resources(self) -> list[Resource]:
        """All that LuxiD answers for."""
        return list(self._resources.values())

    def resource(self, what: Any) -> Resource:
        """Give what can be queried under a name; raises `GanetiError` as 3.1 does."""
        found = self._resources.get(what) if isinstance(what, str) else None
        if found is None:
            raise GanetiError(f"Query '{what}' not supported")
        return found

    async def rows(self, resource: Resource, qfilter: Any, fields: Sequence[str] = ()) -> list[Any]:
        """All rows in natural order; jobs only as far as the filter can want them."""
        if resource.name == "job":
            wanted = asked_names(qfilter, "id")
            return await self.jobs(wanted, archived="archived" in fields or _mentions(qfilter, "archived"))
        if resource.rows_of_locks is not None:
            return await resource.rows_of_locks(self._wconfd)
        if resource.rows_of_nodes is not None:
            return await resource.rows_of_nodes(self.view, self.asker, asked_names(qfilter, resource.key) or ())
        if resource.rows is None:
            return []
        world, wanted = QueryWorld(self.view, self._catalogue), asked_names(qfilter, resource.key)
        if wanted is not None and isinstance(resource.rows, StoredRows):
            found = resource.rows.named(world, wanted)
            if found is not None:
                return found
        return resource.rows(world)

    def collector(self, *, cached: bool = True) -> Collect:
        """What asks the nodes, and WConfD for the state of the copies, for live fields.

        With *cached*, what nodes said a moment ago is taken for what they say now (S1.50, S1.51).
        """
        world = QueryWorld(self.view, self._catalogue)
        listener = ReportListener(self.cache, serves=cached)
        inquiry = collecting.Inquiry(world, self.asker, self._ask_copies, listener, lambda: asyncio.sleep(0))
        return collecting.collector(inquiry)

    async def _ask_copies(self) -> Copies:
        return await ask_copies(self._wconfd)

    async def job_list(self, names: Sequence[str], qfilter: Any) -> tuple[list[Field], Pieces]:
        """Answer a query for jobs that is not for certain ids: the fields, and [status, value] of each, per row."""
        jobs = self.resource("job")
        fields = selected(jobs, names)
        predicate, used = compile_filter(qfilter, jobs.fields)
        archived = "archived" in names or "archived" in used
        check_work(qfilter, len(self._queue.machine.jobs) + len(self._queue.machine.ended))
        return fields, await self._job_lists.rows(JobSelection(fields, predicate, archived=archived))

    async def long_list(
        self, resource: Resource, names: Sequence[str], qfilter: Any
    ) -> tuple[list[Field], Pieces] | None:
        """Answer a query for very many objects of which no node is asked; None where it is no such query.

        Where an object that others name has gone meanwhile, the query is answered at one moment, as any other is.
        """
        if resource.rows is None or asked_names(qfilter, resource.key) is not None:
            return None
        fields = selected(resource, names)
        predicate, used = compile_filter(qfilter, resource.fields)
        if any(field.live for field in (*fields, *(resource.fields[name] for name in used))):
            return None
        with suppress(GanetiError):
            if (kept := self._kept.get(resource.name)) is not None:
                check_work(qfilter, len(kept))
                pieces = kept.pieces(fields, None if qfilter is None else predicate)
                return (fields, await joined(pieces)) if len(kept) >= _LONG else None
            rows = resource.rows(QueryWorld(self.view, self._catalogue))
            if len(rows) < _LONG:
                return None
            check_work(qfilter, len(rows))
            return fields, await written(of_objects(rows, fields, predicate))
        return None

    async def plain_job_list(self, ids: Sequence[Any] | None, names: Sequence[str]) -> Pieces:
        """Values alone; for a job that does not exist, a row with its id and nothing else."""
        jobs = self.resource("job")
        fields = selected(jobs, names)
        legacy_rows(jobs, fields, [])
        predicate, _ = compile_filter(None, jobs.fields)
        wanted = None if ids is None else _job_ids(ids)
        return await self._job_lists.rows(JobSelection(fields, predicate, wanted, plain=True))

    async def jobs(self, wanted: Sequence[Any] | None, *, archived: bool = False) -> list[JobRow]:
        """Jobs by id, with a place kept for those that do not exist, or all."""
        ids = _job_ids(wanted) if wanted is not None else self._queue.job_ids(archived=archived)
        rows: list[JobRow] = []
        for position, job_id in enumerate(ids):
            if position % _YIELD_EVERY == _YIELD_EVERY - 1:
                await asyncio.sleep(0)
            file = self._queue.readable_job(job_id)
            if file is not None or wanted is not None:
                archived = file is not None and self._queue.machine.status_of(job_id) is None
                rows.append(JobRow(job_id, file, archived))
        return rows


def _job_ids(wanted: Sequence[Any]) -> list[int]:
    return list(dict.fromkeys(job_id for item in wanted if (job_id := read_job_id(item)) is not None))


def _mentions(qfilter: Any, field: str) -> bool:
    left = [qfilter]
    while left:
        part = left.pop()
        if part == field:
            return True
        left += part if isinstance(part, list) else []
    return False
