# SPDX-License-Identifier: BSD-2-Clause
"""Things go wrong on the nodes: every job ends in time and in error, undone, and the others go on meanwhile.

Guests are pretended, everything else is real: daemons, file systems that are full, scripts that fail or hang, nodes
that hang or lose their power, and daemons killed over and over again while jobs run.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.fake_bed import MASTER, FakeBed

from ganeti.tools.testbed import bed, cluster, machine, processes
from ganeti.wire.job_file import FINAL_STATUSES

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NO_CRON_S = 86400
PATIENCE = "0.2"
"""Of the usual time, how long a node may be silent before it counts as dead."""
SILENT_NODE_S = 45.0
KILLING_S = 600.0 if os.environ.get("GANETI_CAMPAIGN") else 20.0
FAIL = "/run/ganeti/fake-hypervisor/.fail"
SHARED = ("-t", "sharedfile", "-s", "8m")
AUTO_ARCHIVE = """
import socket
with socket.socket(socket.AF_UNIX) as luxi:
    luxi.connect("/run/ganeti/socket/ganeti-master")
    luxi.sendall(b'{"method": "AutoArchiveJobs", "args": [-1, 10]}\\x03')
    print(luxi.recv(1 << 16)[:-1].decode())
"""
MASTER_DAEMONS = ("ganeti-wconfd", "ganeti-luxid", "ganeti-noded")


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("faults").resolve(), 3, "fake", watcher_interval_s=NO_CRON_S)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        found.run("daemon-util", "stop", "ganeti-luxid")
        found.run("env", f"GANETI_PATIENCE={PATIENCE}", "daemon-util", "start", "ganeti-luxid")
        yield found
    finally:
        bed.down(layout)


@pytest.fixture(autouse=True)
def clean(fake_bed) -> Iterator[None]:
    """Each test begins on an empty cluster, and leaves one: what it made goes, and nothing else is there."""
    yield
    for node in fake_bed.layout.nodes:
        fake_bed.run("rm", "-rf", FAIL, node=node.name)
    names = [instance["name"] for instance in fake_bed.config()["instances"].values()]
    for name in names:
        fake_bed.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", name)
    fake_bed.check()


def tell_to_fail(bed: FakeBed, node: str, method: str, what: str) -> None:
    bed.run("sh", "-c", f"mkdir -p {FAIL} && echo {shlex.quote(what)} > {FAIL}/{method}", node=node)


def heal(bed: FakeBed, node: str) -> None:
    bed.run("sh", "-c", f"rm -rf {FAIL}", node=node)


def add(bed: FakeBed, name: str, node: str, *words: str) -> None:
    bed.run("gnt-instance", "add", *(words or SHARED), "-o", "noop+default", "-n", node, name)


def submit_add(bed: FakeBed, name: str, node: str, *words: str, os_name: str = "noop+default") -> int:
    return bed.submit("gnt-instance", "add", *(words or SHARED), "-o", os_name, "-n", node, name)


def ended(bed: FakeBed, job: int, within_s: float = 20.0) -> str:
    bed.wait(lambda: bed.job_status(job) in FINAL_STATUSES, f"the end of job {job}", within_s)
    return bed.job_status(job)


def running(bed: FakeBed, job: int, line: str) -> None:
    """Wait until a job has said *line* in its log."""
    path = bed.data(MASTER) / f"queue/job-{job}"
    bed.wait(lambda: path.exists() and line in path.read_text(), f"job {job} says '{line}'")


def instance_of(bed: FakeBed, name: str) -> dict:
    return next(each for each in bed.config()["instances"].values() if each["name"] == name)


def primary_of(bed: FakeBed, name: str) -> str:
    return bed.config()["nodes"][instance_of(bed, name)["primary_node"]]["name"]


def install_os(bed: FakeBed, name: str, script: str) -> None:
    """Define an OS of the nodes' own whose create script is *script*."""
    directory = f"/usr/local/lib/ganeti/os/{name}"
    for node in bed.layout.nodes:
        bed.run("sh", "-c", f"mkdir -p {directory} && cp -r /srv/ganeti/os/noop/. {directory}/", node=node.name)
        text = shlex.quote(f"#!/bin/sh\n{script}\n")
        bed.run("sh", "-c", f"printf %s {text} > {directory}/create", node=node.name)


# Operation, node and method of the hypervisor that goes wrong, and what remains true of inst1 (None: it is not made).
FAILING_STEPS = [
    ("add", "node2", "check_parameters", None),
    ("add", "node2", "capacity", None),
    ("add", "node2", "start", None),
    ("migrate", "node2", "migration_info", "node2"),
    ("migrate", "node3", "accept", "node2"),
    ("migrate", "node2", "migrate", "node2"),
    ("migrate", "node2", "migration_status", "node2"),
    ("migrate", "node2", "continue_switchover", "node2"),
    ("failover", "node2", "stop", "node2"),
    ("failover", "node3", "start", "node2"),
    ("failover", "node3", "capacity", "node2"),
    ("remove", "node2", "stop", "node2"),
]
OPERATIONS = {
    "add": ("gnt-instance", "add", *SHARED, "-o", "noop+default", "-n", "node2", "inst1"),
    "migrate": ("gnt-instance", "migrate", "-f", "-n", "node3", "inst1"),
    "failover": ("gnt-instance", "failover", "-f", "-n", "node3", "inst1"),
    "remove": ("gnt-instance", "remove", "-f", "inst1"),
}


ACTING = ("start", "accept", "migrate", "continue_switchover", "stop")


@pytest.mark.parametrize(
    ("how", "operation", "node", "method", "home"),
    [("fail", *step) for step in FAILING_STEPS]
    + [("fail-after", *step) for step in FAILING_STEPS if step[2] in ACTING],
)
def test_a_hypervisor_that_fails(fake_bed, how, operation, node, method, home):
    if operation != "add":
        add(fake_bed, "inst1", "node2")
    tell_to_fail(fake_bed, node, f"{method}@inst1" if operation == "add" else method, f"{how} the cat sat on it")
    if operation == "add" and method in ("check_parameters", "capacity"):
        tell_to_fail(fake_bed, node, method, f"{how} the cat sat on it")
    said = fake_bed.run(*OPERATIONS[operation], expect=1)
    assert "the cat sat on it" in said
    assert "Traceback" not in said
    heal(fake_bed, node)
    assert [each["name"] for each in fake_bed.config()["instances"].values()] == ([] if home is None else ["inst1"])
    fake_bed.run("ganeti-watcher", "--ignore-pause", expect=None)
    if home is not None:
        fake_bed.wait(lambda: fake_bed.guests() == {"inst1": [primary_of(fake_bed, "inst1")]}, "inst1 runs", 20)
    fake_bed.check()
    assert "ERROR" not in fake_bed.run("gnt-cluster", "verify", expect=None)


class TestStorageAndScripts:
    def test_a_full_disk_is_told_before_anything_is_written(self, fake_bed):
        fake_bed.run("mkdir", "-p", "/srv/ganeti/shared-file-storage/small")
        fake_bed.run("mount", "-t", "tmpfs", "-o", "size=8m", "none", "/srv/ganeti/shared-file-storage/small")
        try:
            said = fake_bed.run(*_small_add("noop+default"), expect=1)
            assert re.search(r"cannot be made: 16 MiB are needed and \d MiB are free", said)
            assert not list(_inside(fake_bed))
        finally:
            _unmount(fake_bed)
        fake_bed.check()

    def test_a_disk_that_fills_up_while_it_is_written(self, fake_bed):
        install_os(fake_bed, "filler", 'exec dd if=/dev/zero of="$DISK_0_PATH" bs=1M count=64 conv=notrunc')
        fake_bed.run("mkdir", "-p", "/srv/ganeti/shared-file-storage/small")
        fake_bed.run("mount", "-t", "tmpfs", "-o", "size=24m", "none", "/srv/ganeti/shared-file-storage/small")
        try:
            said = fake_bed.run(*_small_add("filler+default"), expect=1)
            assert "No space left on device" in said
            assert "undone: remove disk 0" in said
            assert not list(_inside(fake_bed))
        finally:
            _unmount(fake_bed)
        fake_bed.check()

    def test_a_storage_directory_that_is_gone(self, fake_bed):
        place = "/srv/ganeti/shared-file-storage"
        fake_bed.run("mount", "-t", "tmpfs", "-o", "ro", "none", place, node="node2")
        try:
            job = submit_add(fake_bed, "inst1", "node2")
            assert ended(fake_bed, job) == "error"
            assert "Read-only file system" in fake_bed.run("gnt-job", "info", str(job))
        finally:
            fake_bed.run("umount", place, node="node2")
        fake_bed.check()
        self.what_is_left_is_told_until_the_job_is_archived(fake_bed, job)

    def what_is_left_is_told_until_the_job_is_archived(self, bed: FakeBed, job: int) -> None:
        told = f"job {job} left something behind; still to do: remove disk 0 of inst1"
        assert told in bed.run("gnt-cluster", "verify", expect=1)
        bed.run("gnt-debug", "delay", "0")
        archived = json.loads(bed.run("python3", "-c", AUTO_ARCHIVE).splitlines()[-1])
        assert archived["result"][0] > 0
        assert told in bed.run("gnt-cluster", "verify", expect=1)
        bed.run("gnt-job", "archive", str(job))
        assert "ERROR" not in bed.run("gnt-cluster", "verify")

    def test_a_script_that_fails(self, fake_bed):
        install_os(fake_bed, "failing", 'echo "no bootloader fits" >&2; exit 3')
        said = fake_bed.run("gnt-instance", "add", *SHARED, "-o", "failing+default", "-n", "node2", "inst1", expect=1)
        assert "no bootloader fits" in said and "/var/log/ganeti/os/" in said
        fake_bed.check()

    def test_an_os_that_one_node_lacks(self, fake_bed):
        install_os(fake_bed, "partial", "exit 0")
        fake_bed.run("rm", "-r", "/usr/local/lib/ganeti/os/partial", node="node2")
        said = fake_bed.run("gnt-instance", "add", *SHARED, "-o", "partial+default", "-n", "node2", "inst1", expect=1)
        assert "node2: OS 'partial' not known" in said
        for node in (MASTER, "node3"):
            fake_bed.run("rm", "-r", "/usr/local/lib/ganeti/os/partial", node=node)
        fake_bed.check()

    def test_a_script_that_hangs_is_ended_with_its_children_by_killing_the_job(self, fake_bed):
        install_os(fake_bed, "hanging", "sleep 98765 & sleep 98765")
        job = submit_add(fake_bed, "inst1", "node2", os_name="hanging+default")
        running(fake_bed, job, "running the instance OS create scripts")
        fake_bed.wait(lambda: _sleepers(fake_bed, "node2") == 2, "the script runs")
        other = submit_add(fake_bed, "inst2", "node3")
        assert ended(fake_bed, other) == "success"
        fake_bed.run("gnt-job", "cancel", "--kill", "--yes-do-it", str(job))
        assert ended(fake_bed, job) == "error"
        assert _sleepers(fake_bed, "node2") == 0
        fake_bed.check()


def _small_add(os_name: str) -> tuple[str, ...]:
    size = ("-t", "sharedfile", "-s", "64m", "--file-storage-dir", "small")
    return ("gnt-instance", "add", *size, "-o", os_name, "-n", MASTER, "inst1")


def _inside(bed: FakeBed) -> Iterator[str]:
    yield from bed.run("find", "/srv/ganeti/shared-file-storage/small", "-type", "f").split()


def _unmount(bed: FakeBed) -> None:
    bed.run("umount", "/srv/ganeti/shared-file-storage/small")
    bed.run("rmdir", "/srv/ganeti/shared-file-storage/small")


def _sleepers(bed: FakeBed, node: str) -> int:
    return int(bed.run("sh", "-c", "ps ax -o args | grep -c '^sleep 98765'; true", node=node).split()[0])


class TestNodes:
    """node2 hangs or dies while two jobs work on it and two more begin; node1 and node3 go on."""

    def prepare(self, bed: FakeBed) -> None:
        for name, node in (("inst2", "node3"), ("inst3", "node2"), ("inst4", "node2")):
            add(bed, name, node)

    def test_a_node_that_hangs_in_create_and_migrate(self, fake_bed):
        node2 = fake_bed.layout.node("node2")
        self.prepare(fake_bed)
        for method in ("start", "accept"):
            tell_to_fail(fake_bed, "node2", method, "hang")
        create = submit_add(fake_bed, "inst1", "node2")
        migrate = fake_bed.submit("gnt-instance", "migrate", "-f", "-n", "node2", "inst2")
        running(fake_bed, create, "* starting instance")
        running(fake_bed, migrate, "* preparing node2")
        machine.stop(fake_bed.layout, node2)
        try:
            failover = fake_bed.submit("gnt-instance", "failover", "-f", "-n", "node3", "inst3")
            remove = fake_bed.submit("gnt-instance", "remove", "-f", "inst4")
            others_go_on(fake_bed)
            for job in (create, migrate, failover, remove):
                assert ended(fake_bed, job, SILENT_NODE_S) == "error"
            said = fake_bed.run("gnt-job", "info", str(create))
            assert "Node node2 does not answer any more" in said
        finally:
            machine.resume(fake_bed.layout, node2)
        heal(fake_bed, "node2")
        named_by_verify(fake_bed, "inst1", "inst2")
        fake_bed.run("gnt-instance", "migrate", "-f", "--cleanup", "inst2")
        come_back(fake_bed)

    @pytest.mark.parametrize("begun", ["failover", "remove"])
    def test_a_node_that_dies(self, fake_bed, begun):
        """In the operation that is said, while another has yet to begin."""
        self.prepare(fake_bed)
        tell_to_fail(fake_bed, "node2", "stop", "hang")
        operations = {
            "failover": ("gnt-instance", "failover", "-f", "-n", "node3", "inst3"),
            "remove": ("gnt-instance", "remove", "-f", "inst4"),
        }
        jobs = [fake_bed.submit(*operations[begun])]
        fake_bed.wait(lambda: bool(_calls_under_way(fake_bed, "node2")), "the guest is being stopped")
        machine.kill(fake_bed.layout, fake_bed.layout.node("node2"))
        jobs.append(submit_add(fake_bed, "inst1", "node2"))
        others_go_on(fake_bed)
        for job in jobs:
            assert ended(fake_bed, job, SILENT_NODE_S) == "error"
        homes = {name: primary_of(fake_bed, name) for name in ("inst2", "inst3", "inst4")}
        assert homes == {"inst2": "node3", "inst3": "node2", "inst4": "node2"}
        come_back(fake_bed)

    def test_instances_of_a_node_that_comes_back_are_started(self, fake_bed):
        add(fake_bed, "inst1", "node2")
        add(fake_bed, "inst2", "node2", "-t", "diskless", "--no-start")
        node2 = fake_bed.layout.node("node2")
        machine.kill(fake_bed.layout, node2)
        machine.start(fake_bed.layout, node2)
        assert fake_bed.guests() == {}
        start_what_should_run(fake_bed)
        assert fake_bed.guests() == {"inst1": ["node2"]}
        fake_bed.check()


def _calls_under_way(bed: FakeBed, node: str) -> list[str]:
    """Calls to stop a guest that a node has begun and not yet answered."""
    begun: dict[str, str] = {}
    for line in bed.run("cat", "/run/ganeti/node-answers.jsonl", node=node).splitlines():
        if not line.startswith("{"):
            continue
        entry = json.loads(line)
        begun[str(entry["number"])] = "" if "body" in entry else entry["call"]
    return [call for call in begun.values() if "shutdown" in call or "stop" in call]


def others_go_on(bed: FakeBed) -> None:
    began = time.monotonic()
    add(bed, "other", "node1", "-t", "diskless")
    bed.run("gnt-instance", "remove", "-f", "other")
    assert time.monotonic() - began < 8


def named_by_verify(bed: FakeBed, *names: str) -> None:
    said = bed.run("gnt-cluster", "verify", expect=1)
    for name in names:
        assert re.search(rf"still to do: .*\b{name}\b", said), said


def come_back(bed: FakeBed) -> None:
    """Switch node2 off and on, do by hand what verify says is still to do, and let the watcher start the instances."""
    node2 = bed.layout.node("node2")
    if machine.state(bed.layout, node2) != machine.OFF:
        machine.kill(bed.layout, node2)
    machine.start(bed.layout, node2)
    bed.wait(lambda: "node2" in bed.run("gnt-node", "list", "--no-headers", "-o", "name", expect=None), "an answer")
    start_what_should_run(bed)
    said = bed.run("gnt-cluster", "verify", expect=None)
    for path in re.findall(r"volume (\S+) is unknown", said):
        assert "/inst1/" in path, said
        bed.run("rm", "-f", path, f"{path}.lock", node="node2")
        bed.run("rmdir", os.path.dirname(path), node="node2", expect=None)
    for job in sorted(set(re.findall(r"gnt-job archive (\d+)", said))):
        bed.run("gnt-job", "archive", job)
    bed.check()
    assert "left something behind" not in bed.run("gnt-cluster", "verify", expect=None)


def start_what_should_run(bed: FakeBed) -> None:
    def all_run() -> bool:
        bed.run("ganeti-watcher", "--ignore-pause", expect=None)
        wanted = {each["name"] for each in bed.config()["instances"].values() if each["admin_state"] == "up"}
        return set(bed.guests()) == wanted

    bed.wait(all_run, "all instances that should run do", 30)


class Work:
    """A user who submits jobs of one kind, one after the other, and keeps what was acknowledged."""

    def __init__(self, bed: FakeBed, kind: str) -> None:
        self.bed = bed
        self.kind = kind
        self.acknowledged: list[tuple[int, int]] = []
        """Job number, and the number of the round."""
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._submit_all)

    def _submit_all(self) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            done = machine.run(self.bed.layout, MASTER, *self.words(number), timeout_s=120)
            assert "Traceback" not in done.stderr, done.stderr
            lines = done.stdout.split()
            if done.returncode == 0 and lines:
                self.acknowledged.append((int(lines[0]), number))
                self._wait(int(lines[0]))

    def _wait(self, job: int) -> None:
        while not self.stop.wait(0.05) and self.bed.job_status(job) not in FINAL_STATUSES:
            pass

    def words(self, number: int) -> list[str]:
        to_job = ["--submit", "--print-jobid"]
        if self.kind == "modify":
            return ["gnt-node", "modify", *to_job, "--node-parameters", f"spindle_count={number}", "node3"]
        if self.kind == "delay":
            return ["gnt-debug", "delay", *to_job, "--no-locks", "-n", "node1", "-n", "node2", "0.3"]
        add = ["gnt-instance", "add", *to_job, *SHARED, "-o", "noop+default", "-n", "node2"]
        return [*add, f"work{number}"]


def test_daemons_are_killed_over_and_over_while_jobs_run(fake_bed):
    choice = random.Random(20261121)
    works = [Work(fake_bed, kind) for kind in ("modify", "delay", "add")]
    for work in works:
        work.thread.start()
    seen: dict[int, str] = {}
    kills = 0
    try:
        end_s = time.monotonic() + KILLING_S
        while time.monotonic() < end_s or kills <= KILLING_S / 4 or sum(len(each.acknowledged) for each in works) <= 20:
            assert time.monotonic() < end_s + 4 * KILLING_S, f"only {kills} daemons were killed"
            time.sleep(choice.uniform(0.1, 0.8))
            kills += _kill_one(fake_bed, choice)
            for daemon in MASTER_DAEMONS:
                fake_bed.run("daemon-util", "check-and-start", daemon)
            _statuses_stand(fake_bed, works, seen)
    finally:
        for work in works:
            work.stop.set()
        for work in works:
            work.thread.join()
    jobs = {job: (work.kind, number) for work in works for job, number in work.acknowledged}
    for job in jobs:
        assert ended(fake_bed, job, 60) in ("success", "error")
    _statuses_stand(fake_bed, works, seen)
    succeeded = {jobs[job] for job in jobs if fake_bed.job_status(job) == "success"}
    assert len(succeeded) > len(jobs) / 2, "too many jobs failed"
    config = fake_bed.config()
    names = {instance["name"] for instance in config["instances"].values()}
    assert {f"work{number}" for kind, number in succeeded if kind == "add"} <= names
    (node3,) = [node for node in config["nodes"].values() if node["name"] == "node3"]
    assert node3["ndparams"]["spindle_count"] >= max(number for kind, number in succeeded if kind == "modify")
    start_what_should_run(fake_bed)
    fake_bed.check()
    assert "ERROR" not in fake_bed.run("gnt-cluster", "verify", expect=None)


def _kill_one(bed: FakeBed, choice: random.Random) -> int:
    """Kill a daemon of the master, or the spawner, as the kernel would."""
    victim = choice.choice([*MASTER_DAEMONS, "spawner"])
    for pid in _processes(bed, "ganeti.daemons.spawner" if victim == "spawner" else f"bin/{victim}"):
        os.kill(pid, signal.SIGKILL)
        return 1
    return 0


def _processes(bed: FakeBed, words: str) -> Iterator[int]:
    """Processes of the master whose command line has *words*; the spawner's children are jobs, which are spared."""
    init = machine.running_pid(bed.layout, bed.layout.node(MASTER))
    found = {}
    for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if words in line and "daemon-util" not in line:
            found[pid] = parent
    yield from (pid for pid, parent in found.items() if parent not in found)


def _statuses_stand(bed: FakeBed, works: list[Work], seen: dict[int, str]) -> None:
    """A job that has ended keeps its result, and an acknowledged job is known."""
    for work in works:
        for job, _ in list(work.acknowledged):
            status = bed.job_status(job)
            assert status != "unknown", f"job {job} was acknowledged and is lost"
            if job in seen:
                assert status == seen[job], f"job {job} was {seen[job]} and is {status}"
            if status in FINAL_STATUSES:
                seen[job] = status
                assert json.loads((bed.data(MASTER) / f"queue/job-{job}").read_text())["end_timestamp"]
