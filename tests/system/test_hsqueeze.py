# SPDX-License-Identifier: BSD-2-Clause
"""Nodes of a running cluster switched off and on: by gnt-node power, and by hsqueeze, which empties them first."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
HOME = "/run/ganeti/fake-hypervisor"
PROGRAM = "/usr/local/sbin/power"
BOARD = """#!/bin/sh
echo "$1 $2" >> /var/log/power
case $1 in
  power-on) touch /var/lib/$2.on ;;
  power-off) rm -f /var/lib/$2.on ;;
  power-status) test -e /var/lib/$2.on && echo '{"powered": true}' || echo '{"powered": false}' ;;
  health) echo '[["fan", "WARNING"], ["disk", "OK"]]' ;;
  *) exit 1 ;;
esac
"""
NODES = 3
OTHERS = ("node2", "node3")
STANDBY = "htools:standby:auto"


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("squeeze").resolve(), NODES, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        capacity = json.dumps({"memory_total": 16384, "memory_dom0": 0})
        for node in layout.nodes:
            found.run("sh", "-c", f"mkdir -p {HOME} && echo '{capacity}' > {HOME}/.capacity", node=node.name)
        found.run(
            "sh",
            "-c",
            f"cat > {PROGRAM} <<'END'\n{BOARD}END\nchmod 755 {PROGRAM}; touch /var/lib/node2.on /var/lib/node3.on",
        )
        for number, node in enumerate((*OTHERS, "node2")):
            add = ("gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=8m", "-o", "noop+default")
            found.run(*add, "-B", "memory=1g", "-n", node, f"web{number}")
        yield found
    finally:
        bed.down(layout)


def calls(fake_bed: FakeBed) -> list[str]:
    """What the boards were told since it was looked last."""
    return fake_bed.run("sh", "-c", "touch /var/log/power; cat /var/log/power; : > /var/log/power").splitlines()


def standing(fake_bed: FakeBed) -> dict[str, tuple[bool, bool, list[str]]]:
    """Of each node: whether it is offline, whether it is on, and its tags."""
    return {
        node["name"].partition(".")[0]: (node["offline"], node["powered"], node["tags"])
        for node in fake_bed.config()["nodes"].values()
    }


def test_power_is_switched_by_the_nodes_program(fake_bed: FakeBed) -> None:
    assert "(unavail)" in fake_bed.run("gnt-node", "power", "status", "node2", expect=1)
    for node in OTHERS:
        fake_bed.run("gnt-node", "modify", "--node-parameters", f"oob_program={PROGRAM}", node)
    said = fake_bed.run("gnt-node", "power", "--no-headers", "--separator=|", "status", *OTHERS)
    assert "node2|powered\nnode3|powered\n" in said
    said = fake_bed.run("gnt-node", "health", "node2")
    assert "Item 'fan' on node 'node2' has status 'WARNING'" in said
    assert "node2 fan=WARNING\n      disk=OK\n" in said
    calls(fake_bed)
    assert "not allowed on the master node node1" in fake_bed.run("gnt-node", "power", "-f", "cycle", "node1", expect=1)
    said = fake_bed.run("gnt-node", "power", "-f", "--ignore-status", "cycle", "node3", expect=1)
    assert "Out-of-band command power-cycle failed for node node3" in said
    assert calls(fake_bed) == ["power-cycle node3"]
    assert standing(fake_bed) == dict.fromkeys(("node1", *OTHERS), (False, True, []))


def test_nodes_are_emptied_tagged_and_switched_off(fake_bed: FakeBed) -> None:
    said = fake_bed.run("hsqueeze", "-L", "-X")
    assert "'Nodes to offline'\nnode3\nnode2\n" in said or "'Nodes to offline'\nnode2\nnode3\n" in said
    jobs = [
        int(number) for line in said.splitlines() if line.startswith("Got job IDs ") for number in line[12:].split(",")
    ]
    assert [fake_bed.job_status(job) for job in jobs] == ["success"] * len(jobs)
    assert {node for nodes in fake_bed.guests().values() for node in nodes} == {"node1"}
    assert standing(fake_bed) == {"node1": (False, True, []), **dict.fromkeys(OTHERS, (True, False, [STANDBY]))}
    assert sorted(calls(fake_bed)) == ["power-off node2", "power-off node3"]
    last = json.loads((fake_bed.data("node1") / f"queue/job-{jobs[-1]}").read_text())["ops"]
    assert [op["input"]["OP_ID"] for op in last] == ["OP_NODE_SET_PARAMS", "OP_NODE_SET_PARAMS", "OP_OOB_COMMAND"]
    assert last[0]["input"]["comment"].startswith("condensing by 2 nodes (ganeti) version 3.1")
    fake_bed.check()


def test_nodes_come_back(fake_bed: FakeBed) -> None:
    """As in 3.0 a node that is off has no room, so it is wanted back; unlike there it is switched on first."""
    said = fake_bed.run("hsqueeze", "-L", "-X")
    assert "'Nodes to online'\nnode2\nnode3\nGot job IDs " in said
    assert calls(fake_bed) == ["power-on node2", "power-on node3"]
    assert {name: state[:2] for name, state in standing(fake_bed).items()} == dict.fromkeys(
        ("node1", *OTHERS), (False, True)
    )
    fake_bed.check()


def test_the_commands_it_prints_do_the_same(fake_bed: FakeBed) -> None:
    fake_bed.run("hsqueeze", "-L", "-C/tmp/squeeze")
    script = fake_bed.run("cat", "/tmp/squeeze")
    assert "gnt-node add-tags node2 htools:standby:auto\n" in script and "gnt-node power -f off node2\n" in script
    fake_bed.run("sh", "/tmp/squeeze")
    assert {node for nodes in fake_bed.guests().values() for node in nodes} == {"node1"}
    assert standing(fake_bed) == {"node1": (False, True, []), **dict.fromkeys(OTHERS, (True, False, [STANDBY]))}
    assert sorted(calls(fake_bed)) == ["power-off node2", "power-off node3"]
    fake_bed.check()
