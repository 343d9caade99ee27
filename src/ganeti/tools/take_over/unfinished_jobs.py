# SPDX-License-Identifier: BSD-2-Clause
"""Jobs of a queue on disk that have not ended, whichever Ganeti wrote them (protocols, section 13)."""

import os
import re

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, WRONG_STATE, PrerequisiteError
from ganeti.wire.job_file import FINAL_STATUSES

_NAME = re.compile(r"job-(\d+)")


class _Op(msgspec.Struct):
    status: str


class _Job(msgspec.Struct):
    ops: list[_Op]


def unfinished_jobs(queue_dir: str) -> list[int]:
    """Give their numbers; raises `PrerequisiteError` for a file that cannot be read."""
    found = []
    try:
        names = os.listdir(queue_dir)
    except FileNotFoundError:
        return []
    for name in names:
        if (match := _NAME.fullmatch(name)) is None:
            continue
        path = f"{queue_dir}/{name}"
        try:
            with open(path, "rb") as file:
                job = msgspec.json.decode(file.read(), type=_Job)
        except FileNotFoundError:
            continue  # archived meanwhile
        except UNREADABLE_JSON as err:
            raise PrerequisiteError(f"{path} cannot be read ({err}): move it away first", WRONG_STATE) from err
        if any(op.status not in FINAL_STATUSES for op in job.ops):
            found.append(int(match[1]))
    return sorted(found)
