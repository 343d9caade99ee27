# SPDX-License-Identifier: BSD-2-Clause
"""The file system with the disks of instances is full: what asks for room is refused in words, and nothing is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster
from ganeti.tools.testbed.node_files import FILE_STORAGE

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
BALLAST = f"{FILE_STORAGE}/ballast"
IMAGE = "/srv/image.raw"


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    """One node, whose file storage is a file system of 20 MiB; web is stopped, and has 8 MiB of it written."""
    layout = bed.up(tmp_path_factory.mktemp("full").resolve(), 1, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        found.run("mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", FILE_STORAGE)
        found.run("dd", "if=/dev/urandom", f"of={IMAGE}", "bs=1M", "count=6")
        add = "gnt-instance add -t file -o noop+default --no-start -s 8m -n node1 web"
        found.run(*add.split())
        yield found
    finally:
        bed.down(layout)


@pytest.fixture
def full(fake_bed: FakeBed) -> Iterator[FakeBed]:
    """Not one byte is free; afterwards there is room again."""
    fake_bed.run("dd", "if=/dev/zero", f"of={BALLAST}", "bs=64k", expect=1)
    yield fake_bed
    fake_bed.run("rm", "-f", BALLAST)


def described(fake_bed: FakeBed) -> dict[str, Any]:
    """The instance and its disk as the configuration has them, without the times of changes."""
    config = fake_bed.config()
    (instance,) = config["instances"].values()
    (disk,) = (config["disks"][uuid] for uuid in instance["disks"])
    return {"instance": instance, "disk": disk}


def disk_size(fake_bed: FakeBed) -> int:
    path = described(fake_bed)["disk"]["logical_id"][1]
    return int(fake_bed.run("stat", "-c", "%s", path))


def check(fake_bed: FakeBed) -> None:
    fake_bed.check()
    fake_bed.run("gnt-cluster", "verify")


def test_a_reinstallation_without_room_loses_nothing(full: FakeBed) -> None:
    before = described(full)
    data = full.run("sha256sum", before["disk"]["logical_id"][1])
    command = [
        "gnt-instance",
        "reinstall",
        "-f",
        "-o",
        "noop+other",
        "--force-variant",
        "-O",
        f"os-image={IMAGE}",
        "web",
    ]
    said = full.run(*command, expect=1)
    assert "cannot be filled: No space left on device; 0 MiB are free there: make room there and try again" in said
    assert described(full) == before
    assert full.run("sha256sum", before["disk"]["logical_id"][1]) == data
    full.check()
    full.run("rm", BALLAST)
    full.run(*command)
    assert described(full)["instance"]["os"] == "noop+other"
    full.run("cmp", "-n", str(6 << 20), IMAGE, before["disk"]["logical_id"][1])
    check(full)


def test_a_disk_that_cannot_grow_stays_as_it_was(full: FakeBed) -> None:
    before, size = described(full), disk_size(full)
    command = ["gnt-instance", "grow-disk", "web", "0", "4m"]
    said = full.run(*command, expect=1)
    assert "MiB are needed and 0 MiB are free there" in said
    assert (described(full), disk_size(full)) == (before, size)
    full.check()
    full.run("rm", BALLAST)
    full.run(*command)
    assert described(full)["disk"]["size"] == 12 and disk_size(full) == 12 << 20
    check(full)
