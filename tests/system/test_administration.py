# SPDX-License-Identifier: BSD-2-Clause
"""What an administrator does by day, by commands on real daemons: disks, nodes emptied, words to all nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
ADD = ("gnt-instance", "add", "-o", "noop+default", "--no-name-check", "--disk", "0:size=16m")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("administration").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def test_disks_are_opened_enlarged_and_closed(bed: FakeBed) -> None:
    bed.run(*ADD, "-t", "sharedfile", "-n", "node2", "--no-start", "disks1")
    [line] = bed.run("gnt-instance", "activate-disks", "disks1").splitlines()
    node, disk, path = line.split(":")
    assert (node, disk) == ("node2", "disk/0") and path.endswith(".disk0")
    said = bed.run("gnt-instance", "grow-disk", "disks1", "0", "8m")
    assert "from 16 MiB to 24 MiB" in said
    bed.run("gnt-instance", "grow-disk", "--absolute", "disks1", "0", "32m")
    assert (
        bed.run("gnt-instance", "list", "--no-headers", "-o", "disk.size/0", "--units", "m", "disks1").strip() == "32"
    )
    assert int(bed.run("stat", "-c", "%s", path, node="node2")) == 32 * 1024 * 1024
    assert "not made smaller" in bed.run("gnt-instance", "grow-disk", "--absolute", "disks1", "0", "16m", expect=1)
    bed.run("gnt-instance", "deactivate-disks", "disks1")
    bed.check()


def test_a_lost_disk_is_made_anew_elsewhere(bed: FakeBed) -> None:
    bed.run(*ADD, "-t", "file", "-n", "node2", "--no-start", "lost1")
    assert "Disk 0 of lost1 is there" in bed.run("gnt-instance", "recreate-disks", "lost1", expect=1)
    bed.run("gnt-instance", "recreate-disks", "--disk", "0:size=8m", "-n", "node3", "lost1")
    shown = bed.run("gnt-instance", "list", "--no-headers", "--units", "m", "-o", "pnode,disk.size/0", "lost1")
    assert shown.split() == ["node3", "8"]
    bed.run("gnt-instance", "startup", "lost1")
    bed.run("gnt-instance", "remove", "--force", "lost1")


def test_lost_disks_of_running_instances_are_told(bed: FakeBed) -> None:
    bed.run(*ADD, "-t", "file", "-n", "node2", "gone1")
    bed.run("gnt-cluster", "verify-disks")
    [line] = bed.run("gnt-instance", "activate-disks", "gone1").splitlines()
    path = line.split(":")[2]
    bed.run("mv", path, f"{path}.away", node="node2")
    said = bed.run("gnt-cluster", "verify-disks", expect=1)
    assert "Instance gone1 has lost disks" in said and f"{path} on node node2" in said
    bed.run("mv", f"{path}.away", path, node="node2")
    bed.run("gnt-cluster", "verify-disks", "--no-strict", "-g", "default")
    bed.run("gnt-instance", "remove", "--force", "gone1")


def test_sizes_that_are_wrong_are_put_right(bed: FakeBed) -> None:
    bed.run(*ADD, "-t", "sharedfile", "-n", "node2", "--no-start", "sizes1")
    [line] = bed.run("gnt-instance", "activate-disks", "sizes1").splitlines()
    bed.run("truncate", "-s", "20M", line.split(":")[2], node="node2")
    assert "has 20 MiB, the configuration says 16" in bed.run("gnt-instance", "activate-disks", "sizes1")
    assert "Disk 0 of instance sizes1 has 20 MiB, not 16: corrected" in bed.run("gnt-cluster", "repair-disk-sizes")
    assert "corrected" not in bed.run("gnt-cluster", "repair-disk-sizes", "sizes1")
    bed.run("gnt-instance", "deactivate-disks", "sizes1")


def test_a_node_is_emptied(bed: FakeBed) -> None:
    for name in ("empty1", "empty2"):
        bed.run(*ADD, "-t", "sharedfile", "-n", "node3", name)
    said = bed.run("gnt-node", "evacuate", "-f", "-p", "node3")
    assert "All instances evacuated successfully." in said
    assert bed.run("gnt-node", "list", "--no-headers", "-o", "pinst_cnt", "node3").strip() == "0"
    assert "No primary or secondary instances on node node3" in bed.run("gnt-node", "evacuate", "-f", "node3")
    bed.check()


@pytest.mark.requirement("S1.16")
def test_a_node_group_is_emptied(bed: FakeBed) -> None:
    bed.run("gnt-group", "add", "green")
    bed.run("gnt-group", "assign-nodes", "green", "node3")
    bed.run(*ADD, "-t", "sharedfile", "-n", "node3", "--no-start", "leaves1")
    assert "All instances evacuated successfully." in bed.run("gnt-group", "drain", "--to", "default", "green")
    assert bed.run("gnt-instance", "list", "--no-headers", "-o", "pnode.group", "leaves1").strip() == "default"
    bed.run("gnt-group", "assign-nodes", "default", "node3")
    bed.run("gnt-group", "remove", "green")


def test_storage_of_all_nodes(bed: FakeBed) -> None:
    rows = bed.run("gnt-node", "list-storage", "--no-headers", "-t", "file", "--separator", ":").splitlines()
    assert [row.split(":")[0] for row in rows] == ["node1", "node2", "node3"]
    _, kind, _, size, used, free, allocatable = rows[0].split(":")
    assert (kind, allocatable) == ("file", "Y") and int(size) >= int(used) + int(free) - 1 > 0
    assert "type 'lvm-vg'" in bed.run("gnt-node", "list-storage", "-t", "lvm-vg", expect=1)


def test_providers_of_external_storage(bed: FakeBed) -> None:
    make = (
        "d=/srv/ganeti/extstorage/san; mkdir -p $d; echo 'pool where disks lie' >$d/parameters.list; "
        "for s in create remove grow attach detach setinfo verify; do echo '#!/bin/sh' >$d/$s; chmod 755 $d/$s; done"
    )
    assert bed.run("gnt-storage", "diagnose") == ""
    for node in ("node1", "node2"):
        bed.run("sh", "-c", make, node=node)
    said = bed.run("gnt-storage", "diagnose", expect=1)
    assert "For nodegroup: default --> invalid" in said and "  Node: node3, status: not found" in said
    bed.run("sh", "-c", make, node="node3")
    assert "  For nodegroup: default --> valid" in bed.run("gnt-storage", "diagnose")
    assert "      pool: where disks lie" in bed.run("gnt-storage", "info")


def test_the_job_queue_tests_itself(bed: FakeBed) -> None:
    assert bed.run("gnt-debug", "test-jobqueue").splitlines()[-1] == "The job queue works"


@pytest.mark.requirement("S1.17")
def test_words_and_files_reach_all_nodes(bed: FakeBed) -> None:
    lines = bed.run("gnt-cluster", "command", "-M", "hostname").splitlines()
    assert [line for line in lines if ": " in line] == ["node2: node2", "node3: node3", "node1: node1"]
    assert lines.count("return code = 0") == 3
    shown = bed.run("gnt-cluster", "command", "--failure-only", "test $(hostname) = node3")
    assert [line for line in shown.splitlines() if line.startswith("node:")] == ["node: node2", "node: node1"]
    assert bed.run("gnt-cluster", "command", "-g", "default", "true").count("return code = 0") == 3
    assert "node group 'green'" in bed.run("gnt-cluster", "command", "-g", "green", "true", expect=1)
    bed.run("sh", "-c", "echo hello >/etc/motd.new")
    bed.run("gnt-cluster", "copyfile", "-n", "node2", "/etc/motd.new")
    assert bed.run("cat", "/etc/motd.new", node="node2") == "hello\n"
    bed.run("test", "-e", "/etc/motd.new", node="node3", expect=1)
    assert "no file '/nowhere'" in bed.run("gnt-cluster", "copyfile", "/nowhere", expect=1)
    bed.run("gnt-cluster", "copyfile", "-g", "default", "/etc/motd.new")
    assert bed.run("cat", "/etc/motd.new", node="node3") == "hello\n"
    assert "node group 'green'" in bed.run("gnt-cluster", "copyfile", "-g", "green", "/etc/motd.new", expect=1)


def test_a_node_is_switched_off_and_on_with_what_runs_there(bed: FakeBed) -> None:
    lines = ["#!/bin/sh", 'echo "$@" >>/root/power.log', "case $1 in power-status) echo '{\"powered\": true}';; esac"]
    bed.run("sh", "-c", 'printf "%s\\n" "$@" >/root/power; chmod 755 /root/power', "sh", *lines)
    bed.run("gnt-cluster", "modify", "--node-parameters", "oob_program=/root/power")
    bed.run(*ADD, "-t", "sharedfile", "-n", "node3", "power1")
    bed.run("gnt-cluster", "epo", "-f", "node3")
    shown = "gnt-node", "list", "--no-headers", "-o", "offline,powered", "node3"
    assert bed.run(*shown).split() == ["Y", "N"]
    assert "power1" not in bed.guests()
    bed.run("gnt-cluster", "epo", "-f", "--on", "node3")
    assert bed.run(*shown).split() == ["N", "Y"]
    assert bed.guests()["power1"] == ["node3"]
    said = bed.run("cat", "/root/power.log").splitlines()
    assert [line for line in said if "status" not in line] == ["power-off node3", "power-on node3"]
    bed.run("gnt-cluster", "modify", "--node-parameters", "oob_program=")
    bed.run("gnt-instance", "remove", "-f", "power1")
    bed.check()


def test_a_delay_ends_when_somebody_connects_to_its_socket(bed: FakeBed) -> None:
    job = bed.submit("gnt-debug", "delay", "--interruptible", "600")
    found: list[str] = []

    def announced() -> bool:
        found[:] = re.findall(r"delay-test, \['(/\S+)'\]", bed.run("gnt-job", "info", str(job)))
        return bool(found)

    bed.wait(announced, "the job names its socket")
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    bed.run("python3", "-c", connect, found[0])
    bed.wait(lambda: bed.job_status(job) == "success", "the delay ends")
    assert "Interrupted, time spent waiting: " in bed.run("gnt-job", "info", str(job))
    bed.run("test", "!", "-e", found[0])


@pytest.mark.requirement("S2.3", "S2.4")
def test_luxid_alone_answers_commands_and_no_former_daemon_is_left(bed: FakeBed) -> None:
    listening = bed.run("ss", "-xlpH")
    for name, daemon in (("ganeti-query", "luxid"), ("ganeti-master", "luxid"), ("ganeti-wconfd", "wconfd")):
        [line] = [line for line in listening.splitlines() if re.search(rf"/socket/{name}\s", line)]
        assert daemon in line.rpartition("users:")[2], line
    programs = bed.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "luxid" in programs and "masterd" not in programs and "queryd" not in programs


@pytest.mark.requirement("S2.9")
def test_wconfd_alone_has_the_configuration_open_for_writing(bed: FakeBed) -> None:
    look = "for f in $(find /proc/[0-9]*/fd -lname '*/config.sqlite' 2>/dev/null); do p=${f%/fd/*}; "
    look += "grep -q 'flags:.*[12]$' $p/fdinfo/${f##*/} && tr '\\0' ' ' <$p/cmdline && echo; done; true"
    job = bed.submit("gnt-debug", "delay", "--interruptible", "600")
    bed.wait(lambda: bed.job_status(job) == "running", "a job process is there")
    writers = {line.strip() for line in bed.run("sh", "-c", look).splitlines() if line.strip()}
    bed.run("gnt-job", "cancel", "--kill", "--yes-do-it", str(job))
    assert len(writers) == 1 and "wconfd" in writers.pop()
