# SPDX-License-Identifier: BSD-2-Clause
"""The watcher's child of a node group: a job tells how it is, and where none can, the nodes are asked as before."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.luxi_master import FakeMaster, fake_master

from ganeti.base.errors import GanetiError, TransportError
from ganeti.base.paths import Paths
from ganeti.daemons import watcher_group, watcher_lock
from ganeti.daemons.watcher_group import EXIT_WATCHED, LOW, GroupWork, data_file, status_file

GROUP, OTHER = "11111111-aaaa", "22222222-bbbb"
RENEW = "OP_UPDATE_NODE_GROUP_CACHE"
UP = {"pnode": "node1", "status": "running", "oper_ram": 128}
DOWN = {"pnode": "node1", "status": "ERROR_down", "oper_ram": None}
JOB = 7
STARTED = 8
LOG_LINE = [3, [0, 0], "message", "it waits"]


def seen(status: str, name: str = "web1") -> list[Any]:
    """An instance as nodes tell of it."""
    return [[0, GROUP], [0, name], [0, status], [0, "node1"], [0, "up"]]


class Cluster:
    """One node, one instance; what a job tells of it, and what the nodes say when they are asked without it.

    A start succeeds at once, unless `start_status` is of a job that has not ended; then `log` is what that has said.
    """

    def __init__(self, master: FakeMaster) -> None:
        self.master = master
        self.job_status = "success"
        self.start_status = "success"
        self.drained = False
        self.log: list[Any] = []
        self.result: Any = self.state(web1=UP)
        self.seen = [seen("running")]
        self.locks: list[Any] = []
        master.answers |= {
            "SubmitJob": lambda _: (True, JOB),
            "WaitForJobChange": self._wait,
            "ForgetRenewal": lambda _: (True, True),
            "CancelJob": lambda _: (True, [True, "it waits no longer"]),
            "SubmitManyJobs": lambda _: (True, [[True, STARTED]]),
            "QueryConfigValues": lambda _: (True, [self.drained]),
            "Query": lambda arguments: (True, {"fields": [], "data": self._rows(arguments[0])}),
        }

    @staticmethod
    def state(**instances: Any) -> dict[str, Any]:
        nodes = {"node1": {"offline": False, "bootid": "b1", "mfree": 7}}
        return {"group": {"uuid": GROUP}, "nodes": nodes, "instances": instances}

    def _wait(self, arguments: list[Any]) -> tuple[bool, Any]:
        """As LuxiD: at once when something is new or the job has ended, or else when the time is over."""
        job_id, _, previous, serial, timeout_s = arguments
        values = [self.start_status] if job_id == STARTED else [self.job_status, [self.result]]
        entries = [entry for entry in self.log if serial is None or entry[0] > serial]
        if values == previous and not entries and values[0] not in ("success", "error", "canceled"):
            time.sleep(timeout_s)
        return True, [values, entries or None]

    def _rows(self, what: str) -> list[Any]:
        if what == "lock":
            return self.locks
        return self.seen if what == "instance" else [[[0, GROUP], [0, "node1"], [0, False], [0, "b1"]]]

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


def watch(paths: Paths, groups: list[str] | None = None, **options: bool) -> int:
    return GroupWork(paths, GROUP, lambda: [GROUP, OTHER] if groups is None else groups, **options).run()


def attempts(paths: Paths) -> dict[str, Any]:
    path = Path(data_file(paths, GROUP))
    return dict(json.loads(path.read_text())["instance"]) if path.exists() else {}


@pytest.fixture
def down(cluster: Cluster) -> Cluster:
    """The instance should run and does not, until it is started."""

    def start(_: list[Any]) -> tuple[bool, Any]:
        cluster.seen = [seen("running")]
        return True, [[True, STARTED]]

    cluster.result = cluster.state(web1=DOWN)
    cluster.seen = [seen("ERROR_down")]
    cluster.master.answers["SubmitManyJobs"] = start
    return cluster


RENEWED = ["SubmitJob", "WaitForJobChange", "ForgetRenewal"]
LOOKED = ["Query instance", "Query node"]


@pytest.mark.requirement("S1.43", "S1.57", "S1.62")
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
    cluster.seen = [seen("ERROR_wrongnode")]
    assert watch(paths) == 0
    assert cluster.calls == [*RENEWED, "Query lock", *LOOKED]
    assert [arguments[3] for arguments in cluster.master.arguments_of("Query")[1:]] == [{"cache": "off"}] * 2
    assert Path(status_file(paths, GROUP)).read_text() == "web1 ERROR_wrongnode\n"


@pytest.mark.requirement("S1.57")
def test_what_is_down_is_started_and_followed_and_then_all_is_looked_at_again(paths: Paths, down: Cluster) -> None:
    assert watch(paths) == 0
    started = ["QueryConfigValues", "SubmitManyJobs", "WaitForJobChange"]
    assert down.calls == [*RENEWED, "Query lock", *LOOKED, "Query lock", *started, *LOOKED]
    ((job,),) = down.master.submitted
    assert (job[0]["OP_ID"], job[0]["instance_name"]) == ("OP_INSTANCE_STARTUP", "web1")
    assert job[0]["reason"][0][:2] == ["gnt:watcher", "restart"]
    assert Path(status_file(paths, GROUP)).read_text() == "web1 running\n"
    assert Path(paths.run_dir, "instance-status").read_text() == "web1 running\n"


def test_where_there_is_no_room_to_say_how_instances_are_they_are_started(
    paths: Paths, down: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = watcher_group.write_atomically

    def without_room(path: str, *arguments: Any, **options: Any) -> None:
        if "status" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        write(path, *arguments, **options)

    monkeypatch.setattr(watcher_group, "write_atomically", without_room)
    assert watch(paths) == 0
    assert "SubmitManyJobs" in down.calls
    assert f"{status_file(paths, GROUP)}: No space left on device; make room on its file system" in caplog.text


WEB1 = "instance/web1"


@pytest.mark.parametrize(
    ("lock", "busy"),
    [
        ([[0, WEB1], [0, "exclusive"], [0, []]], True),
        ([[0, WEB1], [0, None], [0, [["exclusive", ["5"]]]]], True),
        ([[0, WEB1], [0, "shared"], [0, [["shared", ["4"]], ["exclusive", ["5"]]]]], True),
        ([[0, "instance/[lockset]"], [0, "exclusive"], [0, []]], True),
        ([[0, WEB1], [0, "shared"], [0, []]], False),
        ([[0, WEB1], [0, None], [0, [["shared", ["5"]]]]], False),
        ([[0, "instance/web2"], [0, "exclusive"], [0, []]], False),
        ([[0, "node/web1"], [0, "exclusive"], [0, []]], False),
    ],
)
def test_it_is_left_alone_where_a_job_has_it_for_itself_or_waits_for_that(
    paths: Paths, down: Cluster, lock: Any, busy: bool
) -> None:
    down.locks = [lock]
    assert watch(paths) == 0
    assert ("SubmitManyJobs" not in down.calls) == busy


@pytest.mark.parametrize("when", [1, 2])
def test_a_job_that_has_it_before_or_after_the_nodes_answer_has_it(paths: Paths, down: Cluster, when: int) -> None:
    rows = down._rows

    def held_once(what: str) -> list[Any]:
        if what == "lock":
            return [[[0, WEB1], [0, "exclusive"], [0, []]]] if down.calls.count("Query lock") == when else []
        return rows(what)

    down._rows = held_once  # type: ignore[method-assign]
    assert watch(paths) == 0
    assert down.calls.count("Query lock") == 2
    assert "SubmitManyJobs" not in down.calls


@pytest.mark.requirement("S1.61")
def test_an_attempt_is_kept_before_it_is_made_and_taken_back_where_it_was_none(paths: Paths, down: Cluster) -> None:
    assert data_file(paths, GROUP) == f"{paths.data_dir}/watcher.{GROUP}.data"
    kept: list[Any] = []

    def answer(*given: Any) -> Any:
        def submit(_: list[Any]) -> tuple[bool, Any]:
            kept.append(attempts(paths)["web1"]["restart_count"])
            return given

        return submit

    down.master.answers["SubmitManyJobs"] = answer(True, [[False, "web1 is not known"]])
    for _ in range(7):
        assert watch(paths) == 0
    down.master.answers["SubmitManyJobs"] = answer(False, ["JobQueueFull", ["There are 5000 jobs"]])
    with pytest.raises(GanetiError):
        watch(paths)
    assert (kept, attempts(paths)) == ([1] * 8, {}), "nobody has tried"
    down.master.answers["SubmitManyJobs"] = answer(True, [[True, STARTED]])
    assert watch(paths) == 0
    assert attempts(paths)["web1"]["restart_count"] == 1
    down.master.answers["SubmitManyJobs"] = answer(True, [[False, "web1 is not known"]])
    assert watch(paths) == 0
    assert attempts(paths)["web1"]["restart_count"] == 1, "the first attempt was one"


@pytest.mark.parametrize(("ends", "jobs", "left"), [("success", 7, {}), ("error", 5, {"cleanup_count": 5})])
def test_one_that_its_user_shuts_down_again_and_again_is_marked_each_time_that_works(
    paths: Paths, cluster: Cluster, ends: str, jobs: int, left: dict[str, int]
) -> None:
    """It ran in between, which no round has seen: only marks that fail one after the other count."""
    Path(data_file(paths, GROUP)).write_text(
        json.dumps({"node": {}, "instance": {"web1": {"restart_count": 2, "restart_when": time.time()}}})
    )
    cluster.result = cluster.state(web1=DOWN | {"status": "USER_down"})
    cluster.seen, cluster.start_status = [seen("USER_down")], ends
    for _ in range(7):
        assert watch(paths) == 0
    submitted = [job[0]["OP_ID"] for (job,) in cluster.master.submitted]
    assert submitted == ["OP_INSTANCE_SHUTDOWN"] * jobs
    kept = attempts(paths).get("web1", {})
    assert {key: count for key, count in kept.items() if key == "cleanup_count"} == left
    assert ("restart_count" in kept) == (ends == "error")


def test_where_nobody_knows_whether_a_start_was_taken_it_was(
    paths: Paths, down: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = watcher_group.ask

    def lost(path: str, timeout_s: float, method: str, *arguments: Any) -> Any:
        if method == "SubmitManyJobs":
            raise TransportError("The connection broke")
        return ask(path, timeout_s, method, *arguments)

    monkeypatch.setattr(watcher_group, "ask", lost)
    with pytest.raises(TransportError):
        watch(paths)
    assert attempts(paths)["web1"]["restart_count"] == 1


@pytest.mark.parametrize("cancelled", [True, False])
def test_all_starts_have_one_deadline_and_what_has_not_begun_is_no_attempt(
    paths: Paths, down: Cluster, monkeypatch: pytest.MonkeyPatch, cancelled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"web{number}" for number in range(1, 6)]
    down.result = down.state(**dict.fromkeys(names, DOWN))
    down.seen = [seen("ERROR_down", name) for name in names]
    down.start_status = "queued" if cancelled else "running"
    down.master.answers["SubmitManyJobs"] = lambda _: (True, [[True, STARTED]] * 5)
    down.master.answers["CancelJob"] = lambda _: (True, [cancelled, "said so"])
    monkeypatch.setattr(watcher_group, "STARTS_WITHIN_S", 0.2)
    begun_s = time.monotonic()
    assert watch(paths) == 0
    assert time.monotonic() - begun_s < 0.8, "not 0.2 seconds for each"
    assert len(down.master.arguments_of("CancelJob")) == 5
    assert sorted(attempts(paths)) == ([] if cancelled else names)
    assert "job 8 for web5 has not ended within 0.2 seconds: said so" in caplog.messages


def test_what_a_job_has_logged_is_heard_once(paths: Paths, down: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher_group, "STATE_WITHIN_S", 0.2)
    monkeypatch.setattr(watcher_group, "STARTS_WITHIN_S", 0.2)
    down.log, down.job_status, down.start_status = [LOG_LINE], "running", "running"
    assert watch(paths) == 0
    assert [call[3] for call in down.master.arguments_of("WaitForJobChange")] == [None, 3, 3] * 2


def test_a_pause_or_a_drained_queue_is_heeded_at_the_last_moment(paths: Paths, down: Cluster) -> None:
    down.drained = True
    assert watch(paths, ignore_pause=True) == 0
    down.drained = False
    Path(paths.watcher_pause_file).write_text(f"{int(time.time()) + 600}\n")
    assert watch(paths) == 0
    assert "SubmitManyJobs" not in down.calls
    assert attempts(paths) == {}
    assert Path(status_file(paths, GROUP)).read_text() == "web1 ERROR_down\n"
    assert watch(paths, ignore_pause=True) == 0
    assert "SubmitManyJobs" in down.calls


def test_of_an_instance_that_was_in_another_group_the_newest_line_counts(paths: Paths, cluster: Cluster) -> None:
    other = Path(status_file(paths, OTHER))
    other.write_text("web1 ERROR_down\nweb9 running\n")
    os.utime(other, (1, 1))
    assert watch(paths) == 0
    assert Path(paths.run_dir, "instance-status").read_text() == "web1 running\nweb9 running\n"
    future_s = time.time() + 60
    os.utime(other, (future_s, future_s))
    assert watch(paths) == 0
    assert Path(paths.run_dir, "instance-status").read_text() == "web1 ERROR_down\nweb9 running\n"


def test_the_file_of_all_groups_is_waited_for_but_not_for_ever(
    paths: Paths, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    os.makedirs(paths.lock_dir)
    other = os.open(f"{paths.lock_dir}/ganeti-watcher-status.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    merged = Path(paths.run_dir, "instance-status")
    monkeypatch.setattr(watcher_group, "STATUS_WITHIN_S", 0.05)
    assert watch(paths) == 0
    assert not merged.exists()
    assert "instance-status stays as it is" in caplog.text
    monkeypatch.setattr(watcher_group, "STATUS_WITHIN_S", 60.0)
    monkeypatch.setattr(watcher_lock.time, "sleep", lambda _: os.close(other))
    assert watch(paths) == 0
    assert merged.read_text() == "web1 running\n"


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


@pytest.mark.requirement("S1.57", "S1.58")
def test_one_that_another_looks_after_is_left_to_it(paths: Paths, cluster: Cluster) -> None:
    path = f"{paths.lock_dir}/ganeti-watcher.{GROUP}.lock"
    os.makedirs(paths.lock_dir)
    other = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    assert watch(paths) == EXIT_WATCHED
    assert cluster.calls == []
    os.close(other)
    assert watch(paths) == 0
