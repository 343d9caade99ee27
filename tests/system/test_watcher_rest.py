# SPDX-License-Identifier: BSD-2-Clause
"""The watcher on real daemons: users' shutdowns, nodes that were given up, the remote API."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
GUEST = "/run/ganeti/fake-hypervisor/web1"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("watcher").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def listed(bed: FakeBed, fields: str) -> list[str]:
    return (
        bed.run("gnt-instance", "list", "--cache=off", "--no-headers", "--separator=|", "-o", fields, "web1")
        .strip()
        .split("|")
    )


def shut_down_inside(bed: FakeBed) -> None:
    guest = json.loads(bed.run("cat", GUEST))
    text = json.dumps(guest | {"state": "shutdown"})
    bed.run("sh", "-c", f"echo '{text}' > {GUEST}")


@pytest.mark.requirement("S1.55")
def test_one_shut_down_by_its_user_stays_down(bed: FakeBed) -> None:
    bed.run("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-n", "node1", "web1")
    bed.run("gnt-cluster", "modify", "--user-shutdown=yes")
    shut_down_inside(bed)
    assert listed(bed, "status,admin_state") == ["USER_down", "up"]
    bed.run("ganeti-watcher")
    assert listed(bed, "status,admin_state,admin_state_source") == ["USER_down", "down", "user"]
    bed.run("ganeti-watcher")
    assert listed(bed, "status") == ["USER_down"]
    bed.run("gnt-instance", "startup", "web1")
    assert listed(bed, "status,admin_state_source") == ["running", "admin"]

    bed.run("gnt-cluster", "modify", "--user-shutdown=no")
    shut_down_inside(bed)
    assert listed(bed, "status") == ["ERROR_down"]
    bed.run("ganeti-watcher")
    assert listed(bed, "status,admin_state") == ["running", "up"]


@pytest.mark.requirement("S1.61")
def test_the_pause_and_the_state_of_each_group(bed: FakeBed) -> None:
    uuid = bed.run("gnt-group", "list", "--no-headers", "-o", "uuid").strip()
    bed.run("gnt-cluster", "watcher", "pause", "1h")
    bed.run("rm", GUEST)
    bed.run("ganeti-watcher")
    assert listed(bed, "status") == ["ERROR_down"]
    bed.run("ganeti-watcher", "--ignore-pause")
    assert listed(bed, "status") == ["running"]
    bed.run("gnt-cluster", "watcher", "continue")
    state = json.loads((bed.data("node1") / f"watcher.{uuid}.data").read_text())
    assert state["instance"]["web1"]["restart_count"] == 2  # the one of the test before counts, too
    assert not (bed.data("node1") / "watcher.data").exists()


def test_a_node_that_is_offline_ends_its_guests_where_the_cluster_wants_that(bed: FakeBed) -> None:
    bed.run("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-n", "node2", "web2")
    bed.run("gnt-cluster", "modify", "--maintain-node-health=yes")
    bed.run("gnt-node", "modify", "--offline=yes", "--auto-promote", "node2")
    bed.run("ganeti-watcher")
    assert {"web1", "web2"} <= bed.guests().keys(), "the master is not offline"
    bed.run("ganeti-watcher", node="node2")
    assert "web2" not in bed.guests()


def test_a_remote_api_that_answers_is_left_alone(bed: FakeBed) -> None:
    before = bed.run("cat", "/run/ganeti/ganeti-rapi.pid")
    bed.run("ganeti-watcher")
    bed.run("ganeti-watcher", "--rapi-ip=127.0.0.1")
    assert bed.run("cat", "/run/ganeti/ganeti-rapi.pid") == before
    bed.run("daemon-util", "stop", "ganeti-rapi")
    bed.run("ganeti-watcher")
    assert bed.run("cat", "/run/ganeti/ganeti-rapi.pid") != before
