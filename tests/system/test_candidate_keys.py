# SPDX-License-Identifier: BSD-2-Clause
"""What a candidate needs to be the master is with all candidates and nobody else, and is enough for it.

One testbed, one story: the tests of this file run in order, each from where the one before has left the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed
from tests.system.killing import carry_out, finish, kill_at, make_jobs_stop

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.story,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NO_CRON_S = 86400
NODES = ("node1", "node2", "node3")
DATA = "/var/lib/ganeti"


class Story:
    def __init__(self, bed: FakeBed) -> None:
        self.bed = bed
        self.master = "node1"
        self.uuids: dict[str, str] = {}

    def run(self, *words: str, node: str = "", expect: int | None = 0) -> str:
        return self.bed.run(*words, node=node or self.master, expect=expect)

    def uuid(self, node: str) -> str:
        if node not in self.uuids:
            self.uuids[node] = self.run("gnt-node", "list", "--no-headers", "-o", "uuid", node).strip()
        return self.uuids[node]

    def holders(self, name: str) -> list[str]:
        """Nodes with this file in their data directory, with nobody's access but root's."""
        return [node for node in NODES if (self.bed.data(node) / name).exists()]

    def let_in(self, node: str) -> set[str]:
        """Names of the nodes whose root may log in on *node*."""
        names = {self.uuid(name): name for name in NODES}
        text = (self.bed.layout.node(node).upper / "root/.ssh/authorized_keys").read_text()
        marks = [line.split()[-1] for line in text.splitlines() if "ganeti-node:" in line]
        return {names.get(mark.partition(":")[2], mark) for mark in marks}

    def ssh(self, source: str, target: str) -> bool:
        """Whether root of *source* gets in on *target* with its node's own key."""
        words = ["ssh", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={DATA}/known_hosts"]
        words += ["-o", "HostKeyAlias=" + self.run("gnt-cluster", "info").split("Cluster name: ")[1].split()[0]]
        words += ["-o", "IdentitiesOnly=yes", "-i", "/root/.ssh/id_rsa", "-o", "StrictHostKeyChecking=yes"]
        return self.run(*words, target, "hostname", node=source, expect=None).strip() == target

    def everything_fits(self, candidates: set[str]) -> None:
        assert self.holders("ca.key") == self.holders("ganeti_pub_keys") == sorted(candidates)
        for node in candidates:
            for name, mode in (("ca.key", 0o400), ("ganeti_pub_keys", 0o600)):
                assert (self.bed.data(node) / name).stat().st_mode & 0o777 == mode
            known = (self.bed.data(node) / "ganeti_pub_keys").read_text()
            assert {line.split()[0] for line in known.splitlines()} == {self.uuid(name) for name in candidates}
        for node in NODES:
            assert self.let_in(node) == candidates, node
        assert "administrator" in (self.bed.layout.node("node3").upper / "root/.ssh/authorized_keys").read_text()

    def file_findings(self) -> list[str]:
        said = self.run("gnt-cluster", "verify", expect=None)
        return [line for line in said.splitlines() if "ca.key" in line or "is not let in over ssh" in line]

    def in_sync(self, *nodes: str) -> bool:
        said = self.run("gnt-node", "list", "--no-headers", "--separator=|", "-o", "name,sync_state", expect=None)
        return all(f"{node}|in-sync" in said for node in nodes)

    def has_address(self, node: str) -> bool:
        return f" {self.bed.layout.cluster_address}/" in self.run("ip", "-o", "addr", "show", "eth0", node=node)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    layout = testbed.up(tmp_path_factory.mktemp("keys").resolve(), 3, "fake", watcher_interval_s=NO_CRON_S)
    try:
        told = Story(FakeBed(layout))
        *words, name = cluster.init_command(layout)
        told.run(*words, "--candidate-pool-size=2", name)
        for node in NODES[1:]:
            told.run(*cluster.add_command(layout.node(node)))
        yield told
    finally:
        testbed.down(layout)


def test_nodes_have_what_they_join_as(story: Story) -> None:
    story.everything_fits({"node1", "node2"})
    assert story.ssh("node2", "node3") and story.ssh("node1", "node2") and not story.ssh("node3", "node1")


def test_a_promoted_node_has_all(story: Story) -> None:
    story.run("gnt-node", "modify", "--master-candidate=yes", "node3")
    story.everything_fits({"node1", "node2", "node3"})
    assert story.ssh("node3", "node1") and story.ssh("node3", "node2")


def test_a_demoted_node_has_nothing_left(story: Story) -> None:
    story.run("gnt-node", "modify", "--master-candidate=no", "node3")
    story.everything_fits({"node1", "node2"})
    assert not story.ssh("node3", "node1")
    assert story.ssh("node2", "node3")
    assert story.file_findings() == []


def test_a_key_where_none_may_be_is_named(story: Story) -> None:
    story.run("sh", "-c", f"echo secret >{DATA}/ca.key", node="node3")
    assert any("should not exist on node(s) node3" in line for line in story.file_findings())
    story.run("rm", f"{DATA}/ca.key", node="node3")
    story.run("mv", f"{DATA}/ca.key", f"{DATA}/ca.key.away", node="node2")
    assert any("is missing from node(s) node2" in line for line in story.file_findings())
    story.run("mv", f"{DATA}/ca.key.away", f"{DATA}/ca.key", node="node2")


def test_a_node_that_does_not_let_a_candidate_in_is_named_and_mended(story: Story) -> None:
    keys = story.bed.layout.node("node3").upper / "root/.ssh/authorized_keys"
    keys.write_text("".join(line for line in keys.open() if story.uuid("node2") not in line))
    (found,) = story.file_findings()
    assert "node3" in found and "node2 is not let in over ssh: gnt-node add --readd node3" in found
    story.run("gnt-node", "add", "--readd", "node3")
    assert story.file_findings() == []
    story.everything_fits({"node1", "node2"})


def test_one_promoted_in_anothers_place_has_all(story: Story) -> None:
    story.run("gnt-node", "modify", "--drained=yes", "--auto-promote", "node2")
    story.everything_fits({"node1", "node3"})
    assert story.ssh("node3", "node2") and not story.ssh("node2", "node3")
    story.run("gnt-node", "modify", "--drained=no", "node2")
    story.everything_fits({"node1", "node3"})
    story.run("gnt-node", "modify", "--master-candidate=yes", "node2")
    story.everything_fits({"node1", "node2", "node3"})


def test_the_address_comes_and_goes_as_it_is_told(story: Story) -> None:
    assert story.has_address("node1")
    story.run("gnt-cluster", "deactivate-master-ip", "--yes")
    assert not story.has_address("node1")
    story.run("gnt-cluster", "activate-master-ip")
    assert story.has_address("node1")


@pytest.mark.parametrize("wanted", ["yes", "no"])
def test_a_job_killed_at_any_step_leaves_all_or_nothing(story: Story, wanted: str) -> None:
    """Promoting and demoting node3; which of both it is in the end does not matter."""
    make_jobs_stop(story.bed)
    stop, found = 0, set()
    while True:
        stop += 1
        opposite = "no" if wanted == "yes" else "yes"
        carry_out(story.bed, "gnt-node", "modify", f"--master-candidate={opposite}", "node3")
        job = story.bed.submit("gnt-node", "modify", f"--master-candidate={wanted}", "node3")
        if not kill_at(story.bed, job, stop):
            break
        finish(story.bed, job)
        candidates = {node["name"] for node in story.bed.config()["nodes"].values() if node["master_candidate"]}
        story.everything_fits(candidates)
        found.add("node3" in candidates)
    assert found == {True, False} and stop > 8
    finish(story.bed, job)
    carry_out(story.bed, "gnt-node", "modify", "--master-candidate=yes", "node3")


def test_the_next_master_does_all_that_the_first_one_did(story: Story) -> None:
    story.bed.wait(lambda: story.in_sync("node2", "node3"), "node2 and node3 are in sync")
    machine.kill(story.bed.layout, story.bed.layout.node("node1"))
    story.run("gnt-cluster", "master-failover", node="node2")
    story.master = "node2"
    assert story.has_address("node2")
    story.run("gnt-cluster", "deactivate-master-ip", "--yes")
    assert not story.has_address("node2")
    story.run("gnt-cluster", "activate-master-ip")
    assert story.has_address("node2")
    assert story.ssh("node2", "node3")
    story.run("gnt-node", "modify", "--offline=yes", "node1")


def test_it_takes_a_node_in_and_lets_one_go(story: Story) -> None:
    """Joining signs a certificate with the authority's key; the machine is reached as root over ssh."""
    marks = (story.bed.layout.node("node3").upper / "root/.ssh/authorized_keys").read_text()
    gone = story.uuid("node3")
    story.run("gnt-node", "add", "--readd", "node3")
    assert story.ssh("node3", "node2")
    story.run("gnt-node", "remove", "node3")
    story.uuids.clear()
    left = (story.bed.layout.node("node3").upper / "root/.ssh/authorized_keys").read_text()
    assert "ganeti-node:" in marks and "ganeti-node:" not in left and "administrator" in left
    assert gone not in (story.bed.layout.node("node2").upper / "root/.ssh/authorized_keys").read_text()
    administrator = story.bed.layout.directory / "ssh/administrator"
    story.run(
        "sh",
        "-c",
        f"cat >/root/.ssh/id_ed25519 <<'END'\n{administrator.read_text()}END\nchmod 600 /root/.ssh/id_ed25519",
    )
    story.run(*cluster.add_command(story.bed.layout.node("node3")))
    assert story.ssh("node3", "node2") and story.ssh("node2", "node3")
    assert (story.bed.data("node3") / "ca.key").read_bytes() == (story.bed.data("node2") / "ca.key").read_bytes()


def test_the_first_master_comes_back_and_gets_its_place(story: Story) -> None:
    node = story.bed.layout.node("node1")
    machine.start(story.bed.layout, node)
    story.bed.wait(
        lambda: "ok" in story.run("sh", "-c", "daemon-util check ganeti-noded && echo ok", node="node1", expect=None),
        "the node daemon of node1 runs",
    )
    story.run("gnt-node", "modify", "--offline=no", "node1")
    story.everything_fits({"node2", "node3"})
    story.run("gnt-node", "modify", "--master-candidate=yes", "node1")
    story.everything_fits({"node1", "node2", "node3"})
    assert story.file_findings() == []
