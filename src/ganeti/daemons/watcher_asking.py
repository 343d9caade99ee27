# SPDX-License-Identifier: BSD-2-Clause
"""How the watcher and its children ask the daemons of the master."""

import time
from typing import Any

from ganeti.base.errors import TransportError, from_wire
from ganeti.wire.framing_sync import connect

ANSWER_WITHIN_S = 30.0
WAIT_S = 60.0
"""How long the master may take over an answer, besides the time a daemon has to give one."""
FINAL = ("canceled", "success", "error")


def ask(path: str, timeout_s: float, method: str, *arguments: Any) -> Any:
    """One question to a daemon's Unix socket; raises `TransportError`, or the error it answers."""
    with connect(path, timeout_s) as connection:
        connection.send({"method": method, "args": list(arguments)})
        answer = connection.receive()
    if not isinstance(answer, dict) or "success" not in answer:
        raise TransportError(f"{path} gave an answer that is none")
    if not answer["success"]:
        raise from_wire(answer.get("result"))
    return answer["result"]


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
