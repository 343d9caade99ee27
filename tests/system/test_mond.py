# SPDX-License-Identifier: BSD-2-Clause
"""MonD on real daemons: every node tells how it is, and goes on while no master daemon runs (S2.17, S4.3)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine
from ganeti.wire import confd

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.requirement("S2.1", "S2.17", "S4.3", "S4.4", "S4.11", "S4.14"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NODES = ("node1", "node2", "node3")
COMMANDS = "/etc/ganeti/node-diagnose-commands"
TELLS = """#!/bin/sh
echo '{"status": "evacuate", "details": "sda fails"}'
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("mond").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def get(bed: FakeBed, node: str, path: str) -> Any:
    done = machine.run(bed.layout, node, "curl", "-sSf", f"http://127.0.0.1:1815{path}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if path != "/metrics" else done.stdout


def test_every_node_tells_how_it_is(bed: FakeBed) -> None:
    bed.run("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-n", "node2", "--no-name-check", "web1")
    for node in NODES:
        assert get(bed, node, "/") == [1]
        names = {name for name, _, _ in get(bed, node, "/1/list/collectors")}
        assert {"cpu-avg-load", "diskstats", "storage", "diagnose", "inst-status-fake"} <= names
        told = {each["name"]: each["data"] for each in get(bed, node, "/1/report/all")}
        assert told["cpu-avg-load"]["cpu_number"] == os.cpu_count() and told["diagnose"] == {"status": "Ok"}
    bed.wait(lambda: guests(bed) == [("web1", "up", "running", 0)], "the guest as the configuration has it")
    assert 'ganeti_instance_running{instance="web1"} 1' in get(bed, "node2", "/metrics")


def guests(bed: FakeBed) -> list[tuple[Any, ...]]:
    data = get(bed, "node2", "/1/report/instance/inst-status-fake")["data"]
    return [(own["name"], own["adminState"], own["actualState"], own["status"]["code"]) for own in data["instances"]]


def test_with_every_master_daemon_dead_nodes_go_on_telling(bed: FakeBed) -> None:
    bed.run("daemon-util", "stop-master")
    try:
        machine.run(bed.layout, "node2", "daemon-util", "stop", "ganeti-mond")
        started = machine.run(bed.layout, "node2", "daemon-util", "start", "ganeti-mond")
        assert started.returncode == 0, started.stderr
        assert guests(bed) == [("web1", "up", "running", 0)]
    finally:
        bed.run("daemon-util", "start-all")


def test_what_a_diagnose_command_says_is_signed(bed: FakeBed) -> None:
    place = bed.layout.node("node3").upper / f"{COMMANDS}/check".lstrip("/")
    place.parent.mkdir(mode=0o755)
    place.write_text(TELLS)
    place.chmod(0o755)
    said = bed.run("gnt-cluster", "modify", "--diagnose-data-collector-filename=missing", expect=1)
    assert "No node has the diagnose command 'missing': put it into /etc/ganeti/node-diagnose-commands" in said
    bed.run("gnt-cluster", "modify", "--diagnose-data-collector-filename=check", "--data-collector-interval=diagnose=1")
    bed.wait(lambda: status(bed)["data"]["status"] == "evacuate", "what the command says")
    found = status(bed)
    key = (bed.data("node1") / "hmac.key").read_bytes().strip()
    signed = found["signed"]
    assert signed == confd.sign(signed["msg"], signed["salt"], key)
    assert json.loads(signed["msg"])["node"] == "node3"
    place.chmod(0o777)
    bed.wait(lambda: status(bed)["data"]["status"] == "Ok", "a command that everybody may write")
    assert "mode 0777" in status(bed)["data"]["details"]
    place.write_text(f"{TELLS}echo sda: 37 sectors\n")
    place.chmod(0o755)
    bed.wait(lambda: "more than one object" in status(bed)["data"]["details"], "words after the object")
    assert status(bed)["data"]["status"] == "Ok"
    lines = get(bed, "node3", "/metrics").splitlines()
    [refused] = [line for line in lines if line.startswith("ganeti_node_diagnose_refused_total ")]
    assert int(refused.split()[1]) >= 2


def status(bed: FakeBed) -> Any:
    return get(bed, "node3", "/1/report/node/diagnose")
