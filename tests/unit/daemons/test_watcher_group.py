# SPDX-License-Identifier: BSD-2-Clause
"""The watcher's child of a node group: a job tells how it is, and where none can, the nodes are asked as before."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import FakeMaster, fake_master

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.daemons import watcher_group
from ganeti.daemons.watcher_group import EXIT_WATCHED, LOW, GroupWork, status_file

GROUP, OTHER = "11111111-aaaa", "22222222-bbbb"
RENEW = "OP_UPDATE_NODE_GROUP_CACHE"
UP = {"pnode": "node1", "status": "running", "oper_ram": 128}
DOWN = {"pnode": "node1", "status": "ERROR_down", "oper_ram": None}
JOB = 7
STARTED = 8


class Cluster:
    """One node, one instance; what a job tells of it, and what the nodes say when they are asked without it."""

    def __init__(self, master: FakeMaster) -> None:
        self.master = master
        self.job_status = "success"
        self.result: Any = self.state(web1=UP)
        self.seen = [[[0, "web1"], [0, "running"], [0, "node1"]]]
        self.locks: list[Any] = []
        master.answers |= {
            "SubmitJob": lambda _: (True, JOB),
            "WaitForJobChange": self._wait,
            "ArchiveJob": lambda _: (True, True),
            "CancelJob": lambda _: (True, [True, "it waits no longer"]),
            "SubmitManyJobs": lambda _: (True, [[True, STARTED]]),
            "Query": lambda arguments: (True, {"fields": [], "data": self._rows(arguments[0])}),
        }

    @staticmethod
    def state(**instances: Any) -> dict[str, Any]:
        nodes = {"node1": {"offline": False, "bootid": "b1", "mfree": 7}}
        return {"group": {"uuid": GROUP}, "nodes": nodes, "instances": instances}

    def _wait(self, arguments: list[Any]) -> tuple[bool, Any]:
        if arguments[0] == STARTED:
            return True, [["success"], None]
        return True, [[self.job_status, [self.result]], None]

    def _rows(self, what: str) -> list[Any]:
        if what == "lock":
            return self.locks
        return self.seen if what == "instance" else [[[0, "node1"], [0, False], [0, "b1"]]]

    @property
    def calls(self) -> list[str]:
        return [f"{method} {arguments[0]}" if method == "Query" else method for method, arguments in self.master.asked]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    for directory in (found.data_dir, found.socket_dir, found.run_dir):
        os.makedirs(directory, exist_ok=True)
    return found


@pytest.fixture
def cluster(paths: Paths) -> Iterator[Cluster]:
    with fake_master(Path(paths.luxi_socket)) as master:
        yield Cluster(master)


def watch(paths: Paths, groups: list[str] | None = None) -> int:
    return GroupWork(paths, GROUP, lambda: [GROUP, OTHER] if groups is None else groups).run()


RENEWED = ["SubmitJob", "WaitForJobChange", "ArchiveJob"]
LOOKED = ["Query instance", "Query node"]


def test_where_all_is_well_the_job_says_so_and_no_node_is_asked_again(paths: Paths, cluster: Cluster) -> None:
    Path(status_file(paths, OTHER)).write_text("web9 running\n")
    assert watch(paths) == 0
    assert cluster.calls == RENEWED
    ((opcode,),) = cluster.master.arguments_of("SubmitJob")[0]
    assert (opcode["OP_ID"], opcode["group_name"], opcode["priority"]) == (RENEW, GROUP, LOW)
    assert opcode["reason"][0][0] == "gnt:watcher"
    for path in (status_file(paths, GROUP), f"{paths.run_dir}/instance-status.group-{GROUP}"):
        assert Path(path).read_text() == "web1 running\n"
    assert Path(paths.run_dir, "instance-status").read_text() == "web1 running\nweb9 running\n"


def test_before_anything_is_started_all_nodes_are_asked(paths: Paths, cluster: Cluster) -> None:
    """The job asked the nodes of one group, and the guest may run in another."""
    cluster.result = cluster.state(web1=DOWN)
    cluster.seen = [[[0, "web1"], [0, "ERROR_wrongnode"], [0, "node1"]]]
    assert watch(paths) == 0
    assert cluster.calls == RENEWED + LOOKED
    assert Path(status_file(paths, GROUP)).read_text() == "web1 ERROR_wrongnode\n"


def test_what_should_run_is_started_unless_somebody_has_it_for_himself(paths: Paths, cluster: Cluster) -> None:
    cluster.result = cluster.state(web1=DOWN)
    cluster.seen = [[[0, "web1"], [0, "ERROR_down"], [0, "node1"]]]
    cluster.locks = [[[0, "instance/web1"], [0, "exclusive"], [0, []]]]
    assert watch(paths) == 0
    assert "SubmitManyJobs" not in cluster.calls
    cluster.locks = [[[0, "instance/web1"], [0, "shared"], [0, []]]]
    assert watch(paths) == 0
    ((job,),) = cluster.master.submitted
    assert (job[0]["OP_ID"], job[0]["instance_name"]) == ("OP_INSTANCE_STARTUP", "web1")


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("SubmitJob", (False, ["OpCodeUnknown", [f"Opcode {RENEW} is not known here"]])),
        ("SubmitJob", (False, ["JobQueueFull", ["There are 5000 jobs"]])),
        ("WaitForJobChange", (False, ["JobLost", ["Job 7 not found"]])),
        ("WaitForJobChange", (True, [["error", [["OpPrereqError", ["no", "unknown_entity"]]]], None])),
        ("WaitForJobChange", (True, [["canceled", [None]], None])),
        ("WaitForJobChange", (True, [["success", []], None])),
        ("WaitForJobChange", (True, [["success", [{"nodes": 5}]], None])),
    ],
)
def test_without_a_job_the_nodes_are_asked(
    paths: Paths, cluster: Cluster, method: str, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.master.answers[method] = lambda _: answer
    assert watch(paths) == 0
    assert cluster.calls[-2:] == LOOKED
    assert Path(status_file(paths, GROUP)).read_text() == "web1 running\n"
    (said,) = caplog.messages
    assert said.startswith(f"group {GROUP}: its nodes are asked without a job: ")


def test_a_job_that_waits_too_long_is_cancelled(
    paths: Paths, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watcher_group, "STATE_WITHIN_S", 0.05)
    cluster.job_status = "queued"
    assert watch(paths) == 0
    assert cluster.master.arguments_of("CancelJob") == [[JOB]]
    assert cluster.calls[-2:] == LOOKED
    assert "job 7 has not ended within 0.05 seconds (gnt-job why 7)" in caplog.text


def test_a_group_that_was_removed_is_left_alone(
    paths: Paths, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.job_status = "error"
    cluster.seen = []
    with caplog.at_level(logging.INFO):
        assert watch(paths, groups=[OTHER]) == 0
    assert not os.path.exists(status_file(paths, GROUP))
    assert f"group {GROUP} was removed: nothing is left to do" in caplog.messages


def test_a_master_that_does_not_answer_is_an_error(paths: Paths) -> None:
    with pytest.raises(GanetiError):
        watch(paths)


def test_one_that_another_looks_after_is_left_to_it(paths: Paths, cluster: Cluster) -> None:
    path = f"{paths.lock_dir}/ganeti-watcher.{GROUP}.lock"
    os.makedirs(paths.lock_dir)
    other = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    assert watch(paths) == EXIT_WATCHED
    assert cluster.calls == []
    os.close(other)
    assert watch(paths) == 0
