# SPDX-License-Identifier: BSD-2-Clause
"""A real guest is backed up while it writes, restored as another instance, and proved by booting its backup."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = pytest.mark.real
DISK = "/srv/ganeti/file-storage"


@pytest.fixture
def real_bed(tmp_path_factory: pytest.TempPathFactory, guest_image: object) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("backups").resolve(), 2, "kvm", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        bed.down(layout)


def beats(real_bed: FakeBed, name: str, node: str) -> list[int]:
    said = real_bed.run("sh", "-c", f"cat /var/log/ganeti/kvm/{name}.serial.log || true", node=node)
    return [int(number) for number in re.findall(r"^HB (\d+)\r?$", said, re.M)]


def test_a_guest_comes_back_as_it_was_at_its_newest_backup(real_bed: FakeBed) -> None:
    add = "gnt-instance add -t file -o heartbeat+default -n node1 -s 64m -B memory=96 web"
    real_bed.run(*add.split())
    real_bed.wait(lambda: len(beats(real_bed, "web", "node1")) > 2, "the guest beats")
    real_bed.run("gnt-backup", "key", "new")
    assert "all of it, 64.0 MiB" in real_bed.run("gnt-backup", "create", "-n", "node2", "web")
    count = len(beats(real_bed, "web", "node1"))
    real_bed.wait(lambda: len(beats(real_bed, "web", "node1")) > count + 2, "the guest goes on")
    before = beats(real_bed, "web", "node1")[-1]
    said = real_bed.run("gnt-backup", "create", "web")
    changed = re.search(r"Reading disk 0 of web: what its guest has changed, (\d+) KiB", said)
    assert changed and int(changed[1]) <= 256, said
    real_bed.run("gnt-backup", "restore", "--no-nics", "-n", "node2", "web", "copy")
    sector = real_bed.run("sh", "-c", f"head -c 8 {DISK}/copy/*", node="node2")
    assert int(sector) >= before
    real_bed.run("gnt-instance", "startup", "copy")
    real_bed.wait(lambda: len(beats(real_bed, "copy", "node2")) > 1, "the copy beats")
    said = real_bed.run("gnt-backup", "prove", "web")
    assert "is proved: its console shows" in said and "Filling" not in said, said
    assert real_bed.run("ls", DISK, node="node2") == "copy\n"
    count = len(beats(real_bed, "web", "node1"))
    real_bed.wait(lambda: len(beats(real_bed, "web", "node1")) > count, "the guest has not noticed")
