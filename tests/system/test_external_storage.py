# SPDX-License-Identifier: BSD-2-Clause
"""Instances on volumes of a provider of external storage, and on devices that are there already."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(
        os.geteuid() != 0 or not os.path.exists("/dev/loop-control"), reason="the provider attaches loop devices"
    ),
]
LOOPED = Path(__file__).resolve().parents[1] / "fakes/extstorage/looped"
SHARED = "/srv/ganeti/shared-file-storage"
NODES = ("node1", "node2", "node3")
VOLUME = f"provider=looped,dir={SHARED}/volumes"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("ext").resolve(), 3, "fake", watcher_interval_s=86400)
    cluster.create(layout, say=lambda sentence: None)
    found = FakeBed(layout)
    for node in NODES:
        found.run("mkdir", "-p", "/srv/ganeti/extstorage", node=node)
        found.run("cp", "-r", str(LOOPED), "/srv/ganeti/extstorage/", node=node)
    found.run("mkdir", f"{SHARED}/volumes")
    templates = "file,ext,blockdev,diskless"
    found.run("gnt-cluster", "modify", "--enabled-disk-templates", templates, "--ipolicy-disk-templates", templates)
    yield found
    testbed.down(layout)
    for line in loops():
        subprocess.run(["losetup", "-d", line.split()[0]], check=True)


def loops() -> list[str]:
    """Loop devices of volumes, which a failed test may leave."""
    done = subprocess.run(["losetup", "-n", "-O", "NAME,BACK-FILE"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if ".ext.disk" in line and "/volumes/" in line]


def volumes(bed: FakeBed) -> list[str]:
    return sorted(path.name for path in (bed.layout.shared / "volumes").glob("[a-z0-9]*"))


def attached(bed: FakeBed) -> list[str]:
    """Nodes that have a volume attached."""
    return sorted(path.name.split(".")[2] for path in (bed.layout.shared / "volumes").glob(".at.*"))


def told(bed: FakeBed, script: str) -> str:
    lines = (bed.layout.shared / "volumes/.calls").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{script} ")][-1]


def test_an_instance_lives_on_a_volume_of_a_provider(bed: FakeBed) -> None:
    add = ("gnt-instance", "add", "-t", "ext", "-o", "noop+default", "-n", "node2")
    bed.run(*add, "--disk", f"0:size=8m,{VOLUME},speed=7", "inst1")
    assert len(volumes(bed)) == 1
    [disk] = bed.config()["disks"].values()
    assert disk["logical_id"] == ["looped", f"{disk['uuid']}.ext.disk0"]
    assert disk["params"] == {"dir": f"{SHARED}/volumes", "speed": "7"}
    assert attached(bed) == ["node2"]
    bed.run("gnt-instance", "migrate", "-f", "-n", "node3", "inst1")
    assert attached(bed) == ["node3"]
    assert "exclusive=True" in told(bed, "open")
    bed.run("gnt-instance", "grow-disk", "inst1", "0", "8m")
    assert "size=8 new=16" in told(bed, "grow")
    bed.run("gnt-instance", "failover", "-f", "-n", "node1", "inst1")
    assert attached(bed) == ["node1"]
    assert bed.run("gnt-instance", "list", "--no-headers", "-o", "disk.size/0", "inst1").strip() == "16M"
    bed.run("gnt-instance", "shutdown", "inst1")
    assert attached(bed) == []
    assert "disk.params:speed/0 -> 9" in bed.run("gnt-instance", "modify", "--disk", "0:modify,speed=9,name=a", "inst1")
    [disk] = bed.config()["disks"].values()
    assert (disk["name"], disk["params"]) == ("a", {"dir": f"{SHARED}/volumes", "speed": "9"})
    bed.run("gnt-instance", "modify", "--disk", "0:modify,speed=default", "inst1")
    [disk] = bed.config()["disks"].values()
    assert disk["params"] == {"dir": f"{SHARED}/volumes"}
    for change, sentence in (
        ("colour=red", "Provider looped has no parameter colour: there are dir, speed"),
        ("provider=other", "'provider' cannot be changed: there are name, mode and the provider's own parameters"),
        ("dir=default", "the script verify for volume"),
    ):
        assert sentence in bed.run("gnt-instance", "modify", "--disk", f"0:modify,{change}", "inst1", expect=1)
    bed.run("gnt-instance", "modify", "--disk", f"add:size=8m,{VOLUME}", "inst1")
    assert len(volumes(bed)) == 2
    for volume in (bed.layout.shared / "volumes").glob("[a-z0-9]*"):
        volume.unlink()
    bed.run("gnt-instance", "recreate-disks", "inst1")
    assert len(volumes(bed)) == 2
    bed.run("gnt-instance", "startup", "inst1")
    assert "ERROR" not in bed.run("gnt-cluster", "verify")
    bed.run("gnt-instance", "remove", "-f", "inst1")
    assert (volumes(bed), attached(bed)) == ([], [])


@pytest.mark.parametrize(
    ("disk", "sentence"),
    [
        ("size=8m", "Disk 0: provider is missing: write --disk 0:size=SIZE,provider=NAME"),
        ("size=8m,provider=none", "has no provider none: install it below"),
        (f"size=8m,{VOLUME},colour=red", "Provider looped has no parameter colour: there are dir, speed"),
        ("size=8m,provider=looped", "the script verify for volume"),
        (f"adopt=x,{VOLUME}", "'adopt' is about a volume that is there already"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(bed: FakeBed, disk: str, sentence: str) -> None:
    before = bed.config()["disks"]
    said = bed.run(
        "gnt-instance", "add", "-t", "ext", "-o", "noop+default", "-n", "node2", "--disk", f"0:{disk}", "x", expect=1
    )
    assert sentence in said
    assert (bed.config()["disks"], volumes(bed)) == (before, [])
    assert "ERROR" not in bed.run("gnt-cluster", "verify")


def test_disks_are_converted_to_a_provider_and_back(bed: FakeBed) -> None:
    """The other direction too; a provider that is not there, or says no, changes nothing."""
    bed.run("gnt-instance", "add", "-t", "file", "-o", "noop+default", "-n", "node2", "--disk", "0:size=8m", "inst6")
    bed.run("gnt-instance", "shutdown", "inst6")
    image = bed.config()["disks"].popitem()[1]["logical_id"][1]
    pattern = bed.run("sh", "-c", f"head -c 8388608 /dev/urandom >{image}; md5sum <{image}", node="node2")
    convert = ("gnt-instance", "modify", "-t", "ext", "--ext-params")
    before = bed.config()["disks"]
    for parameters, sentence in (
        ("dir=x", "provider is missing"),
        ("provider=none", "has no provider none: install it below"),
        (f"{VOLUME},colour=red", "Provider looped has no parameter colour: there are dir, speed"),
        ("provider=looped", "the script verify for volume"),
    ):
        assert sentence in bed.run(*convert, parameters, "inst6", expect=1)
    assert (bed.config()["disks"], volumes(bed)) == (before, [])
    bed.run(*convert, f"{VOLUME},speed=7", "inst6")
    [disk] = bed.config()["disks"].values()
    assert (disk["dev_type"], disk["params"]) == ("ext", {"dir": f"{SHARED}/volumes", "speed": "7"})
    [volume] = volumes(bed)
    assert bed.run("sh", "-c", f"test ! -e {image}; md5sum <{SHARED}/volumes/{volume}", node="node2") == pattern
    assert attached(bed) == []
    bed.run("gnt-instance", "startup", "inst6")
    assert attached(bed) == ["node2"]
    bed.run("gnt-instance", "shutdown", "inst6")
    bed.run("gnt-instance", "modify", "-t", "file", "inst6")
    [disk] = bed.config()["disks"].values()
    assert bed.run("sh", "-c", f"md5sum <{disk['logical_id'][1]}", node="node2") == pattern
    assert volumes(bed) == []
    bed.run("gnt-instance", "remove", "-f", "inst6")


def test_a_device_is_adopted_and_left(bed: FakeBed, tmp_path: Path) -> None:
    backing = tmp_path / "device"
    backing.write_bytes(b"precious" + bytes(8 * 2**20 - 8))
    words = ["losetup", "-f", "--show", str(backing)]
    device = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    try:
        for node in NODES:
            bed.run("mkdir", "-p", "/dev/disk/by-id", node=node)
            bed.run("ln", "-sf", device, "/dev/disk/by-id/san-1", node=node)
        add = ("gnt-instance", "add", "-t", "blockdev", "--no-install", "-n", "node2", "--disk")
        assert "there is no volume /dev/disk/by-id/san-2 on node node2" in bed.run(
            *add, "0:adopt=/dev/disk/by-id/san-2", "inst2", expect=1
        )
        assert "are not made: name one that is there" in bed.run(*add, "0:size=8m", "inst2", expect=1)
        bed.run(*add, "0:adopt=/dev/disk/by-id/san-1", "inst2")
        bed.run("gnt-instance", "startup", "inst2")
        [disk] = bed.config()["disks"].values()
        assert (disk["size"], disk["logical_id"]) == (8, ["manual", "/dev/disk/by-id/san-1"])
        assert "is a disk already: adopt another volume" in bed.run(
            *add, "0:adopt=/dev/disk/by-id/san-1", "inst3", expect=1
        )
        bed.run("gnt-instance", "migrate", "-f", "-n", "node3", "inst2")
        assert "Disks of template blockdev cannot grow" in bed.run(
            "gnt-instance", "grow-disk", "inst2", "0", "8m", expect=1
        )
        bed.run("gnt-instance", "remove", "-f", "inst2")
        assert backing.read_bytes().startswith(b"precious")
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def test_a_snapshot_is_taken_listed_gone_back_to_and_removed(bed: FakeBed) -> None:
    add = ("gnt-instance", "add", "-t", "file", "-o", "noop+default", "-n", "node2", "--disk")
    bed.run(*add, "0:size=8m,format=qcow2", "inst4")
    snapshot = ("gnt-instance", "snapshot")
    bed.run(*snapshot, "create", "inst4", "before")
    assert "has a snapshot before already" in bed.run(*snapshot, "create", "inst4", "before", expect=1)
    rows = bed.run(*snapshot, "list", "inst4").splitlines()
    assert rows[0].split() == ["Snapshot", "Taken", "Disks"]
    assert (rows[1].split()[0], rows[1].split()[-1]) == ("before", "0")
    assert "runs and uses its disks: shut it down first" in bed.run(*snapshot, "revert", "inst4", "before", expect=1)
    assert "has no snapshot other: there are before" in bed.run(*snapshot, "remove", "inst4", "other", expect=1)
    assert "cannot be the name of a snapshot" in bed.run(*snapshot, "create", "inst4", "a/b", expect=1)
    bed.run("gnt-instance", "shutdown", "inst4")
    bed.run(*snapshot, "revert", "inst4", "before")
    bed.run(*snapshot, "remove", "inst4", "before")
    assert len(bed.run(*snapshot, "list", "inst4").splitlines()) == 1
    bed.run(*add, "0:size=8m", "inst5")
    assert "a raw image that the guest writes: shut it down" in bed.run(*snapshot, "create", "inst5", "x", expect=1)
    bed.run("gnt-instance", "shutdown", "inst5")
    for action in ("create", "revert"):
        assert "x" in bed.run(*snapshot, action, "inst5", "x")
    assert "ERROR" not in bed.run("gnt-cluster", "verify")
    bed.run("gnt-instance", "remove", "-f", "inst4")
    bed.run("gnt-instance", "remove", "-f", "inst5")
