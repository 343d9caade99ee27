# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance rename, reinstall and move on real daemons: files, OS scripts, and the cluster afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("rename").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        for name in ("web", "db"):
            add = f"gnt-instance add -t sharedfile -o noop+default --no-install --no-start -n node2 -s 8m {name}"
            found.run(*add.split())
        yield found
    finally:
        bed.down(layout)


def os_logs(fake_bed: FakeBed) -> list[str]:
    """The scripts that have run on node2, and for which instance."""
    names = fake_bed.run("ls", "/var/log/ganeti/os", node="node2", expect=None).split()
    return sorted("-".join([name.split("-")[0], name.split("-")[2]]) for name in names if name.endswith(".log"))


def test_a_renamed_instance_has_its_files_and_starts(fake_bed: FakeBed) -> None:
    said = fake_bed.run("gnt-instance", "rename", "web", "db", expect=1)
    assert "Instance 'db' is already in the cluster: choose another name" in said
    fake_bed.run("gnt-instance", "rename", "--no-name-check", "--no-ip-check", "web", "www")
    assert {path.partition("/")[0] for path in fake_bed.shared_files()} == {"www", "db"}
    assert os_logs(fake_bed) == ["rename-www"]
    fake_bed.check()
    fake_bed.run("gnt-instance", "startup", "www")
    assert fake_bed.guests() == {"www": ["node2"]}
    assert "shut it down first" in fake_bed.run("gnt-instance", "rename", "www", "web", expect=1)
    assert "shut it down first" in fake_bed.run("gnt-instance", "reinstall", "-f", "www", expect=1)
    fake_bed.run("gnt-instance", "shutdown", "--timeout=0", "www")
    fake_bed.run("gnt-instance", "rename", "www", "web")
    fake_bed.check()


def test_several_are_reinstalled_by_one_command(fake_bed: FakeBed) -> None:
    assert "give --force-multiple" in fake_bed.run("gnt-instance", "reinstall", "--all", expect=1)
    said = fake_bed.run("gnt-instance", "reinstall", "--force-multiple", "--all")
    assert "Submitted jobs" in said
    assert {"add-web", "add-db"} <= set(os_logs(fake_bed))
    said = fake_bed.run("gnt-instance", "reinstall", "-f", "-o", "noop+other", "web", expect=1)
    assert "has no variant 'other': there are default" in said
    fake_bed.run("gnt-instance", "reinstall", "-f", "-o", "noop+other", "--force-variant", "web")
    assert fake_bed.run("gnt-instance", "list", "--no-headers", "-o", "os", "web").strip() == "noop+other"
    fake_bed.check()


def image_sum(fake_bed: FakeBed, node: str) -> str:
    """The checksum of what lies in the file storage of a node, empty where there is nothing."""
    found = "find /srv/ganeti/file-storage -type f -exec md5sum {} +"
    return fake_bed.run("sh", "-c", found, node=node).partition(" ")[0].strip()


def test_a_moved_instance_has_its_data_on_the_other_node(fake_bed: FakeBed) -> None:
    add = "gnt-instance add -t file -o noop+default --no-install --no-start -n node2 -s 16m local"
    fake_bed.run(*add.split())
    write = "dd if=/dev/urandom of=$(ls /srv/ganeti/file-storage/local/*) bs=1M seek=5 count=2 conv=notrunc"
    fake_bed.run("sh", "-c", write, node="node2")
    before = image_sum(fake_bed, "node2")
    assert "is already on node node2" in fake_bed.run("gnt-instance", "move", "-f", "-n", "node2", "local", expect=1)
    fake_bed.run("gnt-instance", "move", "-f", "--compress=gzip", "-n", "node1", "local")
    assert (image_sum(fake_bed, "node1"), image_sum(fake_bed, "node2")) == (before, "")
    fake_bed.run("gnt-instance", "startup", "local")
    fake_bed.run("gnt-instance", "move", "-f", "--shutdown-timeout=0", "-n", "node2", "local")
    assert (image_sum(fake_bed, "node1"), image_sum(fake_bed, "node2")) == ("", before)
    assert fake_bed.guests() == {"local": ["node2"]}
    fake_bed.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", "local")
    fake_bed.check()


def test_a_reserved_instance_and_a_batch_are_made(fake_bed: FakeBed) -> None:
    add = "gnt-instance add -t sharedfile -o noop+default --no-install -n node2 -s 8m -B memory=64 --forthcoming later"
    fake_bed.run(*add.split())
    assert "later" not in fake_bed.guests()
    said = fake_bed.run("gnt-instance", "add", "--commit", "-s", "16m", "later", expect=1)
    assert "The size of disks of later cannot be another than it was reserved with" in said
    said = fake_bed.run("gnt-instance", "add", "--commit", "--no-install", "later")
    assert "No-installation mode selected, disabling startup" in said
    assert "later" not in fake_bed.guests()
    fake_bed.run("gnt-instance", "startup", "later")
    common = {"disk_template": "diskless", "os_type": "noop+default", "beparams": {"memory": 64}}
    batch = json.dumps([common | {"instance_name": name} for name in ("first", "second")])
    fake_bed.run("sh", "-c", f"echo '{batch}' >/root/batch.json")
    said = fake_bed.run("gnt-instance", "batch-create", "-I", "hail", "/root/batch.json")
    assert said.splitlines()[-1] == "All instances created successfully."
    assert set(fake_bed.guests()) == {"later", "first", "second"}
    fake_bed.check()
