# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that real guests must leave: one that asks to be emptied, and one that is cut off from all others.

From the first they move live and lose no heartbeat, and the node goes once. The other one ends what it has lost itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.fake_bed import FakeBed
from tests.system.test_maintd import DIAGNOSE, STATE, WELL, node_of, opcodes, place, put_back, status, tell
from tests.system.test_maintd import incidents as incidents_of

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, network, processes, watching

pytestmark = pytest.mark.daemons
GUESTS = {"inst1": ("sharedfile", "node3"), "inst2": ("mirror", "node3:node2")}
WITHIN_S = 180.0


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("real").resolve(), 3, "kvm", watcher_interval_s=86400)
    try:
        cluster.create(layout, say=lambda sentence: None)
        found = FakeBed(layout)
        for name in ("node1", "node2", "node3"):
            place(found, name, f"{DIAGNOSE}/check", f"#!/bin/sh\ncat {STATE}\n")
            tell(found, name, WELL)
        found.run(
            *("gnt-cluster", "modify", "--diagnose-data-collector-filename=check", "--maintenance-interval=1"),
            "--data-collector-interval=diagnose=1",
        )
        yield found
    finally:
        testbed.down(layout)


@pytest.mark.requirement("S4.1", "S4.2", "S4.6", "S4.20", "S4.21", "S4.40", "S4.42")
def test_guests_move_live_and_lose_no_heartbeat(bed: FakeBed) -> None:
    with watching.watching(bed.layout, []) as watch:
        began_s = time.monotonic()
        for name, (template, where) in GUESTS.items():
            bed.run(
                *(
                    "gnt-instance",
                    "add",
                    "-t",
                    template,
                    "-o",
                    "heartbeat+default",
                    "--disk",
                    "0:size=64m",
                    "-n",
                    where,
                ),
                *("-B", "memory=128,vcpus=1", "-O", f"rate=2,ack={watching.ACK}", "--net", "0:", name),
            )
        for name in GUESTS:
            watch.wait_for_beat(name, began_s, WITHIN_S)
        told_s = time.monotonic()
        tell(bed, "node3", {"status": "evacuate", "details": "sda fails"})
        bed.wait(lambda: status(bed) in (["completed"], ["failed"]), "node3 is out of service", WITHIN_S)
        for name in GUESTS:
            watch.wait_for_beat(name, time.monotonic(), WITHIN_S)
            assert watch.lost_beats(name, told_s) == 0
    [incident] = incidents_of(bed)
    node = node_of(bed, "node3")
    assert incident["repair-status"] == "completed" and node["offline"] and node["tags"] == [incident["tag"]]
    config = bed.config()
    uuids = {uuid for disk in config["disks"].values() for uuid in disk["nodes"]}
    uuids |= {each["primary_node"] for each in config["instances"].values()}
    assert node["uuid"] not in uuids, json.dumps(config["instances"])
    moves = [(each["OP_ID"], each.get("instance_name")) for each in opcodes(bed, incident["jobs"])]
    assert len(moves) == len(set(moves)) + 1, "only the node itself was changed twice: drained, then offline"
    assert {name for name, _ in moves} >= {"OP_INSTANCE_MIGRATE", "OP_INSTANCE_REPLACE_DISKS"}
    put_back(bed, "node3", incident["tag"])


def emulators(bed: FakeBed, node: str) -> set[str]:
    """Names of the guests whose QEMU runs there, by the processes alone."""
    init = machine.running_pid(bed.layout, bed.layout.node(node))
    found = set()
    for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"-pidfile" in words and b"-name" in words:
                found.add(words[words.index(b"-name") + 1].decode().removeprefix("guest=").partition(",")[0])
    return found


def test_a_node_ends_the_guests_whose_disks_another_one_has_taken(bed):
    """One that is cut off ends that of a shared image in the time that is set, of a mirrored disk once it is back."""
    layout, limit_s = bed.layout, 4
    bed.run("gnt-cluster", "modify", "-D", f"sharedfile:lost_lock_timeout={limit_s}")
    for name, *where in (("lost1", "-t", "sharedfile", "-n", "node2"), ("lost2", "-t", "mirror", "-n", "node2:node3")):
        bed.run(
            *("gnt-instance", "add", *where, "--disk", "0:size=16m", "-B", "memory=96", "--net", "0:"),
            *("-o", "heartbeat+default", name),
        )
    both = {"lost1", "lost2"}
    whole = ("gnt-instance", "info", "lost2")
    bed.wait(lambda: bed.run(*whole).count("in sync, status ok") == 2, "both copies of lost2 are equal")
    assert both <= emulators(bed, "node2")
    network.set_lan(layout, layout.node("node2"), up=False)
    try:
        bed.run("gnt-node", "modify", "--offline=yes", "node2")
        bed.run("gnt-node", "failover", "-f", "--ignore-consistency", "node2")
        assert both <= emulators(bed, "node1") | emulators(bed, "node3")
        bed.wait(lambda: "lost1" not in emulators(bed, "node2"), "node2 ends lost1, which nobody tells it")
        assert "lost2" in emulators(bed, "node2"), "it writes a copy of its own, and nobody can say whether to end it"
    finally:
        network.set_lan(layout, layout.node("node2"), up=True)
    bed.wait(lambda: "lost2" not in emulators(bed, "node2"), "node2 ends lost2")
    told = bed.run("cat", "/var/log/ganeti/node-daemon.log", node="node2")
    assert re.search("instance lost1 is ended on this node: node node[13] holds the image lock", told)
    assert "instance lost2 is ended on this node: node node3 was made primary" in told
    bed.run("gnt-node", "modify", "--offline=no", "node2")
    bed.run("gnt-instance", "activate-disks", "lost2")
    bed.wait(lambda: bed.run(*whole).count("in sync, status ok") == 2, "both copies of lost2 are equal again")
    said = bed.run("gnt-cluster", "verify", expect=None)
    assert not [line for line in said.splitlines() if "lost" in line], said
    assert both <= emulators(bed, "node1") | emulators(bed, "node3")
    for name in sorted(both):
        bed.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", name)
