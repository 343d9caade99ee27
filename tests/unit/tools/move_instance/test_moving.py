# SPDX-License-Identifier: BSD-2-Clause
"""The steps of a move against two clusters that answer from a list."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.unit.tools.move_instance.test_request import PREPARED, SOURCE

from ganeti.base.errors import ExecutionError, PrerequisiteError
from ganeti.tools.move_instance.cluster import Access, Cluster
from ganeti.tools.move_instance.moving import Move
from ganeti.tools.move_instance.request import MoveRequest

WAITING = [[[1, [0, 0], "remote-import", {"disks": [["h", 1, "m", "d", "s"]], "x509_ca": "ca"}]]]


class Told(Cluster):
    """A cluster whose jobs have ended, as *states* says by the path that submitted them."""

    def __init__(self, name: str, states: dict[str, list[dict[str, Any]]]) -> None:
        self.stop = threading.Event()
        super().__init__(Access(name), self.stop, lambda text: None)
        self.states = states
        self.has_none = False
        self.jobs: list[dict[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []

    def _ask(self, method: str, path: str, query: dict[str, Any], body: Any, *, tries: int) -> Any:
        if path.startswith("/2/jobs/"):
            job = self.jobs[int(path.rpartition("/")[2])]
            if method == "DELETE":
                job["status"] = job.pop("then")
            return job
        for part, states in self.states.items():
            if path.endswith(part):
                self.asked.append((part, body))
                self.jobs.append(states.pop(0))
                return len(self.jobs) - 1
        if self.has_none and path.startswith("/2/instances/"):
            raise PrerequisiteError("404")
        return [] if path.endswith("networks") else {"tags": ["a"]}


def success(result: Any, log: Any = ()) -> dict[str, Any]:
    return {"status": "success", "opresult": [result], "oplog": list(log)}


def failure(words: str) -> dict[str, Any]:
    return {"status": "error", "opresult": [["OpPrereqError", [words, "x"]]], "oplog": []}


def move(
    receiving: list[dict[str, Any]],
    sending: list[dict[str, Any]],
    *,
    arrives: bool = True,
    stopped: bool = False,
    **options: Any,
) -> tuple[Told, Told, list[str]]:
    source = Told(
        "one", {"info": [success({"web1": SOURCE})], "prepare-export": [success(PREPARED)], "export": sending}
    )
    destination = Told("two", {"/2/instances": receiving})
    destination.has_none = not arrives
    said: list[str] = []
    fields = {"opportunistic_tries": 0, "opportunistic_delay_s": 0.0} | options
    if stopped:
        source.stop.set()
        destination.stop.set()
    Move(source, destination, "web1", MoveRequest(), source.stop, said.append, **fields).run()
    return source, destination, said


def test_a_move_is_prepared_received_and_sent() -> None:
    source, destination, _ = move([success([], WAITING)], [success([True, [True]])])
    assert [part for part, _ in source.asked] == ["info", "prepare-export", "export"]
    assert source.asked[-1][1]["destination"] == [["h", 1, "m", "d", "s"]]
    assert destination.asked[0][1]["source_handshake"] == PREPARED["handshake"]


def test_what_is_tried_on_free_nodes_first_is_tried_on_all_then() -> None:
    _, destination, said = move(
        [failure("no room"), failure("no room"), success([], WAITING)], [success([True, [True]])], opportunistic_tries=2
    )
    assert ["opportunistic_locking" in body for _, body in destination.asked] == [True, True, False]
    assert len([text for text in said if "no room; trying again" in text]) == 2


def test_the_words_of_the_job_that_failed_are_told() -> None:
    with pytest.raises(ExecutionError, match=r"job 0 of two failed: no node"):
        move([failure("no node")], [])
    with pytest.raises(ExecutionError, match=r"job 2 of one failed: no way$"):
        move([success([], WAITING)], [failure("no way")], arrives=False)


def test_an_instance_that_both_clusters_have_is_told() -> None:
    """The destination has made it, and died before the source heard of it."""
    told = (
        r"no way\. Both clusters have it: two made web1 before this went wrong, and one runs web1 again\. Shut it down"
    )
    with pytest.raises(ExecutionError, match=told):
        move([success([], WAITING)], [failure("no way")])


def test_who_stops_it_is_told_whether_it_had_moved() -> None:
    """The jobs may end well before they hear that they are cancelled."""
    too_late = {"status": "running", "then": "success"}
    move([success([], WAITING) | too_late], [success([True, [True]]) | too_late], stopped=True)
    in_time = {"status": "running", "then": "canceled"}
    with pytest.raises(ExecutionError, match="Stopped"):
        move([success([], WAITING) | in_time], [success([]) | in_time], stopped=True, arrives=False)
