# SPDX-License-Identifier: BSD-2-Clause
"""Clusters whose nodes speak IPv6 with each other: beside IPv4 for replication, and without IPv4."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, watching
from ganeti.tools.testbed.layout import GUEST_BRIDGE, Layout

pytestmark = [pytest.mark.daemons]


@pytest.fixture(scope="module", params=["hybrid", "6"])
def layout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    place = tmp_path_factory.mktemp("addresses").resolve()
    made = testbed.up(place, 3, "fake", watcher_interval_s=86400, ip=request.param)
    yield made
    testbed.down(made)


@pytest.mark.requirement("S1.96", "S1.97", "S1.99", "S1.100")
def test_a_cluster_lives_on_ipv6(layout: Layout) -> None:
    bed = FakeBed(layout)
    cluster.create(layout)
    assert bed.run("cat", "/var/lib/ganeti/ssconf_primary_ip_family", node="node3") == "10\n"
    assert "primary ip version: 6" in bed.run("gnt-cluster", "info")
    for node in layout.nodes:
        shown = bed.run("gnt-node", "list", "--no-headers", "--separator=|", "-o", "pip,sip", node.name).strip()
        assert shown == f"{node.addresses[0]}|{node.addresses[-1]}"
    sockets = bed.run("ss", "-Hlntu", node="node2")
    assert all(f"*:{port} " in sockets for port in (1811, 1814, 1815)), "each daemon serves all addresses"
    bed.run("gnt-instance", "add", "-t", "sharedfile", "-s", "64m", "-o", "noop+default", "-I", "hail", "inst1")
    bed.run("gnt-instance", "migrate", "-f", "inst1")
    bed.run("gnt-cluster", "verify")


def test_the_master_moves_with_its_address(layout: Layout) -> None:
    bed = FakeBed(layout)
    synced = ("gnt-node", "list", "--no-headers", "-o", "sync_state", "node2")
    bed.wait(lambda: bed.run(*synced).strip() == "in-sync", "node2 is in sync")
    bed.run("gnt-cluster", "master-failover", node="node2")
    assert layout.cluster_address in bed.run("ip", "addr", "show", "eth0", node="node2")
    assert layout.cluster_address not in bed.run("ip", "addr", "show", "eth0")
    bed.run("gnt-cluster", "verify", node="node2")


def test_guests_are_heard_and_pinged_over_ipv6(layout: Layout) -> None:
    bed = FakeBed(layout)
    address, hub = layout.guest_address(1), layout.hub_guest_address
    bed.run("ip", "address", "add", f"{address}/64", "dev", GUEST_BRIDGE, "nodad")
    assert watching.ack(layout) == f"[{hub}]:{watching.PORT}"
    with watching.watching(layout, [address]) as watch:
        began_s = time.monotonic()
        words = ("busybox", "nc", hub, str(watching.PORT))
        with machine.popen(layout, "node1", *words, stdin=subprocess.PIPE) as talk:
            assert talk.stdin is not None
            talk.stdin.write("inst1 1\n")
            talk.stdin.flush()
            assert watch.wait_for_beat("inst1", began_s, 60)[1] == 1
            bed.wait(lambda: watch.longest_gap_s(address, began_s, began_s + 3600) < 3600, "a reply")
            talk.kill()
