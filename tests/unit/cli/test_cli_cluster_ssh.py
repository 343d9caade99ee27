# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster command and copyfile: in what order nodes are reached, how many at a time, and what is shown."""

import os

import pytest

NODES = ["node1", "node2", "node3"]
MASTER = "node2"
STAND_IN = """#!/bin/sh
# Says who begins, waits for as many others as $TOGETHER says, and fails on node3.
for word; do case "$word" in root@*) node=${word#root@}; node=${node%%:*};; esac; done
echo "begin $node" >> "$PLACE/log"
: > "$PLACE/$node.here"
left=500
while [ $(ls "$PLACE" | grep -c here) -lt "$TOGETHER" ]; do
  left=$((left - 1)); [ $left -gt 0 ] || exit 9
  sleep 0.02
done
[ "$node" = node1 ] && sleep 0.1
echo "end $node" >> "$PLACE/log"
printf 'on %s \\377\\n' "$node"
[ "$node" != node3 ]
"""


@pytest.fixture
def reached(master, tmp_path, monkeypatch):
    """What stands in for ssh and scp has noted; called with how many are there together before one ends."""
    master.answers["Query"] = {
        "fields": [],
        "data": [[[0, each] for each in (name, "", "", False, name == MASTER, 22, "default")] for name in NODES],
    }
    for program in ("ssh", "scp"):
        (tmp_path / program).write_text(STAND_IN)
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.setenv("TOGETHER", "1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return lambda: (tmp_path / "log").read_text().splitlines()


SHOWN = "".join(
    f"{'-' * 48}\nnode: {node}\non {node} \ufffd\n\nreturn code = {status}\n"
    for node, status in (("node1", 0), ("node3", 1), ("node2", 0))
)


def test_a_command_runs_on_one_node_after_the_other_and_on_the_master_last(gnt, reached):
    ran = gnt("gnt-cluster command uptime")
    assert (ran.status, ran.err, ran.out) == (0, "", SHOWN)
    assert reached() == [f"{what} {node}" for node in ("node1", "node3", "node2") for what in ("begin", "end")]


def test_a_command_runs_on_several_nodes_at_a_time_and_is_shown_in_their_order(gnt, reached, monkeypatch):
    monkeypatch.setenv("TOGETHER", "2")
    ran = gnt("gnt-cluster command --parallel 5 uptime")
    assert (ran.status, ran.err, ran.out) == (0, "", SHOWN)
    assert reached()[2:] == ["end node3", "end node1", "begin node2", "end node2"]


@pytest.mark.parametrize("number", ["0", "101"])
def test_so_many_nodes_at_a_time_are_refused(gnt, reached, number):
    ran = gnt(f"gnt-cluster command --parallel {number} uptime")
    assert (ran.status, ran.err) == (1, "--parallel must be a number of nodes from 1 to 100\n")


def test_a_file_is_copied_to_several_nodes_at_a_time(gnt, reached, monkeypatch, tmp_path):
    monkeypatch.setenv("TOGETHER", "2")
    ran = gnt(f"gnt-cluster copyfile {tmp_path}/ssh")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == f"Copy of file {tmp_path}/ssh to node node3 failed: on node3 \ufffd\n"
    assert sorted(reached()[:2]) == ["begin node1", "begin node3"]
