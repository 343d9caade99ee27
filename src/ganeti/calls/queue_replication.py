# SPDX-License-Identifier: BSD-2-Clause
"""What WConfD is asked about the copies of the queue's files, and how those files are named there."""

from collections.abc import Iterable
from typing import Protocol

DRAIN_NAME = "drain"


class Replication(Protocol):
    """The calls of WConfD that copy the queue's files."""

    async def compare_queue(self) -> None: ...

    async def replicate_queue(
        self, names: Iterable[str], archived: Iterable[int] = (), patience_s: float | None = None
    ) -> None: ...


def job_name(job_id: int) -> str:
    """The name of a job's file among those that are copied."""
    return f"job-{job_id}"


def undo_name(job_id: int) -> str:
    return f"job-{job_id}.undo"
