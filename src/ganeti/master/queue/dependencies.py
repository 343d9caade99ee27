# SPDX-License-Identifier: BSD-2-Clause
"""Dependencies between jobs: ids, relative or not, and the final statuses that are wanted (opcodes, section 1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.errors import GanetiError, PrerequisiteError
from ganeti.wire.job_file import FINAL_STATUSES, JobFile, read_job_id


@dataclass(frozen=True)
class Dependency:
    job_id: int
    statuses: frozenset[str]
    """Final statuses that are wanted; empty: any."""


def dependencies_of(job: JobFile) -> list[Dependency]:
    """What a job waits for, over all its opcodes: a job begins only when it can run to its end."""
    return [
        Dependency(int(job_id), frozenset(statuses))
        for op in job.ops
        for job_id, statuses in op.input.get("depends") or []
    ]


def why_failed(dependency: Dependency, status: str) -> str | None:
    """A sentence if a dependency that ended with *status* can never be met, else None."""
    if not dependency.statuses or status in dependency.statuses:
        return None
    wanted = " or ".join(sorted(dependency.statuses))
    return f"Job {dependency.job_id}, which this one depends on, ended with {status} instead of {wanted}"


def resolve(depends: Any, earlier: Sequence[int | None] | None) -> list[list[Any]] | None:
    """Check `depends` and turn ids relative to a batch into absolute ones.

    *earlier* has the ids of the jobs before this one in its batch, None where one was refused; without a batch,
    relative ids are an error. Raises `PrerequisiteError`, or `GanetiError` as 3.1 does for relative ids.
    """
    if depends is None:
        return None
    if not isinstance(depends, list):
        raise PrerequisiteError("Parameter 'depends' must be a list of [job id, [final statuses]]")
    return [_resolve_one(item, earlier) for item in depends]


def _resolve_one(item: Any, earlier: Sequence[int | None] | None) -> list[Any]:
    if not isinstance(item, list) or len(item) != 2 or not isinstance(item[1], list):
        raise PrerequisiteError(f"'{item}' is not a dependency: write [job id, [final statuses]]")
    statuses = item[1]
    job_id = _read_id(item[0])
    if job_id is None:
        raise PrerequisiteError(f"'{item[0]}' is not a job id: write a number, or a negative one within a batch")
    for status in statuses:
        if not isinstance(status, str) or status not in FINAL_STATUSES:
            raise PrerequisiteError(f"'{status}' is not a final status: use {', '.join(sorted(FINAL_STATUSES))}")
    if job_id > 0:
        return [job_id, statuses]
    if earlier is None:
        raise GanetiError(f"Job id {job_id} is relative, which only means something among jobs submitted together")
    if -job_id > len(earlier):
        raise GanetiError(f"Job id {job_id} reaches before the first of the jobs submitted together")
    absolute = earlier[job_id]
    if absolute is None:
        raise GanetiError(f"Job id {job_id} stands for a job that was refused")
    return [absolute, statuses]


def _read_id(value: Any) -> int | None:
    """A job id, or a negative number for a job of the same batch."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        return None
    number = read_job_id(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number
