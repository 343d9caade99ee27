# SPDX-License-Identifier: BSD-2-Clause
"""The maintenance daemon on real daemons: a node tells of a defect, and is taken out of service, once (S4.15-S4.42)."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.system.fake_bed import SELDOM_S, WITHIN_S, FakeBed

from ganeti.base.addresses import bracketed
from ganeti.master.maintenance.repair_tags import PREFIX as REPAIRS
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
DIAGNOSE, REPAIR = "/etc/ganeti/node-diagnose-commands", "/etc/ganeti/node-repair-commands"
STATE = "/var/lib/defect.json"
CONNECTION_REFUSED = 7
"""Exit status of curl."""
WATCHER_S = 3000
"""Longer than the tests take; from an hour on nodes tell nobody of guests that end."""
WELL = {"status": "Ok"}
NODES = ("node1", "node2", "node3", "node4")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("maintd").resolve(), 4, "fake", watcher_interval_s=WATCHER_S)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        for name in NODES:
            place(found, name, f"{DIAGNOSE}/check", f"#!/bin/sh\ncat {STATE}\n")
            tell(found, name, WELL)
        users = "/var/lib/ganeti/rapi/users"
        found.run(
            "sh", "-c", f"umask 027; mkdir -p {os.path.dirname(users)} && echo 'jack open-sesame write' > {users}"
        )
        found.run(
            *("gnt-cluster", "modify", "--diagnose-data-collector-filename=check", "--maintenance-interval=1"),
            *("--data-collector-interval=diagnose=1", "--maintenance-nodes-at-once=1"),
        )
        yield found
    finally:
        testbed.down(layout)


def place(bed: FakeBed, node: str, path: str, text: str) -> None:
    file = bed.layout.node(node).upper / path.lstrip("/")
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def tell(bed: FakeBed, node: str, original: Any) -> None:
    """Have a node say how it is."""
    place(bed, node, STATE, json.dumps(original))


def get(bed: FakeBed, path: str, node: str = "node1") -> Any:
    done = machine.run(bed.layout, node, "curl", "-sSf", f"http://{address(bed)}:1816{path}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if path != "/metrics" else done.stdout


def address(bed: FakeBed) -> str:
    """The cluster's, as it stands in a URL."""
    return bracketed(bed.config()["cluster"]["master_ip"])


def incidents(bed: FakeBed, node: str = "node1") -> list[dict[str, Any]]:
    return get(bed, "/1/status", node)


def status(bed: FakeBed, node: str = "node1") -> list[str]:
    return [each["repair-status"] for each in incidents(bed, node)]


def node_of(bed: FakeBed, name: str) -> dict[str, Any]:
    return next(each for each in bed.config()["nodes"].values() if each["name"] == name)


def add(bed: FakeBed, name: str, on: str, template: str = "sharedfile") -> None:
    words = ("gnt-instance", "add", "-t", template, "--disk", "0:size=1m", "-o", "noop+default", "-n", on)
    bed.run(*words, "--no-name-check", name)


def opcodes(bed: FakeBed, jobs: list[int]) -> list[dict[str, Any]]:
    read = [json.loads((bed.data("node1") / f"queue/job-{job}").read_text()) for job in jobs]
    return [op["input"] for job in read for op in job["ops"]]


def put_back(bed: FakeBed, name: str, tag: str) -> None:
    tell(bed, name, WELL)
    bed.run("gnt-node", "remove-tags", name, tag)
    bed.run("gnt-node", "modify", "--offline=no", name)
    bed.wait(lambda: incidents(bed) == [], "the incident is forgotten")


@pytest.mark.requirement("S4.15", "S4.17", "S4.18", "S4.20", "S4.21", "S4.28", "S4.29", "S4.30", "S4.39")
def test_a_node_that_asks_for_it_is_emptied_and_taken_out_once(bed: FakeBed) -> None:
    for name in ("web1", "web2"):
        add(bed, name, "node3")
    tell(bed, "node3", {"status": "evacuate", "details": {"disk": "sda", "sectors": 7}})
    bed.wait(lambda: status(bed) == ["completed"], "node3 is out of service", every_s=SELDOM_S)
    [incident] = incidents(bed)
    assert incident["original"]["details"] == {"disk": "sda", "sectors": 7} and incident["id"] == incident["uuid"]
    assert incident["node"] == node_of(bed, "node3")["uuid"]
    assert incident["tag"] == f"maintd:repairready:{incident['uuid']}"
    found = node_of(bed, "node3")
    assert found["offline"] and found["tags"] == [incident["tag"]]
    assert all("node3" not in places for places in bed.guests().values())
    done = opcodes(bed, incident["jobs"])
    names = [opcode["OP_ID"] for opcode in done]
    assert names.count("OP_INSTANCE_MIGRATE") == 2 and names.count("OP_NODE_SET_PARAMS") == 2
    for opcode in done:
        assert ["gnt:daemon:maintd", incident["uuid"]] in [entry[:2] for entry in opcode["reason"]]
    put_back(bed, "node3", incident["tag"])
    bed.check()


@pytest.mark.requirement("S4.24", "S4.25", "S4.26", "S4.27", "S4.31")
def test_it_answers_on_its_port_and_runs_on_the_master_only(bed: FakeBed) -> None:
    assert get(bed, "/") == [1] and get(bed, "/1/status") == []
    assert get(bed, "/1/jobs") == [] and get(bed, "/1/evacuated") == []
    elsewhere = machine.run(bed.layout, "node1", "curl", "-s", "http://127.0.0.1:1816/")
    assert elsewhere.returncode == CONNECTION_REFUSED, "it listens on the master's address alone"
    posted = machine.run(bed.layout, "node1", "curl", "-s", "-X", "POST", f"http://{address(bed)}:1816/1/status")
    assert posted.stdout == "Only GET is answered here"
    said = bed.run("ganeti-maintd", "-f", node="node2", expect=11)
    assert "node1" in said
    assert "confirm with --yes-do-it" in bed.run("ganeti-maintd", "-f", "--no-voting", expect=1)
    bed.run("daemon-util", "stop", "ganeti-maintd")
    try:
        bed.run("ganeti-maintd", "-d", "-p", "1900", "-b", "127.0.0.1")
        there = machine.run(bed.layout, "node1", "curl", "-s", "http://127.0.0.1:1900/")
        bed.run("daemon-util", "stop", "ganeti-maintd")
        assert json.loads(there.stdout) == [1]
    finally:
        bed.run("daemon-util", "start", "ganeti-maintd")


@pytest.mark.requirement("S4.7", "S4.12")
def test_a_repair_command_reads_the_object_and_a_failure_is_not_repeated(bed: FakeBed) -> None:
    place(bed, "node2", f"{REPAIR}/fix", "#!/bin/sh\ncat > /var/lib/read\n")
    place(bed, "node4", f"{REPAIR}/fix", "#!/bin/sh\necho >> /var/lib/tried\nexit 1\n")
    original = {"status": "live-repair", "command": "fix", "details": {"dimm": [3, 4]}}
    for name in ("node2", "node4"):
        tell(bed, name, original)
    bed.wait(
        lambda: sorted(status(bed)) == ["completed", "failed"], "one repair works, the other does not", every_s=SELDOM_S
    )
    read = bed.layout.node("node2").upper / "var/lib/read"
    assert json.loads(read.read_text()) == original
    by_node = {each["node"]: each for each in incidents(bed)}
    failed = by_node[node_of(bed, "node4")["uuid"]]
    assert len(failed["jobs"]) == 1 and node_of(bed, "node4")["tags"] == [f"maintd:repairfailed:{failed['uuid']}"]
    assert not node_of(bed, "node2")["offline"] and not node_of(bed, "node2")["drained"]
    bed.run("gnt-cluster", "incidents", "forget", by_node[node_of(bed, "node2")["uuid"]]["uuid"])
    tell(bed, "node2", WELL)
    tell(bed, "node4", WELL)
    bed.run("gnt-node", "remove-tags", "node4", failed["tag"])
    bed.wait(lambda: incidents(bed) == [], "all is forgotten", every_s=SELDOM_S)
    assert (bed.layout.node("node4").upper / "var/lib/tried").read_text() == "\n", "it was tried once"


@pytest.mark.requirement("S4.14")
def test_a_forged_report_changes_nothing_and_is_counted(bed: FakeBed) -> None:
    tell_forged(bed, "node4", "node2")
    assert incidents(bed) == [] and not node_of(bed, "node4")["drained"]


def tell_forged(bed: FakeBed, node: str, other: str) -> None:
    """Have *node* tell that it is to be emptied, without the cluster's key, and with *other*'s report; until each is
    refused."""
    signed = json.loads(curl(bed, other))["signed"]
    forged = json.loads(signed["msg"]) | {"diagnose": {"status": "evacuate"}, "node": node}
    reports = {"signature": signed | {"msg": json.dumps(forged)}, "node": signed}
    bed.run("daemon-util", "stop", "ganeti-mond", node=node)
    options = ("-d", "/var/lib/forged", "-b", bed.layout.any_address)
    for reason, report in reports.items():
        place(bed, node, "/var/lib/forged/1/report/node/diagnose", json.dumps({"signed": report}))
        server = machine.popen(bed.layout, node, "python3", "-m", "http.server", "1815", *options)
        try:
            counted = f'ganeti_reports_refused_total{{reason="{reason}"}} [1-9]'
            bed.wait(lambda line=counted: re.search(line, get(bed, "/metrics")), f"a refusal: {reason}")
        finally:
            server.terminate()
            server.wait()
    bed.run("daemon-util", "start", "ganeti-mond", node=node)


def test_a_guest_that_ends_is_started_again_at_once(bed: FakeBed) -> None:
    """No watcher comes by itself here: the node tells of the end."""
    add(bed, "dies1", "node3")
    record = ("cat", "/var/log/ganeti/monitoring-daemon.record")
    bed.wait(lambda: "guest dies1 runs" in bed.run(*record, node="node3", expect=None), "the node has seen it")
    bed.run("rm", "/run/ganeti/fake-hypervisor/dies1", node="node3")
    bed.wait(lambda: bed.guests().get("dies1") == ["node3"], "it runs again", every_s=SELDOM_S)
    bed.run("gnt-instance", "remove", "--force", "dies1")
    said = machine.run(
        *(bed.layout, "node2", "curl", "-s", "-w", " %{http_code}", "--data", '{"signed": {}}'),
        f"http://{address(bed)}:1816/1/guests",
    )
    assert said.stdout == "The report has no signature 403"


def test_a_guest_that_dies_before_anybody_saw_it_is_started_again(bed: FakeBed) -> None:
    """The node's MonD hangs while the guest begins and dies: only the configuration says that it should run."""
    mond = bed.run("cat", "/run/ganeti/ganeti-mond.pid", node="node3").strip()
    bed.run("kill", "-STOP", mond, node="node3")
    try:
        add(bed, "dies2", "node3")
        bed.run("rm", "/run/ganeti/fake-hypervisor/dies2", node="node3")
    finally:
        bed.run("kill", "-CONT", mond, node="node3")
    bed.wait(lambda: bed.guests().get("dies2") == ["node3"], "it runs again", 2 * WITHIN_S, every_s=SELDOM_S)
    bed.run("gnt-instance", "remove", "--force", "dies2")


def curl(bed: FakeBed, node: str) -> str:
    return machine.run(bed.layout, node, "curl", "-s", "http://127.0.0.1:1815/1/report/node/diagnose").stdout


@pytest.mark.requirement("S4.16", "S4.30")
def test_a_plan_is_shown_and_incidents_canceled(bed: FakeBed) -> None:
    """By the command, and by the remote API; then nothing is done, and it is forgotten once nobody sees it."""
    bed.run("gnt-cluster", "modify", "--maintenance-nodes-at-once=0")
    for name in ("node3", "node4"):
        tell(bed, name, {"status": "evacuate"})
    plan = ("gnt-cluster", "maintenance", "plan")
    bed.wait(lambda: bed.run(*plan).count("no node may be taken out of service") == 2, "they are held back")
    said = bed.run("gnt-cluster", "incidents", "list")
    by_node = {each["node_name"]: each["uuid"] for each in incidents(bed)}
    assert all(uuid in said and name in said for name, uuid in by_node.items()) and "noted" in said
    mine, theirs = by_node["node4"], by_node["node3"]
    assert '"status": "evacuate"' in bed.run("gnt-cluster", "incidents", "show", mine[:8])
    assert "is canceled" in bed.run("gnt-cluster", "incidents", "cancel", mine[:8])
    assert remote(bed, "DELETE", f"/2/maintenance/incidents/{theirs}", "jack:wrong").endswith(" 401")
    assert remote(bed, "DELETE", f"/2/maintenance/incidents/{theirs}").endswith(" 200")
    bed.wait(lambda: status(bed) == ["canceled"] * 2, "the job of the remote API has canceled the other")
    bed.run("gnt-cluster", "modify", "--maintenance-nodes-at-once=1")
    assert "Nothing is to be done" in bed.run(*plan)
    assert "is the id of no incident" in bed.run("gnt-cluster", "incidents", "cancel", "nonsense", expect=1)
    assert status(bed) == ["canceled"] * 2 and not any(node_of(bed, name)["drained"] for name in by_node)
    for name in by_node:
        tell(bed, name, WELL)
    bed.wait(lambda: incidents(bed) == [], "they are forgotten")


def remote(bed: FakeBed, method: str, path: str, user: str = "jack:open-sesame") -> str:
    """The answer of the remote API and its status."""
    words = ("curl", "-sk", "-u", user, "-X", method, "-w", " %{http_code}", f"https://127.0.0.1:5080{path}")
    return machine.run(bed.layout, "node1", *words).stdout


@pytest.mark.requirement("S4.35", "S4.37")
def test_harep_and_the_daemon_mend_what_offline_nodes_leave_behind(bed: FakeBed) -> None:
    add(bed, "mail1", "node3:node4", "mirror")
    bed.run("gnt-cluster", "add-tags", f"{REPAIRS}reinstall")
    bed.run("gnt-instance", "add-tags", "mail1", f"{REPAIRS}suspend")
    for name in ("node3", "node4"):
        bed.run("gnt-node", "modify", "--offline=yes", name)
    said = bed.run("harep", "--job-delay=0")
    assert "Not repairing mail1 because it's in state ArSuspended Forever" in said, "the nearest tag decides"
    bed.run("gnt-instance", "remove-tags", "mail1", f"{REPAIRS}suspend")
    bed.run("gnt-instance", "add-tags", "mail1", f"{REPAIRS}suspend:{int(time.time()) - 60}")
    assert "Executing ArReinstall repair on mail1" in bed.run("harep", "--job-delay=0")
    bed.wait(lambda: "Pending" not in bed.run("harep"), "the repair has ended")
    assert repairs(bed, "mail1") == [("result", "reinstall", "success")]
    mail1 = instance_of(bed, "mail1")
    assert mail1["admin_state"] == "down", "its disks are empty, so it is not started"
    assert places(bed, mail1) == {"node1", "node2"}

    for name in ("node3", "node4"):
        bed.run("gnt-node", "modify", "--offline=no", name)
    bed.run("gnt-cluster", "modify", "--auto-repair-instances=yes")
    bed.run("gnt-node", "modify", "--offline=yes", "node2")
    done = ("result", "fix-storage", "success")
    bed.wait(lambda: repairs(bed, "mail1") == [done], "the daemon has mended it", every_s=SELDOM_S)
    assert "node2" not in places(bed, instance_of(bed, "mail1"))
    bed.run("gnt-cluster", "modify", "--auto-repair-instances=no")
    bed.run("gnt-node", "modify", "--offline=no", "node2")
    bed.run("gnt-instance", "remove", "--force", "mail1")


def repairs(bed: FakeBed, name: str) -> list[tuple[str, ...]]:
    """What the tags say of the repairs of an instance: pending or the result, its kind, how it ended."""
    tags = [tag.removeprefix(REPAIRS).split(":") for tag in instance_of(bed, name)["tags"]]
    return [(each[0], each[1], *each[4:5]) for each in tags if each[0] in ("pending", "result")]


def instance_of(bed: FakeBed, name: str) -> dict[str, Any]:
    return next(each for each in bed.config()["instances"].values() if each["name"] == name)


def places(bed: FakeBed, instance: dict[str, Any]) -> set[str]:
    config = bed.config()
    uuids = {uuid for disk in instance["disks"] for uuid in config["disks"][disk]["nodes"]}
    return {config["nodes"][uuid]["name"] for uuid in {*uuids, instance["primary_node"]}}


@pytest.mark.requirement("S4.23", "S4.32")
def test_the_master_moves_between_two_rounds_and_each_action_happens_once(bed: FakeBed) -> None:
    add(bed, "web3", "node4")
    bed.run("gnt-cluster", "modify", "--maintenance-interval=8")
    tell(bed, "node4", {"status": "evacuate-failover"})
    bed.wait(lambda: status(bed) == ["pending"], "the first round has begun")
    bed.run("gnt-cluster", "modify", "--maintenance-interval=3600")
    bed.wait(lambda: get(bed, "/1/jobs") == [], "the first round has ended")
    assert node_of(bed, "node4")["drained"]
    bed.run("gnt-cluster", "master-failover", node="node2")
    bed.run("gnt-cluster", "modify", "--maintenance-interval=1", node="node2")
    bed.wait(lambda: status(bed, "node2") == ["completed"], "the new master goes on", every_s=SELDOM_S)
    [incident] = incidents(bed, "node2")
    done = [(each["OP_ID"], each.get("instance_name"), each.get("offline")) for each in opcodes(bed, incident["jobs"])]
    assert len(done) == len(set(done)), "each action happens once"
    assert {name for name, *_ in done} == {"OP_NODE_SET_PARAMS", "OP_INSTANCE_FAILOVER"}, "and nothing moves live"
    assert not bed.run("pgrep", "-f", "ganeti-maintd", expect=1)
