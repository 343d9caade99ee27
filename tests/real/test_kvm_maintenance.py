# SPDX-License-Identifier: BSD-2-Clause
"""A node that asks to be emptied, with real guests: they move live and lose no heartbeat, and the node goes once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed
from tests.system.test_maintd import DIAGNOSE, STATE, WELL, node_of, opcodes, place, put_back, status, tell
from tests.system.test_maintd import incidents as incidents_of

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, watching

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
