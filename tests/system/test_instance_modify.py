# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance modify on real daemons: what it prints, what it leaves, and what a guest gets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("modify").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        add = "gnt-instance add -t sharedfile -o noop+default --no-install --no-start -n node2 -s 8m -B memory=128 web"
        found.run(*add.split())
        yield found
    finally:
        bed.down(layout)


def modify(fake_bed: FakeBed, words: str, *, expect: int = 0) -> list[str]:
    """Change the instance; gives what is said."""
    return fake_bed.run("gnt-instance", "modify", *words.split(), "web", expect=expect).splitlines()


def listed(fake_bed: FakeBed, field: str) -> str:
    return fake_bed.run("gnt-instance", "list", "--no-headers", "-o", field, "web").strip()


def test_disks_are_made_detached_attached_and_removed(fake_bed: FakeBed) -> None:
    said = modify(fake_bed, "--disk add:size=16m,name=data,mode=ro --disk 0:modify,name=system")
    assert said[-3:] == ["Modified instance web", " - disk/1 -> add:size=16,mode=ro", " - disk.name/0 -> system"]
    fake_bed.check()
    assert modify(fake_bed, "--disk data:detach")[-1] == " - disk/1 -> detach"
    assert listed(fake_bed, "disk.count") == "1"
    fake_bed.run("gnt-instance", "startup", "web")
    assert modify(fake_bed, "--disk 0:attach,name=data")[-2:] == [
        "Modified instance web",
        " - disk/0 -> attach:size=16,mode=ro",
    ]
    assert len(guest(fake_bed)["disk_paths"]) == 2
    assert "web runs as before" in "".join(modify(fake_bed, "--no-hotplug --disk add:size=4m"))
    assert "may be in use" in modify(fake_bed, "--no-hotplug --disk 0:remove", expect=1)[-1]
    assert len(guest(fake_bed)["disk_paths"]) == 2
    assert modify(fake_bed, "--disk 0:remove")[-1] == " - disk/0 -> remove"
    assert len(guest(fake_bed)["disk_paths"]) == 2
    assert listed(fake_bed, "disk.sizes") == "8,4"
    fake_bed.run("gnt-instance", "shutdown", "--timeout=0", "web")
    assert modify(fake_bed, "--disk 1:remove")[-1] == " - disk/1 -> remove"
    fake_bed.check()


def guest(fake_bed: FakeBed) -> dict[str, Any]:
    """The guest as it runs."""
    found: dict[str, Any] = json.loads(fake_bed.run("cat", "/run/ganeti/fake-hypervisor/web", node="node2"))
    return found


def test_nics_are_added_changed_and_removed(fake_bed: FakeBed) -> None:
    modify(fake_bed, "--net -1:add,name=eth9,mac=aa:00:00:ff:00:01 --net eth9:modify,ip=10.9.9.9")
    assert listed(fake_bed, "nic.mac/1") == "aa:00:00:ff:00:01"
    assert listed(fake_bed, "nic.ip/1") == "10.9.9.9"
    assert modify(fake_bed, "--net -1:remove")[-1] == " - nic.1 -> remove"
    assert listed(fake_bed, "nic.count") == "1"


def test_memory_of_a_guest_follows_at_once_and_the_rest_at_its_start(fake_bed: FakeBed) -> None:
    fake_bed.run("gnt-instance", "startup", "web")
    assert modify(fake_bed, "-m 100 --force")[-1] == " - runtime_memory -> 100"
    assert listed(fake_bed, "oper_ram") == "100M"
    said = modify(fake_bed, "-B vcpus=3,maxmem=256")
    assert said[-2:] == [" - be/vcpus -> 3", " - be/maxmem -> 256"]
    fake_bed.run("gnt-instance", "reboot", "--type=full", "--shutdown-timeout=0", "web")
    found = guest(fake_bed)
    assert (found["vcpus"], found["memory_mib"]) == (3, 256)
    fake_bed.check()


def test_offline_and_another_node(fake_bed: FakeBed) -> None:
    assert "still running on node2" in modify(fake_bed, "--new-primary node1", expect=1)[-1]
    assert "shut it down first" in modify(fake_bed, "--offline", expect=1)[-1]
    fake_bed.run("gnt-instance", "shutdown", "--timeout=0", "web")
    assert modify(fake_bed, "--new-primary node1 --offline")[-1] == " - admin_state -> offline"
    fake_bed.run("gnt-instance", "startup", "web", expect=1)
    assert modify(fake_bed, "--online")[-1] == " - admin_state -> down"
    fake_bed.run("gnt-instance", "startup", "web")
    assert fake_bed.guests() == {"web": ["node1"]}
    fake_bed.check()


def test_disks_are_converted_with_what_they_hold(fake_bed: FakeBed) -> None:
    add = "gnt-instance add -t sharedfile -o noop+default --no-install --no-start -n node2 -B memory=128"
    fake_bed.run(*add.split(), "--disk", "0:size=8m,format=qcow2", "conv")
    place = disk_path(fake_bed)
    command = ["qemu-io", "-f", "qcow2", "-c", "write -q -P 7 1M 64k", place]
    fake_bed.run(*command, node="node2")
    for template in ("file", "sharedfile", "file"):
        said = fake_bed.run("gnt-instance", "modify", "-t", template, "conv").splitlines()
        assert said[-1] == f" - disk_template -> {template}"
        old, place = place, disk_path(fake_bed)
        assert f".{template}.disk0" in place
        fake_bed.run("test", "-e", old, node="node2", expect=1)
        command = ["qemu-io", "-f", "qcow2", "-c", "read -P 7 1M 64k", place]
        assert "verification failed" not in fake_bed.run(*command, node="node2")
        fake_bed.check()
    fake_bed.run("gnt-instance", "startup", "conv")
    said = fake_bed.run("gnt-instance", "modify", "-t", "sharedfile", "conv").splitlines()
    assert said[-1] == " - disk_template -> sharedfile" and "while it runs" in "".join(said)
    command = ["qemu-io", "-f", "qcow2", "-c", "read -P 7 1M 64k", disk_path(fake_bed)]
    assert "verification failed" not in fake_bed.run(*command, node="node2")
    fake_bed.run("gnt-instance", "shutdown", "--timeout=0", "conv")
    assert "add --force" in fake_bed.run("gnt-instance", "modify", "-t", "diskless", "conv", expect=1)
    fake_bed.run("gnt-instance", "modify", "-f", "-t", "diskless", "conv")
    fake_bed.run("gnt-instance", "modify", "-t", "file", "--disk", "0:add,size=8m", "conv")
    assert disk_path(fake_bed).endswith(".file.disk0")
    fake_bed.check()


def disk_path(fake_bed: FakeBed) -> str:
    """Where the only disk of the instance that is converted lies."""
    config = fake_bed.config()
    (found,) = [each for each in config["instances"].values() if each["name"] == "conv"]
    return str(config["disks"][found["disks"][0]]["logical_id"][1])
