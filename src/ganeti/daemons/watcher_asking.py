# SPDX-License-Identifier: BSD-2-Clause
"""How long the watcher and its children wait for the daemons of the master, and how they follow a job."""

import time
from typing import Any

from ganeti.wire.framing_sync import ask

ANSWER_WITHIN_S = 30.0
WAIT_S = 60.0
"""How long the master may take over an answer, besides the time a daemon has to give one."""
FINAL = ("canceled", "success", "error")


def follow(path: str, job_id: int, fields: list[str], deadline_s: float) -> list[Any] | None:
    """Values of a job's *fields*, the status being the first, once it has ended; None if not by *deadline_s*.

    It is asked once even then. Of its log only what is new is asked for: the rest would be an answer at once, for ever.
    """
    values: list[Any] | None = None
    serial: int | None = None
    while True:
        left_s = max(deadline_s - time.monotonic(), 0.0)
        arguments = (job_id, fields, values, serial, min(left_s, WAIT_S))
        values, entries = ask(path, ANSWER_WITHIN_S + WAIT_S, "WaitForJobChange", *arguments)
        if values and values[0] in FINAL:
            return values
        if left_s <= 0:
            return None
        if entries:
            serial = max(entry[0] for entry in entries)
