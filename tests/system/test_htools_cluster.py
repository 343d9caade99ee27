# SPDX-License-Identifier: BSD-2-Clause
"""The placement tools on a running cluster: plans they carry out by jobs, and what they write of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
HOME = "/run/ganeti/fake-hypervisor"
NODES = 3
INSTANCES = 6


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("htools").resolve(), NODES, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        capacity = json.dumps({"memory_total": 16384, "memory_dom0": 0})
        for node in layout.nodes:
            found.run("sh", "-c", f"mkdir -p {HOME} && echo '{capacity}' > {HOME}/.capacity", node=node.name)
        for number in range(INSTANCES):
            add = ("gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=8m", "-o", "noop+default")
            found.run(*add, "-B", "memory=1g", "-n", "node1", f"web{number}")
        yield found
    finally:
        bed.down(layout)


def nodes_of_guests(fake_bed: FakeBed) -> Counter[str]:
    return Counter(node for (node,) in fake_bed.guests().values())


def test_a_plan_is_carried_out(fake_bed):
    """Everything runs on one node; hbal spreads it, by jobs that tell who wanted it and why."""
    assert nodes_of_guests(fake_bed) == {"node1": INSTANCES}
    said = fake_bed.run("hbal", "-L", "-X", "--reason", "too full here", "--priority", "low")
    jobs = [
        int(number) for line in said.splitlines() if line.startswith("Got job IDs ") for number in line[12:].split(",")
    ]
    assert jobs, said
    assert [fake_bed.job_status(job) for job in jobs] == ["success"] * len(jobs)
    assert nodes_of_guests(fake_bed) == {"node1": 2, "node2": 2, "node3": 2}
    for job in jobs:
        (opcode,) = json.loads((fake_bed.data("node1") / f"queue/job-{job}").read_text())["ops"]
        assert opcode["input"]["comment"].startswith("rebalancing via hbal (ganeti) version 3.1")
        assert opcode["input"]["priority"] == 10
        assert ["hbal", "too full here"] in [entry[:2] for entry in opcode["input"]["reason"]]
    fake_bed.check()
    # Free disk is that of this machine, where other work writes between two nodes' answers: the score is seldom 0.
    again = fake_bed.run("hbal", "-L", "-X")
    assert "Got job IDs" not in again, again
    assert nodes_of_guests(fake_bed) == {"node1": 2, "node2": 2, "node3": 2}


def test_a_scan_and_what_it_wrote(fake_bed):
    """The file stands in for the cluster: it gives the same score."""
    said = fake_bed.run("hscan", "-d", "/tmp")
    header, row = said.splitlines()
    assert header.startswith("Name  Nodes  Inst ") and header.endswith(" Score")
    name, nodes, instances, *_, score = row.split()
    assert (name, nodes, instances) == ("LOCAL", str(NODES), str(INSTANCES))
    assert f"Cluster score: {score}" in fake_bed.run("hinfo", "-t", "/tmp/LOCAL.data")


def test_tags_count_for_the_next_instance(fake_bed):
    """Set by jobs, they keep instances apart from then on, until they are taken away."""
    options = ("-t", "sharedfile", "--disk", "0:size=8m", "-o", "noop+default", "-B", "memory=128m")
    holders = {node: name for name, (node,) in fake_bed.guests().items()}

    def kept_off() -> str:
        said = fake_bed.run("gnt-instance", "add", "--why", *options, "--tags", "service:dns", "new")
        return "\n".join(line for line in said.splitlines() if "exclusion tag" in line)

    assert kept_off() == ""
    fake_bed.run("gnt-cluster", "add-tags", "htools:iextags:service")
    assert kept_off() == ""
    for node in ("node1", "node3"):
        fake_bed.run("gnt-instance", "add-tags", holders[node], "service:dns")
    said = kept_off()
    assert "node1" in said and "node3" in said and "node2" not in said, said
    fake_bed.run("gnt-instance", "remove-tags", holders["node1"], "service:dns")
    said = kept_off()
    assert "node3" in said and "node1" not in said, said
    fake_bed.run("gnt-cluster", "remove-tags", "htools:iextags:service")
    assert kept_off() == ""
    fake_bed.run("gnt-instance", "remove-tags", holders["node3"], "service:dns")
    fake_bed.check()


def test_repairs_are_left_to_tags(fake_bed):
    """Nothing is mirrored here, so nothing can be repaired; nothing is touched."""
    said = fake_bed.run("harep", "-L")
    assert f"Instance status count\n---------------------\nHealthy: {INSTANCES}\n" in said
    fake_bed.check()


def test_a_node_reports_its_disks(fake_bed):
    report = json.loads(fake_bed.run("mon-collector", "diskstats", node="node2"))
    assert (report["name"], report["category"], report["kind"]) == ("diskstats", "storage", 0)
    assert all(disk["major"] >= 0 for disk in report["data"])
