# SPDX-License-Identifier: BSD-2-Clause
"""An instance on volumes that DRBD mirrors, by the commands of an administrator; the kernel module is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.system.replicated_bed import ReplicatedBed, made

from ganeti.tools.testbed import bed as testbed

pytestmark = pytest.mark.daemons
NAME = "inst1"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedBed]:
    found = made(tmp_path_factory.mktemp("drbd"), 3)
    yield found
    testbed.down(found.layout)


@pytest.fixture
def instance(bed: ReplicatedBed) -> Iterator[ReplicatedBed]:
    words = ["-t", "drbd", "--disk", "0:size=8m", "-o", "noop+default", "-n", "node2:node3"]
    bed.run("gnt-instance", "add", *words, NAME)
    yield bed
    bed.run("gnt-instance", "remove", "-f", "--ignore-failures", NAME)
    for node in ("node1", "node2", "node3"):
        assert bed.volumes(node) == []
    assert all(devices == {} for devices in bed.devices().values())
    cluster = bed.config()["cluster"]
    assert set(range(11000, cluster["highest_used_port"] + 1)) == set(cluster["tcpudp_port_pool"])


def place(bed: ReplicatedBed) -> list[str]:
    words = ("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "pnode,snodes,status", NAME)
    return bed.run(*words).strip().split("|")


def roles(bed: ReplicatedBed) -> dict[str, str]:
    return {node: each["role"] for node, devices in sorted(bed.devices().items()) for each in devices.values()}


def test_it_is_made_moved_and_removed(instance: ReplicatedBed) -> None:
    bed = instance
    assert place(bed) == ["node2", "node3", "running"]
    assert roles(bed) == {"node2": "Primary", "node3": "Secondary"}
    said = bed.run("gnt-instance", "info", NAME)
    print(said)
    assert "nodeA: node2, minor=0" in said and "in sync, status ok" in said
    bed.run("gnt-instance", "failover", "-f", NAME)
    assert place(bed) == ["node3", "node2", "running"]
    assert roles(bed) == {"node2": "Secondary", "node3": "Primary"}
