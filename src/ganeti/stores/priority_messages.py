# SPDX-License-Identifier: BSD-2-Clause
"""New priorities for jobs that have a process: a file `luxidmessages/JOBID.prio`, then SIGUSR1 (protocols, section 13).

LuxiD leaves the message; the job takes it, or LuxiD itself, where the job was handed back before it could.
"""

import os
from contextlib import suppress

from ganeti.base.paths import Paths
from ganeti.system.files import read_if_there, write_atomically

HIGHEST_PRIORITY = -20
LOWEST_PRIORITY = 19
_DIRECTORY_MODE = 0o750


def leave(paths: Paths, job_id: int, priority: int) -> None:
    """Write the message for a job, in place of one it has not taken yet. Raises `OSError`."""
    path = _path(paths, job_id)
    os.makedirs(os.path.dirname(path), mode=_DIRECTORY_MODE, exist_ok=True)
    write_atomically(path, b"%d\n" % priority, durable=False)


def take(paths: Paths, job_id: int) -> int | None:
    """Give the priority left for a job, and remove the message; None if there is none, or none that makes sense."""
    path = _path(paths, job_id)
    raw = read_if_there(path)
    if raw is None:
        return None
    with suppress(FileNotFoundError):
        os.unlink(path)
    try:
        priority = int(raw)
    except ValueError:
        return None
    return priority if HIGHEST_PRIORITY <= priority <= LOWEST_PRIORITY else None


def _path(paths: Paths, job_id: int) -> str:
    return f"{paths.run_dir}/luxidmessages/{job_id}.prio"
