# SPDX-License-Identifier: BSD-2-Clause
"""The steps of one move. Whatever fails, the source keeps its instance and the destination has none.

A destination of this program lets the source hear of success only when the instance is in its configuration. If it dies
between the two, both have it, and the user is told.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from ganeti.base.errors import ExecutionError, GanetiError, PrerequisiteError
from ganeti.tools.move_instance.cluster import Cluster, Job
from ganeti.tools.move_instance.request import MoveRequest, creation, export

REMOTE_IMPORT = "remote-import"


class Move:
    """One instance on its way."""

    def __init__(
        self,
        source: Cluster,
        destination: Cluster,
        name: str,
        wanted: MoveRequest,
        stop: threading.Event,
        say: Callable[[str], None],
        *,
        opportunistic_tries: int,
        opportunistic_delay_s: float,
    ) -> None:
        self._source = source
        self._destination = destination
        self._name = name
        self._wanted = wanted
        self._stop = stop
        self._out = say
        self._tries = opportunistic_tries
        self._delay_s = opportunistic_delay_s

    def run(self) -> None:
        """Raises `GanetiError`; then everything is as before, or the sentence says what is not."""
        described = self._source.submit("GET", f"/2/instances/{self._name}/info", static=1).result(self._quiet)
        source = described[self._name] if self._name in described else next(iter(described.values()))
        tags = self._source.get(f"/2/instances/{source['name']}")["tags"]
        if not source["os"]:
            raise PrerequisiteError(
                f"Instance {source['name']} has no OS, whose scripts would read and write its disks: name one that it "
                "can be installed with (gnt-instance modify -O OS)"
            )
        networks = {str(each["name"]) for each in self._destination.get("/2/networks")}
        self._say("preparing its export")
        prepare = self._source.submit("PUT", f"/2/instances/{source['name']}/prepare-export", mode="remote")
        prepared = prepare.result(self._say)
        for attempt in range(self._tries + 1):
            opportunistic = attempt < self._tries
            body = creation(source, tags, prepared, self._wanted, networks, opportunistic=opportunistic)
            try:
                self._transfer(source, prepared, body)
                return
            except _NoPlaceNow as err:
                self._say(f"{err}; trying again")
                self._stop.wait(self._delay_s)

    def _transfer(self, source: dict[str, Any], prepared: dict[str, Any], body: dict[str, Any]) -> None:
        receiving = self._destination.submit("POST", "/2/instances", body)
        self._say(f"{receiving} makes {body['instance_name']}")
        sending: Job | None = None
        try:
            waiting = receiving.wait_for_entry(REMOTE_IMPORT, self._say)
            request = export(prepared, waiting, self._wanted)
            sending = self._source.submit("PUT", f"/2/instances/{source['name']}/export", request)
            self._say(f"{sending} sends its disks")
            self._watch(sending, receiving, body["instance_name"])
        except BaseException as err:
            for job in (sending, receiving):
                if job is not None:
                    job.end(self._say)
            if sending is None and receiving.error and "opportunistic_locking" in body:
                raise _NoPlaceNow(str(err)) from err
            raise

    def _watch(self, sending: Job, receiving: Job, new_name: str) -> None:
        """Wait until both have ended; the failure of one is not waited for in the other."""
        failures: list[GanetiError] = []

        def follow(job: Job, other: Job) -> None:
            try:
                job.result(self._say)
            except GanetiError as err:
                failures.append(err)
                time.sleep(1.0)  # the other usually sees it by itself, and says more than "cancelled"
                other.end(self._say)

        thread = threading.Thread(target=follow, args=(receiving, sending))
        thread.start()
        follow(sending, receiving)
        thread.join()
        if failures and not (sending.succeeded() and receiving.succeeded()):  # as when it was stopped too late
            others = "; ".join(str(err) for err in failures[1:])
            told = f"{failures[0]}" + (f" ({others})" if others else "")
            raise ExecutionError(told + self._where_it_is(new_name)) from failures[0]

    def _where_it_is(self, new_name: str) -> str:
        """A sentence if both clusters have it: the destination died, or lost the connection, after its last commit."""
        found = [
            cluster.name
            for cluster, name in ((self._source, self._name), (self._destination, new_name))
            if _has(cluster, name)
        ]
        if len(found) < 2:
            return ""
        return (
            f". Both clusters have it: {found[1]} made {new_name} before this went wrong, and {found[0]} runs "
            f"{self._name} again. Shut it down on one of them now (gnt-instance shutdown), and remove it there "
            "(gnt-instance remove)"
        )

    def _say(self, text: str) -> None:
        self._out(f"{self._name}: {text}")

    def _quiet(self, text: str) -> None:
        """What a description says on its way is of no interest here."""


def _has(cluster: Cluster, name: str) -> bool:
    try:
        cluster.get(f"/2/instances/{name}")
    except GanetiError:
        return False
    return True


class _NoPlaceNow(ExecutionError):
    """The destination found no place on nodes that are free of locks, or does not look for one in that way."""
