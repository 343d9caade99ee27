# SPDX-License-Identifier: BSD-2-Clause
"""An instance with mirrored disks by the commands of an administrator: made, moved, rescued, made whole, removed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.system.fake_bed import SELDOM_S, FakeBed

from ganeti.mirrord import storage_daemon
from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, machine, processes

pytestmark = [pytest.mark.daemons]
NAME = "inst1"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("mirror").resolve(), 3, "fake", watcher_interval_s=86400)
    cluster.create(layout, say=lambda sentence: None)
    yield FakeBed(layout)
    testbed.down(layout)


@pytest.fixture
def instance(bed: FakeBed) -> Iterator[FakeBed]:
    bed.run(
        "gnt-instance", "add", "-t", "mirror", "--disk", "0:size=8m", "-o", "noop+default", "-n", "node2:node3", NAME
    )
    yield bed
    bed.run("gnt-instance", "remove", "-f", "--ignore-failures", NAME)
    for node in ("node1", "node2", "node3"):
        left = bed.run("find", "/srv/ganeti/file-storage", "/run/ganeti/mirror", "-name", "*-*", node=node, expect=None)
        assert "mirror.disk" not in left and ".json" not in left
        assert "storage-daemon" not in bed.run("ps", "-eo", "comm,args", node=node)


def place(bed: FakeBed) -> list[str]:
    words = ("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "pnode,snodes,status", NAME)
    return bed.run(*words).strip().split("|")


def is_whole(bed: FakeBed) -> bool:
    said = bed.run("gnt-instance", "info", NAME)
    return said.count("in sync, status ok") == 2 and "*RECOVERING*" not in said  # on the primary, on the secondary


def whole(bed: FakeBed) -> None:
    bed.wait(lambda: is_whole(bed), "both copies are equal", every_s=SELDOM_S)


def test_it_starts_under_another_name_with_both_copies_as_they_were(instance: FakeBed) -> None:
    bed = instance
    whole(bed)
    bed.run("gnt-instance", "shutdown", NAME)
    for old, new in ((NAME, "inst2"), ("inst2", NAME)):
        assert "WARNING" not in bed.run("gnt-instance", "rename", old, new)
        bed.run("gnt-instance", "startup", new)
        bed.run("gnt-instance", "shutdown", new)
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)


def test_it_moves_between_its_two_nodes_and_nowhere_else(instance: FakeBed) -> None:
    bed = instance
    whole(bed)
    assert place(bed) == ["node2", "node3", "running"]
    bed.run("gnt-instance", "failover", "-f", NAME)
    assert place(bed) == ["node3", "node2", "running"]
    whole(bed)
    assert "can only move to its secondary node node2" in bed.run(
        "gnt-instance", "failover", "-f", "-n", "node1", NAME, expect=1
    )
    bed.run("gnt-instance", "reboot", "-t", "full", NAME)
    bed.run("gnt-instance", "shutdown", NAME)
    assert "mirror" not in bed.run("pgrep", "-af", "storage-daemon", node="node3", expect=None)
    bed.run("gnt-instance", "grow-disk", NAME, "0", "8m")
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)
    assert bed.run("gnt-instance", "list", "--no-headers", "-o", "disk.size/0", NAME).strip() == "16M"
    assert "ERROR" not in bed.run("gnt-cluster", "verify")


def test_a_node_without_power_costs_nothing_but_a_copy(instance: FakeBed) -> None:
    """First the primary's is lost, then that of the node it went to."""
    bed = instance
    for lost, left in (("node2", "node3"), ("node3", "node2")):
        whole(bed)
        victim = bed.layout.node(lost)
        machine.kill(bed.layout, victim)
        bed.run("gnt-node", "modify", "--offline", "yes", "--force", lost)
        bed.run("gnt-instance", "failover", "-f", NAME)
        assert place(bed) == [left, lost, "running"]
        assert "*DEGRADED*" in bed.run("gnt-instance", "info", NAME)
        machine.start(bed.layout, victim)
        processes.wait_for(
            lambda node=lost: not machine.run(bed.layout, node, "daemon-util", "check", "ganeti-noded").returncode,
            30,
            f"the daemons of {lost}",
        )
        bed.run("gnt-node", "modify", "--offline", "no", lost)
        assert not is_whole(bed)
        bed.run("ganeti-watcher", "--ignore-pause", "--no-verify-disks")
        assert not is_whole(bed)
        bed.run("ganeti-watcher", "--ignore-pause", "--no-strict")
        whole(bed)
    assert "ERROR" not in bed.run("gnt-cluster", "verify")


def test_a_copy_that_missed_something_does_not_start(instance: FakeBed) -> None:
    """The instance was stopped while its secondary was away: its primary has the newer copy."""
    bed = instance
    whole(bed)
    machine.kill(bed.layout, bed.layout.node("node3"))
    bed.run("gnt-node", "modify", "--offline", "yes", "--force", "node3")
    bed.wait(lambda: "*DEGRADED*" in bed.run("gnt-instance", "info", NAME), "the loss is seen")
    bed.run("gnt-instance", "shutdown", NAME)
    machine.start(bed.layout, bed.layout.node("node3"))
    processes.wait_for(
        lambda: not machine.run(bed.layout, "node3", "daemon-util", "check", "ganeti-noded").returncode,
        30,
        "the daemons of node3",
    )
    bed.run("gnt-node", "modify", "--offline", "no", "node3")
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)
    assert place(bed) == ["node2", "node3", "running"]


def generation(bed: FakeBed) -> int:
    """Of the newest copy that the configuration knows of."""
    (disk,) = [each for each in bed.config()["disks"].values() if each["dev_type"] == "mirror"]
    return int(disk.get("generation") or 0)


def test_the_master_knows_at_once_that_a_copy_is_lost(instance: FakeBed) -> None:
    """No watcher has looked: the copy that is behind does not become primary."""
    bed = instance
    whole(bed)
    bed.run("daemon-util", "start", "ganeti-maintd")
    before = generation(bed)
    machine.kill(bed.layout, bed.layout.node("node3"))
    bed.wait(lambda: generation(bed) > before, "the configuration knows that node3 is behind")
    start(bed, "node3")
    machine.kill(bed.layout, bed.layout.node("node2"))
    bed.run("gnt-node", "modify", "--offline", "yes", "--force", "node2")
    said = bed.run("gnt-instance", "failover", "-f", NAME, expect=1)
    assert f"The copy of disk 0 of {NAME} on node3 is older than that on node2" in said
    start(bed, "node2")
    bed.run("gnt-node", "modify", "--offline", "no", "node2")
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)
    assert place(bed) == ["node2", "node3", "running"]


def start(bed: FakeBed, node: str) -> None:
    """Give a node power again."""
    machine.start(bed.layout, bed.layout.node(node))
    processes.wait_for(
        lambda: not machine.run(bed.layout, node, "daemon-util", "check", "ganeti-noded").returncode,
        60,
        f"the daemons of {node}",
    )


def copies(bed: FakeBed) -> list[str]:
    """Nodes that have an image of a mirrored disk."""
    where = ("find", "/srv/ganeti/file-storage", "-name", "*.mirror.disk0")
    return [node for node in ("node1", "node2", "node3") if bed.run(*where, node=node, expect=None).strip()]


@pytest.mark.requirement("S5.4")
def test_the_secondary_node_is_replaced_while_the_guest_runs_or_not(instance: FakeBed) -> None:
    bed = instance
    whole(bed)
    assert "Give one of -p, -s, -a, -n NODE and -I" in bed.run("gnt-instance", "replace-disks", NAME, expect=1)
    assert "give one of them" in bed.run("gnt-instance", "replace-disks", "-s", "-a", NAME, expect=1)
    assert "gnt-instance failover" in bed.run("gnt-instance", "replace-disks", "-p", NAME, expect=1)
    assert "is the secondary node" in bed.run("gnt-instance", "replace-disks", "-n", "node3", NAME, expect=1)
    bed.run("gnt-instance", "replace-disks", "-n", "node1", NAME)
    assert (place(bed), copies(bed)) == (["node2", "node1", "running"], ["node1", "node2"])
    whole(bed)
    bed.run("gnt-instance", "failover", "-f", NAME)
    assert place(bed) == ["node1", "node2", "running"]
    whole(bed)
    bed.run("gnt-instance", "shutdown", NAME)
    bed.run("gnt-instance", "replace-disks", "-I", "hail", NAME)
    assert copies(bed) == ["node1", "node3"]
    bed.run("gnt-instance", "startup", NAME)
    assert place(bed) == ["node1", "node3", "running"]
    whole(bed)
    assert "ERROR" not in bed.run("gnt-cluster", "verify")


def test_a_lost_or_bad_copy_is_made_anew(instance: FakeBed) -> None:
    bed = instance
    whole(bed)
    assert "nothing is replaced" in bed.run("gnt-instance", "replace-disks", "-a", NAME)
    bed.run("gnt-instance", "replace-disks", "-s", NAME)
    whole(bed)
    bed.run("gnt-instance", "shutdown", NAME)
    bed.run("sh", "-c", f"rm /srv/ganeti/file-storage/{NAME}/*", node="node3")
    assert copies(bed) == ["node2"]
    bed.run("gnt-instance", "replace-disks", "-a", NAME)
    assert copies(bed) == ["node2", "node3"]
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)


def test_copies_that_grew_unasked_are_noted_in_the_configuration(instance: FakeBed) -> None:
    bed = instance
    whole(bed)
    bed.run("gnt-instance", "shutdown", NAME)
    for node in ("node2", "node3"):
        bed.run("sh", "-c", f"truncate -s 12M /srv/ganeti/file-storage/{NAME}/*.disk0", node=node)
    assert f"Disk 0 of instance {NAME} has 12 MiB, not 8: corrected" in bed.run("gnt-cluster", "repair-disk-sizes")
    assert bed.run("gnt-instance", "list", "--no-headers", "-o", "disk.size/0", NAME).strip() == "12M"
    assert "corrected" not in bed.run("gnt-cluster", "repair-disk-sizes", NAME)
    bed.run("gnt-instance", "startup", NAME)
    whole(bed)
    assert "ERROR" not in bed.run("gnt-cluster", "verify")


def test_a_storage_daemon_that_cannot_be_started_is_told_of_and_comes_back_by_itself(instance: FakeBed) -> None:
    """No watcher runs here, and nobody opens the disks again."""
    bed, program = instance, storage_daemon.PROGRAM
    whole(bed)
    bed.run("mount", "--bind", "/bin/false", program, node="node3")
    try:
        bed.run("sh", "-c", "kill -9 $(cut -d' ' -f1 /run/ganeti/mirror/*.pid)", node="node3")
        both = "the loss is told of the primary and of the secondary"
        bed.wait(lambda: bed.run("gnt-instance", "info", NAME).count("*DEGRADED*") == 2, both, every_s=SELDOM_S)
        said = bed.run("gnt-cluster", "verify", expect=None)
        assert "disk/0 on node node2: " in said and "is degraded, nothing is copied" in said, said
        assert "disk/0 on node node3: " in said and "is not served: its storage daemon has ended" in said, said
        said = bed.run("gnt-cluster", "verify-disks", expect=1)
        assert NAME in said and "its storage daemon has ended with status 1; " in said
        assert bed.run("gnt-instance", "list", "--no-headers", "-o", "disk.degraded", NAME).strip() == "Y"
        log = bed.run("cat", "/var/log/ganeti/mirror-daemon.log", node="node3")
        assert "cannot be opened" in log and "is started again in 1 s" in log and log.count("again in") < 6, log
    finally:
        bed.run("umount", program, node="node3")
    whole(bed)


def test_a_killed_ganeti_mirrord_is_started_by_its_nodes_watcher(instance: FakeBed) -> None:
    bed = instance
    whole(bed)
    for node in ("node3", "node2"):
        bed.run("sh", "-c", "kill -9 $(cat /run/ganeti/ganeti-mirrord.pid)", node=node)
        bed.run("ganeti-watcher", node=node)
        bed.run("daemon-util", "check", "ganeti-mirrord", node=node)
        whole(bed)


def test_a_node_that_is_lost_for_good_is_left(instance: FakeBed) -> None:
    """Its primary is gone: the instance lives on at the secondary, and gets another one."""
    bed = instance
    whole(bed)
    victim = bed.layout.node("node2")
    machine.kill(bed.layout, victim)
    bed.run("gnt-node", "modify", "--offline", "yes", "--force", "node2")
    bed.run("gnt-instance", "failover", "-f", NAME)
    said = bed.run("gnt-instance", "replace-disks", "-n", "node1", NAME)
    assert "stays on node2" in said
    assert place(bed) == ["node3", "node1", "running"]
    whole(bed)
    machine.start(bed.layout, victim)
    processes.wait_for(
        lambda: not machine.run(bed.layout, "node2", "daemon-util", "check", "ganeti-noded").returncode,
        30,
        "the daemons of node2",
    )
    bed.run("gnt-node", "modify", "--offline", "no", "node2")
    assert "mirror.disk0 is unknown" in bed.run("gnt-cluster", "verify", expect=1)
    bed.run("sh", "-c", f"rm -r /srv/ganeti/file-storage/{NAME}", node="node2")


def test_the_disks_of_a_stopped_instance_become_mirrored_and_plain_again(bed: FakeBed) -> None:
    words = "gnt-instance add -t file --disk 0:size=8m -o noop+default -n node2 --no-install --no-start conv"
    bed.run(*words.split())

    def path() -> str:
        config = bed.config()
        (found,) = [each for each in config["instances"].values() if each["name"] == "conv"]
        return str(config["disks"][found["disks"][0]]["logical_id"][1])

    def holds_it(node: str) -> bool:
        said = bed.run("qemu-io", "-f", "raw", "-c", "read -P 7 1M 64k", path(), node=node)
        return "read 65536/65536" in said and "verification failed" not in said

    bed.run("qemu-io", "-f", "raw", "-c", "write -q -P 7 1M 64k", path(), node="node2")
    said = bed.run("gnt-instance", "modify", "-t", "mirror", "-I", "hail", "conv")
    assert "Selected the secondary node: node" in said and "disk_template -> mirror" in said
    listed = ("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "pnode,snodes,disk_template", "conv")
    primary, secondary, template = bed.run(*listed).strip().split("|")
    assert (primary, template) == ("node2", "mirror") and secondary in ("node1", "node3")
    assert holds_it("node2") and holds_it(secondary)
    bed.run("gnt-instance", "modify", "-t", "file", "conv")
    assert bed.run(*listed).strip() == "node2||file" and holds_it("node2")
    assert "ERROR" not in bed.run("gnt-cluster", "verify")
    bed.run("gnt-instance", "remove", "-f", "conv")
