# SPDX-License-Identifier: BSD-2-Clause
"""A node that was given up and is alive, alone behind a cut wire: it ends the guests that were started elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import SELDOM_S, FakeBed

from ganeti.tools.testbed import bed, cluster, network

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NO_CRON_S = 86400
LIMIT_S = 4


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("lost").resolve(), 3, "fake", watcher_interval_s=NO_CRON_S)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        found.run("gnt-cluster", "modify", "-D", f"sharedfile:lost_lock_timeout={LIMIT_S}")
        yield found
    finally:
        bed.down(layout)


def test_a_partitioned_node_ends_what_was_failed_over(fake_bed: FakeBed) -> None:
    for name, words in (("kept", ()), ("lost", ()), ("never", ("-D", "sharedfile:lost_lock_timeout=0"))):
        if words:
            fake_bed.run("gnt-cluster", "modify", *words)
        fake_bed.run(
            *("gnt-instance", "add", "-t", "sharedfile", "-s", "8m", "-o", "noop+default", "-n"),
            *("node3" if name == "kept" else "node2", name),
        )
    layout = fake_bed.layout
    network.set_lan(layout, layout.node("node2"), up=False)
    try:
        fake_bed.run("gnt-node", "modify", "--offline=yes", "node2")
        fake_bed.run("gnt-node", "failover", "-f", "node2")
        never = fake_bed.guests()["never"]
        assert "node2" in never and len(never) == 2
        fake_bed.wait(
            lambda: "node2" not in fake_bed.guests()["lost"], "node2 ends the guest", LIMIT_S * 3, every_s=SELDOM_S
        )
    finally:
        network.set_lan(layout, layout.node("node2"), up=True)
    guests = fake_bed.guests()
    assert len(guests["lost"]) == len(guests["kept"]) == 1 and len(guests["never"]) == 2
    told = fake_bed.run("cat", "/var/log/ganeti/node-daemon.log", node="node2")
    assert "instance lost is ended on this node: node " in told
    fake_bed.run("gnt-node", "modify", "--offline=no", "node2")
    said = fake_bed.run("gnt-cluster", "verify", expect=None)
    assert "instance never: instance should not run on node node2" in said.replace("  ", " "), said
    assert "instance lost" not in said, said
