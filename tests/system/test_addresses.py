# SPDX-License-Identifier: BSD-2-Clause
"""Clusters whose nodes speak IPv6 with each other: beside IPv4 for replication, and without IPv4."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import SELDOM_S, FakeBed

from ganeti.base.addresses import host_and_port
from ganeti.node.storage.mirror.requests import PORT
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


OTHERS = ("--master-netdev", "eth0", "--enabled-hypervisors", "fake", "--enabled-disk-templates", "diskless")


@pytest.mark.requirement("S1.96", "S1.98", "S1.102")
def test_what_does_not_fit_makes_no_cluster(layout: Layout) -> None:
    """A wrong version, a secondary address of the wrong kind, names without an address of the right one."""
    bed, right = FakeBed(layout), layout.nodes[0].addresses[-1]
    for words, sentence in (
        (["--primary-ip-version", "5", "cluster"], "it is 4 or 6"),
        (["--primary-ip-version", "ipv6", "cluster"], "not a whole number"),
        (["--primary-ip-version", "6", "cluster"], "give it with -s"),
        (
            ["--primary-ip-version", "6", "-s", "fd77::9", "cluster"],
            "is not an IPv4 address: give one that this machine",
        ),
        (["--primary-ip-version", "6", "-s", "node1", "cluster"], "is not an IPv4 address: give one that this machine"),
        (["--primary-ip-version", "6", "-s", "10.99.0.1", "cluster"], "set it up here first"),
        (["--primary-ip-version", "6", "-s", "0.0.0.0", "cluster"], "set it up here first"),
        (["--primary-ip-version", "6", "-s", right, "--master-netmask", "129", "cluster"], "from 1 to 128"),
        (["--primary-ip-version", "6", "-s", right, "--master-netdev", "nope", "cluster"], "--master-netdev"),
        (["--primary-ip-version", "6", "-s", right, "fd77::100"], "would be read as an IP address"),
        (["--primary-ip-version", "6", "-s", right, "node2"], "is in use already"),
        (["cluster"], "add --primary-ip-version 6" if layout.ip == "6" else "has no IPv4 address"),
    ):
        assert sentence in bed.run("gnt-cluster", "init", *OTHERS, *words, expect=None), words
    assert not (bed.data("node1") / "config.data").exists()


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
    bed.run("gnt-instance", "remove", "-f", "inst1")  # it may be on any node, and node3 is removed below


def is_whole(bed: FakeBed) -> bool:
    return bed.run("gnt-instance", "info", "mirrored").count("in sync, status ok") == 2


def test_mirrored_disks_are_written_over_the_secondary_addresses(layout: Layout) -> None:
    """Each copy is on another node; its connection is of IPv4 where the cluster has both."""
    bed = FakeBed(layout)
    words = ("-t", "mirror", "--disk", "0:size=8m", "-o", "noop+default", "-n", "node1:node3", "mirrored")
    bed.run("gnt-instance", "add", *words)
    for primary, secondary in (("node1", "node3"), ("node3", "node1")):
        bed.wait(lambda: is_whole(bed), "both copies are equal", every_s=SELDOM_S)
        peers = bed.run("ss", "-Hnt", "state", "established", "dport", "=", f":{PORT}", node=primary)
        assert host_and_port(layout.node(secondary).addresses[-1], PORT) in peers
        bed.run("gnt-instance", "failover", "-f", "mirrored")
    bed.run("gnt-instance", "remove", "-f", "mirrored")


@pytest.mark.requirement("S1.99")
def test_a_node_that_does_not_fit_stays_outside(layout: Layout) -> None:
    bed, node = FakeBed(layout), layout.node("node3")
    bed.run("gnt-node", "remove", "node3")
    rows = [
        (["-s", "fd77::9", "node3"], r"needs to be a valid IPv4 address"),
        (["-s", "0.0.0.0", "node3"], r"needs to be a valid IPv4 address"),
        ([node.address], "cannot be the name of a node"),
        (["10.77.0.3"], "cannot be the name of a node"),
        (["four"], "has no IPv6 address"),
    ]
    if layout.ip == "hybrid":
        rows.append((["node3"], "needs an IPv4 secondary address"))
        rows.append((["-s", node.address, "node3"], "doesn't have one: give its IPv4 address with -s"))
        rows.append((["-s", layout.node("node2").addresses[1], "node3"], "conflict with existing node node2"))
    else:
        rows.append((["-s", "10.77.0.3", "node3"], "leave it out"))
        rows.append((["-s", "fd77::9", "node3"], f"or {node.address} again: the other nodes have IPv6 alone"))
    bed.run("sh", "-c", "echo '10.77.0.9 four' >> /etc/hosts")
    for words, sentence in rows:
        assert sentence in bed.run("gnt-node", "add", "--no-ssh-key-check", *words, expect=None), words
    assert "has no IPv6 address" in bed.run("gnt-cluster", "rename", "-f", "four", expect=1)
    assert "node3" not in bed.run("gnt-node", "list", "--no-headers", "-o", "name")
    bed.run("gnt-node", "add", "--no-ssh-key-check", *cluster.secondary_words(node), "node3")
    assert bed.run("cat", "/var/lib/ganeti/ssconf_primary_ip_family", node="node3") == "10\n"


MIP_SCRIPT = """#!/bin/sh
echo "$1 $MASTER_IP/$MASTER_NETMASK $MASTER_NETDEV $CLUSTER_IP_VERSION" >> /root/mip.log
"""


@pytest.mark.requirement("S1.96")
def test_a_script_of_ones_own_may_move_the_clusters_address(layout: Layout) -> None:
    bed = FakeBed(layout)
    master = bed.run("gnt-cluster", "getmaster").strip()
    assert "from 1 to 128" in bed.run("gnt-cluster", "modify", "--master-netmask", "129", expect=1, node=master)
    script = f"cd /etc/ganeti && mkdir -p scripts && printf '%s' '{MIP_SCRIPT}' > scripts/master-ip-setup"
    bed.run("sh", "-c", f"{script} && chmod 755 scripts/master-ip-setup", node=master)
    bed.run("gnt-cluster", "deactivate-master-ip", "--yes", node=master)
    bed.run("gnt-cluster", "modify", "--use-external-mip-script", "yes", node=master)
    bed.run("gnt-cluster", "activate-master-ip", node=master)
    bed.run("gnt-cluster", "deactivate-master-ip", "--yes", node=master)
    bed.run("gnt-cluster", "modify", "--use-external-mip-script", "no", node=master)
    bed.run("gnt-cluster", "activate-master-ip", node=master)
    told = f"{layout.cluster_address}/64 eth0 6"
    assert bed.run("cat", "/root/mip.log", node=master).splitlines() == [f"start {told}", f"stop {told}"]
    assert f"{layout.cluster_address}/64" in bed.run("ip", "addr", "show", "eth0", node=master)


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
