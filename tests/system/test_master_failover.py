# SPDX-License-Identifier: BSD-2-Clause
"""Another node becomes the master: because somebody wants it, because the plug was pulled, and not where it may not.

One testbed, one story: the tests of this file run in order, each from where the one before has left the cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine
from ganeti.wconfd.master_vote import VOTING_PAUSE_S, VOTING_ROUNDS

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.story,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NO_CRON_S = 86400
NODES = ("node1", "node2", "node3")
HALF_MADE = "guest19"
FAILOVER = ("gnt-cluster", "master-failover")
ALL = set(NODES)


class Story:
    """The cluster, and who is its master now."""

    def __init__(self, fake_bed: FakeBed) -> None:
        self.bed = fake_bed
        self.master = "node1"
        self.tag = 0

    def run(self, *words: str, node: str = "", expect: int | None = 0) -> str:
        return self.bed.run(*words, node=node or self.master, expect=expect)

    def states(self) -> dict[str, str]:
        listing = self.run("gnt-node", "list", "--no-headers", "--separator=|", "-o", "name,sync_state", expect=None)
        return dict(line.split("|", 1) for line in listing.splitlines() if "|" in line)

    def settle(self, wanted: set[str] = ALL) -> None:
        """Wait until these nodes, the master among them, have everything."""
        good = {node: "master" if node == self.master else "in-sync" for node in wanted}
        self.bed.wait(lambda: good.items() <= self.states().items(), f"in sync: {good}")

    def change(self) -> str:
        """Acknowledge one more change; gives what must be found everywhere from now on."""
        self.tag += 1
        name = f"guest{self.tag}"
        self.run(
            *("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "--no-start", "-n", self.master, name)
        )
        return name

    def instances(self) -> set[str]:
        return set(self.run("gnt-instance", "list", "--no-headers", "-o", "name").split())

    def ended(self, job: int) -> str:
        """Wait for the end of a job; gives its status."""

        def status() -> str:
            return self.run("gnt-job", "list", "--no-headers", "-o", "status", str(job)).strip()

        self.bed.wait(lambda: status() in ("success", "error"), f"job {job} ends")
        return status()

    def named(self, node: str) -> str:
        return self.run("gnt-cluster", "getmaster", node=node).strip()

    def wait_named(self, *nodes: str) -> None:
        for node in nodes:
            self.bed.wait(lambda node=node: self.named(node) == self.master, f"{node} names {self.master}")  # type: ignore[misc]

    def runs(self, daemon: str, node: str) -> bool:
        return "ok" in self.run("sh", "-c", f"daemon-util check {daemon} && echo ok", node=node, expect=None)

    def pull_plug(self, node: str) -> None:
        machine.kill(self.bed.layout, self.bed.layout.node(node))

    def switch_on(self, node: str) -> None:
        """Power on, and what the boot of a machine starts: all daemons, of which the master's refuse."""
        machine.start(self.bed.layout, self.bed.layout.node(node))
        self.bed.wait(lambda: self.runs("ganeti-noded", node), f"the node daemon of {node} runs")
        self.run("daemon-util", "start-all", node=node)

    def become_master(self, node: str) -> tuple[float, str]:
        """Fail over to *node*; gives the seconds to the first answered query, and what was said."""
        begun = time.monotonic()
        said = self.run(*FAILOVER, node=node)
        self.run("gnt-cluster", "master-ping", node=node)
        self.master = node
        return time.monotonic() - begun, said


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    layout = testbed.up(tmp_path_factory.mktemp("failover").resolve(), 3, "fake", watcher_interval_s=NO_CRON_S)
    try:
        cluster.create(layout)
        told = Story(FakeBed(layout))
        told.settle()
        yield told
    finally:
        testbed.down(layout)


def test_the_master_itself_has_nobody_to_take_over_from(story: Story) -> None:
    said = story.run(*FAILOVER, expect=1)
    assert "node1 is the master already" in said and "daemon-util start-master" in said


def test_wrong_words_change_nothing(story: Story) -> None:
    assert "--no-voting" in story.run(*FAILOVER, "--yes-do-it", node="node2", expect=1)
    said = story.run(*FAILOVER, "--no-voting", node="node2", expect=1)
    assert "add --yes-do-it if you are sure" in said
    assert story.named("node2") == "node1"


def test_a_node_that_is_no_candidate_is_told_where_to_go(story: Story) -> None:
    story.run("gnt-node", "modify", "--master-candidate=no", "--submit", "node3", expect=None)
    story.bed.wait(lambda: story.states().get("node3") == "-", "node3 is no candidate")
    said = story.run(*FAILOVER, node="node3", expect=1)
    assert "node2" in said and "candidate" in said, said
    story.run("gnt-node", "modify", "--master-candidate=yes", "node3")
    story.settle()
    story.run("gnt-cluster", "master-ping")


def test_a_graceful_fail_over_moves_everything_and_undoes_what_was_begun(story: Story) -> None:
    """One job has made its first change, one has changed nothing yet."""
    story.change()
    begun = stop_at_first_commit(story)
    fresh = story.bed.submit("gnt-debug", "delay", "5")
    story.bed.wait(lambda: story.bed.job_status(fresh) == "running", "the delay runs")
    before = story.instances()
    took_s, said = story.become_master("node2")
    print(f"graceful: {took_s:.2f} s; {said}")
    assert "2 jobs were running there" in said
    assert story.ended(begun) == "error"
    assert story.ended(fresh) == "success"
    assert story.instances() == before - {HALF_MADE}
    story.wait_named(*NODES)
    for daemon in ("ganeti-luxid", "ganeti-wconfd"):
        assert story.runs(daemon, "node2") and not story.runs(daemon, "node1")
    story.settle()


def stop_at_first_commit(story: Story) -> int:
    """Give a job that stops itself when its instance is in the configuration, and nothing else of it is made."""
    story.run("daemon-util", "stop", "ganeti-luxid")
    places = ",".join(f"job-committed-{step}" for step in range(1, 10))
    story.run("env", f"GANETI_PAUSE_AT={places}", "daemon-util", "start", "ganeti-luxid")
    words = ("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "--no-start", "-n", story.master, HALF_MADE)
    job = story.bed.submit(*words)
    story.bed.wait(lambda: bool(list(story.bed.stopped())), "the job has made its first commit")
    return job


def test_commands_on_the_former_master_say_who_is_it_now(story: Story) -> None:
    said = story.run("gnt-node", "list", node="node1", expect=11)
    assert "please connect to node 'node2'" in said
    said = story.run("gnt-cluster", "master-ping", node="node1", expect=1)
    assert "please connect to node 'node2'" in said
    assert story.run("ganeti-watcher", node="node1") == ""
    assert not story.runs("ganeti-luxid", "node1")
    story.run("daemon-util", "start-all", node="node1")
    assert not story.runs("ganeti-wconfd", "node1")


def test_a_master_whose_plug_was_pulled_is_replaced_within_seconds(story: Story) -> None:
    name = story.change()
    story.settle()
    story.pull_plug("node2")
    took_s, said = story.become_master("node3")
    print(f"plug pulled: {took_s:.2f} s; {said}")
    assert "node2 could not be told" in said
    assert name in story.instances()
    assert took_s < 30  # how long it takes on a quiet machine is measured by bench/failover.py
    assert story.change() in story.instances()
    story.wait_named("node1", "node3")


def test_it_comes_back_and_stays_quiet(story: Story) -> None:
    story.switch_on("node2")
    story.wait_named("node2")
    story.settle()
    for daemon in ("ganeti-luxid", "ganeti-wconfd"):
        # What the boot has started may be asking the others still who is master.
        story.bed.wait(lambda daemon=daemon: not story.runs(daemon, "node2"), f"{daemon} has ended")  # type: ignore[misc]
    assert story.run("ganeti-watcher", node="node2") == ""


def test_one_that_has_just_come_back_does_not_serve_what_it_had_before(story: Story) -> None:
    """Its own WConfD may still ask who is master when it is made the master: with an older copy in its memory."""
    story.pull_plug("node1")
    name = story.change()
    machine.start(story.bed.layout, story.bed.layout.node("node1"))
    story.bed.wait(lambda: story.states()["node1"] == "in-sync", "node1 is back")
    before = story.instances()
    story.become_master("node1")
    assert story.instances() == before and name in before
    story.settle()
    story.become_master("node3")
    assert story.instances() == before
    story.settle()


def test_a_minority_may_not(story: Story) -> None:
    story.pull_plug("node3")
    story.run("daemon-util", "stop", "ganeti-noded", node="node1")
    said = story.run(*FAILOVER, node="node2", expect=1)
    assert "1 of 3 master candidates can be counted on, and 2 are needed" in said
    assert "node1" in said and "node3" in said
    story.run("daemon-util", "start", "ganeti-noded", node="node1")
    story.become_master("node2")
    story.switch_on("node3")
    story.settle()


def test_who_is_behind_may_not_and_is_told_who_may(story: Story) -> None:
    before = story.instances()
    story.run("daemon-util", "stop", "ganeti-noded", node="node1")
    name = story.change()
    story.bed.wait(lambda: story.states()["node1"] not in ("in-sync", "master"), "node1 is left out")
    story.pull_plug("node2")
    story.run("daemon-util", "start", "ganeti-noded", node="node1")
    said = story.run(*FAILOVER, node="node1", expect=1)
    assert "node1 is behind" in said and "master-failover on node3" in said, said
    story.become_master("node3")
    assert story.instances() == before | {name}
    story.settle({"node1", "node3"})


def test_without_a_vote_a_human_decides(story: Story) -> None:
    """node2 is off; then node3's plug is pulled, and node1 alone is no majority."""
    before = story.instances()
    story.pull_plug("node3")
    assert "2 are needed" in story.run(*FAILOVER, node="node1", expect=1)
    begun = time.monotonic()
    story.run(*FAILOVER, "--no-voting", "--yes-do-it", node="node1")
    assert time.monotonic() - begun < VOTING_PAUSE_S * (VOTING_ROUNDS - 1), "no daemon asks the nodes that are away"
    story.master = "node1"
    assert story.instances() == before
    name = story.change()
    for node in ("node2", "node3"):
        story.switch_on(node)
    story.wait_named(*NODES)
    story.settle()
    assert story.instances() == before | {name}
