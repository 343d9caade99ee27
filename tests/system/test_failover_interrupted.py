# SPDX-License-Identifier: BSD-2-Clause
"""`gnt-cluster master-failover` is killed at some moment; two rounds of the watcher on every node make a master again.

A few random moments by default; 50 with GANETI_CAMPAIGN, or GANETI_ROUNDS. GANETI_SEED repeats them: who takes over,
who is cut off and when the kill comes follow from it, though not how the processes' own timing falls.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaign.machines import Machines, machines
from tests.fakes.thoroughness import CAMPAIGN

from ganeti.tools.testbed import machine, network, processes

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
ROUNDS = int(os.environ.get("GANETI_ROUNDS", "50" if CAMPAIGN else "3"))
WATCHER_ROUNDS = 2
LONGEST_S = 4.0
"""An undisturbed fail-over takes less than that on a quiet machine."""
WITHIN_S = 60.0


class Failover:
    """A running `gnt-cluster master-failover`, in a session of its own, and what it has said so far."""

    def __init__(self, bed: Machines, node: str, *settings: str) -> None:
        self._bed = bed
        self._init = machine.running_pid(bed.layout, bed.layout.node(node))
        words = ("env", *settings, "setsid", "gnt-cluster", "master-failover")
        self.process = machine.popen(bed.layout, node, *words)
        self._said: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()
        self._command: int | None = None
        bed.wait(self._is_found, "the command runs")

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self._said.append(line.strip())
                self._changed.notify_all()

    def _is_found(self) -> bool:
        """Its session has the number of the process that began it, and keeps that when the process has gone."""
        for pid in self._in_node():
            words = _content(f"/proc/{pid}/cmdline").split("\0")
            if "master-failover" in words and any(word.endswith("/gnt-cluster") for word in words):
                self._command = pid
        return self._command is not None and _session(self._command) == self._command

    def _in_node(self) -> Iterator[int]:
        with contextlib.suppress(FileNotFoundError):  # the node has lost its power
            yield from processes.in_namespace("pid", Path(f"/proc/{self._init}/ns/pid"))

    @property
    def said(self) -> str:
        return " | ".join(self._said)

    def wait_said(self, words: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: words in self.said, WITHIN_S), f"{words!r} is not in: {self.said}"

    def wait(self, within_s: float) -> None:
        """Until it has ended, or that long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(within_s)

    def kill(self, *, with_children: bool) -> None:
        """Kill the command, and with it the commands that it has started, though not the daemons these have."""
        assert self._command is not None
        if self.process.poll() is None:
            self._kill([self._command])
        while with_children and (left := [pid for pid in self._in_node() if _session(pid) == self._command]):
            self._kill(left)
        self.process.wait(WITHIN_S)
        if with_children:  # otherwise a child may hold the other end for as long as it lives
            self._reader.join(WITHIN_S)

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _content(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _session(pid: int) -> int | None:
    """None for a process that is gone, or whose parent alone has not heard of its end."""
    fields = _content(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[3]) if len(fields) > 3 and fields[0] not in "ZX" else None


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("interrupted").resolve()) as made:
        yield made


@pytest.fixture(autouse=True)
def healed(bed: Machines) -> Iterator[None]:
    yield
    for node in bed.layout.nodes:
        network.set_lan(bed.layout, node, up=True)


def cut_off(bed: Machines, node: str, *, up: bool = False) -> None:
    network.set_lan(bed.layout, bed.layout.node(node), up)


def watch_twice(bed: Machines, order: list[str]) -> list[str]:
    """Two rounds of the watcher on every node; gives what they said."""
    said = []
    for number in range(WATCHER_ROUNDS):
        for node in order:
            text = " ".join(bed.run(node, "ganeti-watcher", expect=None).split())
            said.append(f"round {number + 1} on {node}: {text or 'nothing'}")
    return said


def require_health(bed: Machines, told: list[str]) -> None:
    """One master, which everybody names, and nothing for verify to complain of."""
    serving = [node for node in bed.names if "ganeti-luxid" in bed.daemons(node)]
    story = "\n".join(told)
    assert len(serving) == 1, f"LuxiD runs on {serving or 'no node'}:\n{story}"
    bed.master = serving[0]
    assert bed.run(bed.master, "gnt-cluster", "master-ping") == "", story
    bed.settle()
    for node in bed.names:
        bed.wait(lambda node=node: bed.run(node, "gnt-cluster", "getmaster").strip() == bed.master, story)  # type: ignore[misc]
    found = bed.run(bed.master, "gnt-cluster", "verify", expect=None)
    assert "ERROR" not in found and "WARNING" not in found, f"{found}\n{story}"


def test_wconfd_goes_on_without_the_command_that_started_it(bed: Machines) -> None:
    """It waits for the copy of a node that is cut off, and is ready only when nobody is there to be told."""
    old, new, third = bed.names
    command = Failover(bed, new, "GANETI_PAUSE_AT=ganeti-wconfd-starting")
    pid_file = bed.layout.node(new).upper / "run/ganeti/ganeti-wconfd.pid"
    command.wait_said("Starting ganeti-wconfd")
    waiting = wait_paused(bed, new)
    cut_off(bed, third)
    command.kill(with_children=True)
    os.kill(waiting, signal.SIGCONT)
    bed.wait(lambda: bed.run(new, "gnt-cluster", "getmaster").strip() == new, f"{new} is named by its own files")
    assert "ganeti-wconfd" in bed.daemons(new), pid_file
    cut_off(bed, third, up=True)
    require_health(bed, [command.said, *watch_twice(bed, [old, new, third])])
    assert bed.master == new


def wait_paused(bed: Machines, node: str) -> int:
    """The process of the node that has stopped itself."""
    init = machine.running_pid(bed.layout, bed.layout.node(node))
    found: list[int] = []

    def is_there() -> bool:
        found.extend(
            pid
            for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid"))
            if _content(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] == ["T"]
        )
        return bool(found)

    bed.wait(is_there, f"a daemon of {node} has stopped itself")
    return found[0]


@pytest.mark.parametrize("words", ["Asking for the promise", "Starting ganeti-wconfd"])
def test_a_command_that_dies_between_its_steps_is_finished_by_the_watcher(bed: Machines, words: str) -> None:
    before = bed.master
    new = next(node for node in bed.names if node != before)
    command = Failover(bed, new)
    command.wait_said(words)
    command.kill(with_children=True)
    require_health(bed, [f"{before} was the master, {new} is to be", command.said, *watch_twice(bed, bed.names)])


@pytest.mark.parametrize("begun", [False, True])
def test_what_commands_say_leads_to_a_master(bed: Machines, begun: bool) -> None:
    """WConfD of the new master dies before or after the first commit of its epoch; ssconf names the old master."""
    old = bed.master
    new, third = (node for node in bed.names if node != old)
    command = Failover(bed, new, "GANETI_PAUSE_AT=ganeti-wconfd-starting")
    wconfd = wait_paused(bed, new)
    command.kill(with_children=True)
    bed.run(new, "daemon-util", "stop", "ganeti-luxid")
    if begun:
        for node in (old, third):
            cut_off(bed, node)
        os.kill(wconfd, signal.SIGCONT)
        bed.wait(lambda: begins(bed, new), f"an epoch of {new} has begun")
    bed.run(new, "sh", "-c", "kill -9 $(cat /run/ganeti/ganeti-wconfd.pid)")
    for node in (old, third):
        cut_off(bed, node, up=True)
        bed.wait(lambda node=node: "ganeti-luxid" not in bed.daemons(node), f"LuxiD of {node} has ended")  # type: ignore[misc]
    assert f"connect to node '{new}'" in bed.run(old, "gnt-node", "list", expect=11)
    assert f"connect to node '{new}'" in bed.run(third, "gnt-node", "list", expect=11)
    said = bed.run(old, "daemon-util", "start-master", expect=11)
    if f"no answer from {third}" in said:  # too busy to answer in time
        said = bed.run(old, "daemon-util", "start-master", expect=11)
    assert "run daemon-util start-master there" in said and f"{third} names {new}" in said, said
    assert "daemon-util start-master" in bed.run(new, "gnt-node", "list", expect=1 if begun else 11)
    if not begun:
        for daemon in ("ganeti-wconfd", "ganeti-luxid"):
            assert "run daemon-util start-master" in bed.run(new, "daemon-util", "start", daemon, expect=11)
    said = bed.run(new, "daemon-util", "start-master")
    assert "Started ganeti-wconfd and ganeti-luxid" in said if begun else f"{new} is the master now" in said, said
    require_health(bed, [])
    assert bed.master == new


def begins(bed: Machines, node: str) -> bool:
    name = bed.layout.node(node).upper / "var/lib/ganeti/config.sqlite"
    with contextlib.closing(sqlite3.connect(f"file:{name}?mode=ro", uri=True)) as database:
        (cluster,) = database.execute("SELECT data FROM objects WHERE kind = 'cluster'").fetchone()
        nodes = dict(database.execute("SELECT uuid, data FROM objects WHERE kind = 'nodes'"))
    return bool(json.loads(nodes[json.loads(cluster)["master_node"]])["name"] == node)


def test_killed_at_any_moment(bed: Machines) -> None:
    seed = os.environ.get("GANETI_SEED") or ("20261123" if not CAMPAIGN else str(random.randrange(10**9)))
    choice = random.Random(seed)
    for number in range(1, ROUNDS + 1):
        before = bed.master
        new = choice.choice([node for node in bed.names if node != before])
        third = choice.choice([node for node in bed.names if node != new])
        moment_s, cut_s = choice.uniform(0.0, LONGEST_S), choice.uniform(0.0, LONGEST_S)
        how, is_cut = choice.choice(["alone", "with its children", "with the power of its node"]), choice.random() < 0.5
        order = choice.sample(bed.names, len(bed.names))
        story = [f"GANETI_SEED={seed} round {number}: {before} was the master, {new} is to be"]
        began_s = time.monotonic()
        command = Failover(bed, new)
        if is_cut and cut_s < moment_s:
            command.wait(began_s + cut_s - time.monotonic())
            cut_off(bed, third)
            story.append(f"{third} is cut off after {cut_s:.2f} s")
        command.wait(max(began_s + moment_s - time.monotonic(), 0.0))
        if how == "with the power of its node":
            bed.pull_plug(new)
        command.kill(with_children=how != "alone")
        story.append(f"killed {how} after {moment_s:.2f} s: {command.said}")
        cut_off(bed, third, up=True)
        if not bed.is_on(new):
            bed.switch_on(new)
        require_health(bed, story + watch_twice(bed, order))
        print(f"{story}: {bed.master} is the master")


def test_after_all_power_was_lost_the_address_is_there_before_the_watcher(bed: Machines) -> None:
    """As the daemons of a machine start, in whatever order the machines do; cron comes minutes later."""
    master = bed.master
    assert master is not None
    address = json.loads((bed.data(master) / "config.data").read_text())["cluster"]["master_ip"]
    for node in bed.names:
        bed.pull_plug(node)
    for node in bed.names:
        machine.start(bed.layout, bed.layout.node(node))
    for node in bed.names:
        bed.run(node, "daemon-util", "start-all", expect=None)
    bed.master = master
    bed.wait(lambda: f"{address}/" in bed.run(master, "ip", "-o", "addr"), f"{master} has {address}")
    require_health(bed, [])
