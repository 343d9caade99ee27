# SPDX-License-Identifier: BSD-2-Clause
"""The node daemon's part of the flight recorder: each call of a job that was to change something, and its outcome."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, GanetiError, from_wire
from ganeti.base.paths import Paths
from ganeti.model.node_requests import InstanceSpec
from ganeti.system.flight_record import FlightRecord, job, names_in


class CallRecord:
    """Arguments are never written, but for the names of instances and nodes: they may hold secrets."""

    def __init__(self, paths: Paths) -> None:
        self._record = FlightRecord(paths.log_dir, "node-daemon")

    def tell(self, job_id: int, call: str, arguments: Mapping[str, Any], answer: bytes, took_s: float) -> None:
        specs = [value.name for value in arguments.values() if isinstance(value, InstanceSpec)]
        about = [job(job_id), *specs, *names_in(arguments)]
        self._record.note(about, f"job {job_id}: {call} {_outcome(answer)} after {took_s:.2f} s")

    def tell_of(self, instance: str, text: str) -> None:
        """What the daemon did to an instance by itself."""
        self._record.note([instance], text)

    def close(self) -> None:
        self._record.close()


def _outcome(answer: bytes) -> str:
    if answer.startswith(b"[true"):
        return "ended"
    try:
        error = from_wire(msgspec.json.decode(answer)[1])
    except (*UNREADABLE_JSON, GanetiError, IndexError, TypeError) as err:
        return f"failed in a way that cannot be read ({err})"
    return f"failed ({error})"
