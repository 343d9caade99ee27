# SPDX-License-Identifier: BSD-2-Clause
"""Clusters whose nodes speak IPv6 with each other: beside IPv4 for replication, and without IPv4."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster
from ganeti.tools.testbed.layout import Layout

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
