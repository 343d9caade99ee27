# SPDX-License-Identifier: BSD-2-Clause
"""An instance on volumes that DRBD mirrors, by the commands of an administrator; the kernel module is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.system.fake_bed import SELDOM_S
from tests.system.replicated_bed import ReplicatedBed, made

from ganeti.tools.testbed import bed as testbed

pytestmark = pytest.mark.daemons
NAME = "inst1"
VERIFY = ("gnt-cluster", "verify", "--ignore-errors", "ENODEDRBDHELPER")
"""A stand-in has no parameters of a module, which tell the helper."""


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
    assert bed.config()["disks"] == {}


def place(bed: ReplicatedBed) -> list[str]:
    words = ("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "pnode,snodes,status", NAME)
    return bed.run(*words).strip().split("|")


def roles(bed: ReplicatedBed) -> dict[str, str]:
    return {node: each["role"] for node, devices in sorted(bed.devices().items()) for each in devices.values()}


def whole(bed: ReplicatedBed) -> None:
    def is_whole() -> bool:
        said = bed.run("gnt-instance", "info", NAME)
        return said.count("in sync, status ok") == 2 and "RECOVERING" not in said

    bed.wait(is_whole, "both copies are equal", every_s=SELDOM_S)


def logical_id(bed: ReplicatedBed) -> list:
    (disk,) = bed.config()["disks"].values()
    return disk["logical_id"]


def test_it_is_made_moved_and_removed(instance: ReplicatedBed) -> None:
    bed = instance
    assert place(bed) == ["node2", "node3", "running"]
    assert roles(bed) == {"node2": "Primary", "node3": "Secondary"}
    whole(bed)
    said = bed.run("gnt-instance", "info", NAME)
    assert "nodeA: node2, minor=0" in said and "port: 11000" in said and "on secondary: /dev/drbd0 (147:0)" in said
    assert "disk0_data" in said and "disk0_meta" in said and logical_id(bed)[-1] not in said
    assert f"node3 0 {NAME} disk/0 secondary node2" in " ".join(bed.run("gnt-node", "list-drbd", "node3").split())
    bed.run("gnt-instance", "failover", "-f", NAME)
    assert place(bed) == ["node3", "node2", "running"]
    assert roles(bed) == {"node2": "Secondary", "node3": "Primary"}
    bed.run("gnt-instance", "migrate", "-f", NAME)
    assert place(bed) == ["node2", "node3", "running"]
    assert roles(bed) == {"node2": "Primary", "node3": "Secondary"}
    assert not any(each["net"]["two"] for devices in bed.devices().values() for each in devices.values())
    bed.run("gnt-instance", "grow-disk", NAME, "0", "8m")
    assert bed.run("gnt-instance", "list", "--no-headers", "-o", "disk.size/0", NAME).strip() == "16M"
    (disk,) = bed.config()["disks"].values()
    assert [child["size"] for child in disk["children"]] == [16, 128]
    bed.run("gnt-instance", "shutdown", NAME)
    assert roles(bed) == {}
    bed.run("gnt-instance", "activate-disks", NAME)
    assert roles(bed) == {"node2": "Primary", "node3": "Secondary"}
    bed.run("gnt-instance", "deactivate-disks", NAME)
    bed.run("gnt-instance", "startup", NAME)
    assert "ERROR" not in bed.run(*VERIFY)


def test_copies_are_replaced_on_either_node_and_move_to_another(instance: ReplicatedBed) -> None:
    bed = instance
    whole(bed)
    for option in ("-s", "-p", "-a"):
        bed.run("gnt-instance", "replace-disks", option, NAME)
        whole(bed)
    before = logical_id(bed)
    bed.run("gnt-instance", "replace-disks", "-n", "node1", NAME)
    after = logical_id(bed)
    assert (place(bed), roles(bed)) == (["node2", "node1", "running"], {"node1": "Secondary", "node2": "Primary"})
    assert after[0] == before[0] and after[1] != before[1] and after[3] == before[3] and after[5] == before[5]
    assert bed.volumes("node3") == [] and len(bed.volumes("node1")) == 2
    whole(bed)
    bed.run("gnt-node", "evacuate", "-f", "-s", "-n", "node3", "node1")
    assert place(bed) == ["node2", "node3", "running"]
    bed.run("gnt-instance", "shutdown", NAME)
    bed.run("gnt-instance", "replace-disks", "-n", "node1", NAME)
    assert roles(bed) == {} and place(bed)[:2] == ["node2", "node1"]
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)
    assert "ERROR" not in bed.run(*VERIFY)


def test_a_node_without_power_costs_nothing_but_a_copy(instance: ReplicatedBed) -> None:
    bed = instance
    whole(bed)
    bed.kill("node2")
    bed.run("gnt-node", "modify", "--offline", "yes", "--force", "node2")
    bed.run("gnt-instance", "failover", "-f", NAME)
    assert place(bed) == ["node3", "node2", "running"]
    assert "*DEGRADED*" in bed.run("gnt-instance", "info", NAME)
    bed.start("node2")
    bed.run("gnt-node", "modify", "--offline", "no", "node2")
    bed.run("ganeti-watcher", "--ignore-pause", "--no-strict")
    whole(bed)
    assert roles(bed) == {"node2": "Secondary", "node3": "Primary"}
    assert "ERROR" not in bed.run(*VERIFY)


def test_disks_are_made_anew_on_other_nodes(instance: ReplicatedBed) -> None:
    bed = instance
    bed.run("gnt-instance", "shutdown", NAME)
    for node in ("node2", "node3"):
        for volume in bed.volumes(node):
            bed.run("lvremove", "--force", f"xenvg/{volume}", node=node)
    bed.run("gnt-instance", "recreate-disks", "-n", "node3:node1", NAME)
    assert place(bed)[:2] == ["node3", "node1"]
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)


def test_a_plain_disk_becomes_mirrored_and_plain_again(bed: ReplicatedBed) -> None:
    words = "gnt-instance add -t plain --disk 0:size=8m -o noop+default -n node2 --no-install --no-start conv"
    bed.run(*words.split())
    listed = ("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "pnode,snodes,disk_template", "conv")
    bed.run("gnt-instance", "modify", "-t", "drbd", "-n", "node3", "conv")
    assert bed.run(*listed).strip() == "node2|node3|drbd"
    assert [len(bed.volumes(node)) for node in ("node2", "node3")] == [2, 2]
    bed.run("gnt-instance", "modify", "-t", "plain", "conv")
    assert bed.run(*listed).strip() == "node2||plain"
    assert [len(bed.volumes(node)) for node in ("node2", "node3")] == [1, 0]
    bed.run("gnt-instance", "remove", "-f", "conv")
