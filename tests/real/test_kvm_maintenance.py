# SPDX-License-Identifier: BSD-2-Clause
"""The cluster looks after real guests: they run again, stay down as their user wants, and leave nodes with defects.

From a node that asks for it they move live and lose no heartbeat, and the node goes once. One that is cut off from all
others ends what it has lost itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.fake_bed import SELDOM_S, FakeBed
from tests.system.test_maintd import (
    DIAGNOSE,
    REPAIR,
    STATE,
    WATCHER_S,
    WELL,
    get,
    instance_of,
    node_of,
    opcodes,
    place,
    put_back,
    status,
    tell,
    tell_forged,
)
from tests.system.test_maintd import incidents as incidents_of

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, network, processes, watching

pytestmark = pytest.mark.daemons
GUESTS = {"inst1": ("sharedfile", "node3"), "inst2": ("mirror", "node3:node2")}
WITHIN_S = 180.0


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("real").resolve(), 3, "kvm", watcher_interval_s=WATCHER_S)
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
                *("-B", "memory=128,vcpus=1", "-O", f"rate=2,ack={watching.ack(bed.layout)}", "--net", "0:", name),
            )
        for name in GUESTS:
            watch.wait_for_beat(name, began_s, WITHIN_S)
        told_s = time.monotonic()
        tell(bed, "node3", {"status": "evacuate", "details": "sda fails"})
        bed.wait(
            lambda: status(bed) in (["completed"], ["failed"]), "node3 is out of service", WITHIN_S, every_s=SELDOM_S
        )
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


def emulators(bed: FakeBed, node: str) -> dict[str, int]:
    """Names of the guests whose QEMU runs there and its process id, by the processes alone."""
    init = machine.running_pid(bed.layout, bed.layout.node(node))
    found = {}
    for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"-pidfile" in words and b"-name" in words:
                found[words[words.index(b"-name") + 1].decode().removeprefix("guest=").partition(",")[0]] = pid
    return found


def home(bed: FakeBed, name: str) -> str:
    """The primary node of an instance."""
    return str(bed.config()["nodes"][instance_of(bed, name)["primary_node"]]["name"])


def type_poweroff(bed: FakeBed, node: str, name: str) -> None:
    """As its user does on the console; the first line asks for a shell."""
    for line in ("", "poweroff"):
        reach = f"echo '{line}' | socat -t0.5 - UNIX-CONNECT:/run/ganeti/kvm-hypervisor/ctrl/{name}.serial"
        bed.run("sh", "-c", reach, node=node, expect=None)


@pytest.mark.requirement("S4.1")
def test_a_guest_that_is_killed_runs_again_and_one_that_its_user_shut_down_stays_down(bed: FakeBed) -> None:
    bed.run("gnt-cluster", "modify", "--user-shutdown=yes")
    bed.run("gnt-instance", "modify", "-H", "user_shutdown=true", "inst1")
    node = home(bed, "inst1")
    killed = emulators(bed, node)["inst1"]
    with watching.watching(bed.layout, []) as watch:
        os.kill(killed, signal.SIGKILL)
        bed.wait(
            lambda: emulators(bed, node).get("inst1", killed) != killed, "inst1 runs again", WITHIN_S, every_s=SELDOM_S
        )
        watch.wait_for_beat("inst1", time.monotonic(), WITHIN_S)
    tried_s = 0.0

    def is_down() -> bool:
        nonlocal tried_s
        if "inst1" in emulators(bed, node) and time.monotonic() - tried_s > 10.0:
            type_poweroff(bed, node, "inst1")
            tried_s = time.monotonic()
        return str(instance_of(bed, "inst1")["admin_state"]) == "down"

    bed.wait(is_down, "inst1 is marked as down, as its user wants", WITHIN_S, every_s=SELDOM_S)
    assert instance_of(bed, "inst1")["admin_state_source"] == "user" and "inst1" not in emulators(bed, node)
    bed.run("ganeti-watcher", "--nodegroup", instance_group(bed, "inst1"))
    assert instance_of(bed, "inst1")["admin_state"] == "down" and "inst1" not in emulators(bed, node)
    bed.run("gnt-instance", "startup", "inst1")


def instance_group(bed: FakeBed, name: str) -> str:
    return str(node_of(bed, home(bed, name))["group"])


@pytest.mark.requirement("S4.7", "S4.14", "S4.19", "S4.20", "S4.22")
def test_repairs_beside_running_guests_and_a_forged_report(bed: FakeBed) -> None:
    """A repair that works, one that fails and is not tried again, and a report that is not believed."""
    place(bed, "node1", f"{REPAIR}/fix", "#!/bin/sh\ncat > /var/lib/read\n")
    place(bed, "node2", f"{REPAIR}/fix", "#!/bin/sh\necho >> /var/lib/tried\nexit 1\n")
    original = {"status": "live-repair", "command": "fix", "details": {"dimm": [3, 4]}}
    uuids = {name: node_of(bed, name)["uuid"] for name in ("node1", "node2")}
    with watching.watching(bed.layout, []) as watch:
        for name in GUESTS:
            watch.wait_for_beat(name, time.monotonic(), WITHIN_S)
        told_s = time.monotonic()
        for name in uuids:
            tell(bed, name, original)
        bed.wait(
            lambda: sorted(status(bed)) == ["completed", "failed"],
            "one repair works, the other fails",
            WITHIN_S,
            every_s=SELDOM_S,
        )
        tell_forged(bed, "node3", "node1")
        for name in GUESTS:
            watch.wait_for_beat(name, time.monotonic(), WITHIN_S)
            assert watch.lost_beats(name, told_s) == 0
    by_node = {each["node"]: each for each in incidents_of(bed)}
    assert set(by_node) == set(uuids.values()), "the forged report of node3 changes nothing"
    assert not any(node["drained"] or node["offline"] for node in bed.config()["nodes"].values())
    mended, failed = by_node[uuids["node1"]], by_node[uuids["node2"]]
    assert json.loads((bed.layout.node("node1").upper / "var/lib/read").read_text()) == original
    assert (bed.layout.node("node2").upper / "var/lib/tried").read_text() == "\n", "it was tried once"
    assert [each["OP_ID"] for each in opcodes(bed, failed["jobs"])] == ["OP_REPAIR_COMMAND"]
    assert node_of(bed, "node1")["tags"] == [f"maintd:repairready:{mended['uuid']}"]
    assert node_of(bed, "node2")["tags"] == [f"maintd:repairfailed:{failed['uuid']}"]
    for name, incident in (("node1", mended), ("node2", failed)):
        tell(bed, name, WELL)
        bed.run("gnt-node", "remove-tags", name, incident["tag"])
    bed.wait(lambda: incidents_of(bed) == [], "both are forgotten", WITHIN_S, every_s=SELDOM_S)


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
    bed.wait(
        lambda: bed.run(*whole).count("in sync, status ok") == 2, "both copies of lost2 are equal", every_s=SELDOM_S
    )
    assert both <= emulators(bed, "node2").keys()
    network.set_lan(layout, layout.node("node2"), up=False)
    try:
        bed.run("gnt-node", "modify", "--offline=yes", "node2")
        bed.run("gnt-node", "failover", "-f", "--ignore-consistency", "node2")
        assert both <= emulators(bed, "node1").keys() | emulators(bed, "node3")
        bed.wait(
            lambda: "lost1" not in emulators(bed, "node2"), "node2 ends lost1, which nobody tells it", every_s=SELDOM_S
        )
        assert "lost2" in emulators(bed, "node2"), "it writes a copy of its own, and nobody can say whether to end it"
    finally:
        network.set_lan(layout, layout.node("node2"), up=True)
    bed.wait(lambda: "lost2" not in emulators(bed, "node2"), "node2 ends lost2", every_s=SELDOM_S)
    told = bed.run("cat", "/var/log/ganeti/node-daemon.log", node="node2")
    assert re.search("instance lost1 is ended on this node: node node[13] holds the image lock", told)
    assert "instance lost2 is ended on this node: node node3 was made primary" in told
    bed.run("gnt-node", "modify", "--offline=no", "node2")
    bed.run("gnt-instance", "activate-disks", "lost2")
    bed.wait(
        lambda: bed.run(*whole).count("in sync, status ok") == 2,
        "both copies of lost2 are equal again",
        every_s=SELDOM_S,
    )
    said = bed.run("gnt-cluster", "verify", expect=None)
    assert not [line for line in said.splitlines() if "lost" in line], said
    assert both <= emulators(bed, "node1").keys() | emulators(bed, "node3")
    for name in sorted(both):
        bed.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", name)


@pytest.mark.requirement("S4.6", "S4.23", "S4.32")
def test_guests_that_may_not_move_live_leave_once_while_the_master_moves(bed: FakeBed) -> None:
    if home(bed, "inst1") != "node3":
        bed.run("gnt-instance", "migrate", "-f", "-n", "node3", "inst1")
    bed.run("gnt-cluster", "modify", "--maintenance-interval=8")
    tell(bed, "node3", {"status": "evacuate-failover"})
    bed.wait(lambda: status(bed) == ["pending"], "the first round has begun", WITHIN_S)
    bed.run("gnt-cluster", "modify", "--maintenance-interval=3600")
    bed.wait(lambda: get(bed, "/1/jobs") == [], "the first round has ended", WITHIN_S)
    assert node_of(bed, "node3")["drained"] and not node_of(bed, "node3")["offline"]
    bed.run("gnt-cluster", "master-failover", node="node2")
    bed.run("gnt-cluster", "modify", "--maintenance-interval=1", node="node2")
    bed.wait(
        lambda: status(bed, "node2") in (["completed"], ["failed"]),
        "the new master goes on",
        WITHIN_S,
        every_s=SELDOM_S,
    )
    [incident] = incidents_of(bed, "node2")
    assert incident["repair-status"] == "completed"
    done = [(each["OP_ID"], each.get("instance_name"), each.get("offline")) for each in opcodes(bed, incident["jobs"])]
    assert len(done) == len(set(done)), "each action happens once"
    assert ("OP_INSTANCE_FAILOVER", "inst1", None) in done
    assert not any("MIGRATE" in name for name, *_ in done), "nothing moves live"
    assert "inst1" in emulators(bed, "node1") | emulators(bed, "node2") and not emulators(bed, "node3")
