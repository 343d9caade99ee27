# SPDX-License-Identifier: BSD-2-Clause
"""The maintenance daemon on a real cluster: it spreads instances, by numbers and by load that MonDs measure."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import SELDOM_S, FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NODES = ("node1", "node2", "node3")
NAMES = tuple(f"web{number}" for number in range(5))
PLACES = "/run/ganeti/fake-hypervisor"
CAPACITY = {"memory_total": 8192, "memory_dom0": 512, "cpu_total": 4}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("balance").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        write(found, ".capacity", CAPACITY)
        found.run("gnt-cluster", "modify", "--maintenance-interval=1", "--auto-balance-threshold=0.001")
        words = ("-t", "sharedfile", "-s", "1m", "-o", "noop+default", "-B", "memory=512m", "-n", "node1")
        for name in NAMES:
            found.run("gnt-instance", "add", *words, "--no-name-check", name)
        yield found
    finally:
        testbed.down(layout)


def write(bed: FakeBed, name: str, content: object) -> None:
    """A file of the fake hypervisor, on all nodes."""
    for node in NODES:
        text = json.dumps(content)
        bed.run("sh", "-c", f"mkdir -p {PLACES} && echo '{text}' > {PLACES}/{name}", node=node)


def places(bed: FakeBed) -> dict[str, str]:
    """The primary node of each instance."""
    config = bed.config()
    names = {uuid: node["name"] for uuid, node in config["nodes"].items()}
    return {each["name"]: names[each["primary_node"]] for each in config["instances"].values()}


@pytest.mark.requirement("S4.36")
def test_instances_are_spread_over_the_nodes(bed: FakeBed) -> None:
    bed.run("gnt-cluster", "modify", "--auto-balance-cluster=yes")
    bed.wait(
        lambda: sorted(Counter(places(bed).values()).values()) == [1, 2, 2],
        "instances on all nodes",
        120,
        every_s=SELDOM_S,
    )
    bed.run("gnt-cluster", "modify", "--auto-balance-cluster=no")


def test_measured_load_moves_what_is_even_by_numbers(bed: FakeBed) -> None:
    """Both guests of a node keep the processors of it busy; MonD measures that, and one of them leaves."""
    numbers = Counter(places(bed).values())
    full = next(node for node, number in numbers.items() if number == 2)
    busy = [name for name, node in places(bed).items() if node == full]
    write(bed, ".load", {name: 2.0 if name in busy else 0.0 for name in NAMES})
    settings = ("--auto-balance-dynamic-load=yes", "--auto-balance-cool-down=0", "--auto-balance-cluster=yes")
    bed.run("gnt-cluster", "modify", *settings)
    bed.wait(
        lambda: len({places(bed)[name] for name in busy}) == 2,
        "the busy guests are on two nodes",
        120,
        every_s=SELDOM_S,
    )
    bed.run("gnt-cluster", "modify", "--auto-balance-cluster=no")
    bed.wait(lambda: "running" not in bed.run("gnt-job", "list", "--no-headers", "-o", "status"), "its jobs end")
    bed.check()
