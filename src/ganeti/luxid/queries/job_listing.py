# SPDX-License-Identifier: BSD-2-Clause
"""Lists of very many jobs, made in slices (`slices`): their files are read, filtered and forgotten on the way."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.luxid.queries.slices import written
from ganeti.luxid.queue.driver import QueueDriver
from ganeti.master.query.fields import Field
from ganeti.master.query.filters import passes
from ganeti.master.query.jobs import JobRow
from ganeti.master.query.running import cell
from ganeti.master.three_valued import Predicate
from ganeti.stores.job_files_reader import JobFilesReader
from ganeti.wire.framing import Pieces


@dataclass(frozen=True)
class JobSelection:
    """Which jobs a list is to hold, and how."""

    fields: Sequence[Field]
    predicate: Predicate
    ids: Sequence[int] | None = None
    """In this order, and with a place kept for those that do not exist; None for all there are."""
    archived: bool = False
    plain: bool = False
    """Values alone, as the calls from before the query language give them."""


class JobLists:
    """Makes one list at a time: several at once would only take turns with each other."""

    def __init__(self, queue: QueueDriver) -> None:
        self._queue = queue
        self._one = asyncio.Lock()

    async def rows(self, wanted: JobSelection) -> Pieces:
        """Give the JSON list of the rows."""
        async with self._one:
            ids = wanted.ids if wanted.ids is not None else await self._all_ids(wanted.archived)
            return await written(self._rows(ids, wanted))

    async def _all_ids(self, archived: bool) -> list[int]:
        ids = self._queue.job_ids()
        if archived:
            ids += await asyncio.to_thread(self._queue.files.archived_ids)
            ids = sorted(set(ids))
        return ids

    def _rows(self, ids: Iterable[int], wanted: JobSelection) -> Iterator[list[Any] | None]:
        """Each job's row, or None where the filter does not want it."""
        machine = self._queue.machine
        fields, predicate = wanted.fields, wanted.predicate
        with JobFilesReader(self._queue.files) as reader:
            for job_id in ids:
                live = machine.jobs.get(job_id)
                file = live.file if live is not None else reader.readable_job(job_id)
                row = JobRow(job_id, file, file is not None and machine.status_of(job_id) is None)
                if (file is None and wanted.ids is None) or not passes(predicate, row):
                    yield None
                    continue
                cells = [cell(field, row) for field in fields]
                yield [value for _, value in cells] if wanted.plain else cells
