# SPDX-License-Identifier: BSD-2-Clause
"""ConfD on real daemons: every candidate answers, and goes on while no master daemon runs (S2.14, S2.15)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine
from ganeti.wire.confd import Kind, Role

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.requirement("S2.14", "S2.15"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
CLIENT = """
import json, sys
from pathlib import Path
from ganeti.calls.confd_client import ConfdClient, SilentError
kind, query, *addresses = json.loads(sys.argv[1])
key = Path("/var/lib/ganeti/hmac.key").read_bytes()
client = ConfdClient([(address, 1814) for address in addresses], key, 5.0)
try:
    print(json.dumps(client.ask(kind, query, client.deadline_s())))
except SilentError as error:
    print(json.dumps(f"silent: {error}"))
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("confd").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def ask(bed: FakeBed, kind: Kind, query: object, *addresses: str) -> object:
    words = (sys.executable, "-c", CLIENT, json.dumps([kind, query, *addresses]))
    done = machine.run(bed.layout, "node2", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def addresses(bed: FakeBed) -> dict[str, str]:
    return {node["name"]: node["primary_ip"] for node in bed.config()["nodes"].values()}


def test_every_candidate_tells_what_was_acknowledged(bed: FakeBed) -> None:
    bed.run("gnt-cluster", "add-tags", "seen-by-all")
    for name, address in addresses(bed).items():
        bed.wait(lambda a=address: "seen-by-all" in ask(bed, Kind.CONFIG, "/cluster/tags", a), f"the tag by {name}")
        assert ask(bed, Kind.NODE_ADDRESSES, None, address) == list(addresses(bed).values())


def test_minors_of_a_node_are_asked_for(bed: FakeBed) -> None:
    assert bed.run("gnt-node", "list-drbd", "node2").split() == [
        "Node",
        "Minor",
        "Instance",
        "Disk",
        "Role",
        "PeerNode",
    ]
    assert "Node 'node9' not known" in bed.run("gnt-node", "list-drbd", "node9", expect=1)


def test_with_every_master_daemon_dead_candidates_answer(bed: FakeBed) -> None:
    [master, other, third] = addresses(bed)
    bed.run("daemon-util", "stop-master")
    for name, address in addresses(bed).items():
        assert ask(bed, Kind.MASTER, None, address) == master, name
    for node in (master, third):
        machine.run(bed.layout, node.partition(".")[0], "daemon-util", "stop", "ganeti-confd")
    assert ask(bed, Kind.NODE_ROLE, other, *addresses(bed).values()) == Role.CANDIDATE
    bed.run("daemon-util", "start-all")
    machine.run(bed.layout, third.partition(".")[0], "daemon-util", "start", "ganeti-confd")
    assert ask(bed, Kind.MASTER, None, *addresses(bed).values()) == master


def test_a_node_that_is_no_candidate_any_more_says_nothing(bed: FakeBed) -> None:
    name, address = list(addresses(bed).items())[2]
    bed.run("gnt-node", "modify", "--master-candidate=no", "--force", name)
    bed.wait(lambda: ask(bed, Kind.MASTER, None, address) is None, "the end of its answers")
    bed.run("gnt-node", "modify", "--master-candidate=yes", name)
    bed.wait(lambda: ask(bed, Kind.MASTER, None, address) is not None, "its answers")


def test_a_wrong_key_gets_no_answer(bed: FakeBed) -> None:
    code = CLIENT.replace(".read_bytes()", ".read_bytes()[::-1]").replace("5.0", "1.0")
    done = machine.run(bed.layout, "node2", sys.executable, "-c", code, json.dumps([0, None, *addresses(bed).values()]))
    assert "silent: no answer within 1 s" in done.stdout
