# SPDX-License-Identifier: BSD-2-Clause
"""The cluster's own state is backed up beside running daemons, and a cluster is what it was once that is restored."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
FILE = "/root/cluster.tar.gz"


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("backup").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def test_a_cluster_is_what_it_was(bed: FakeBed) -> None:
    bed.run("gnt-instance", "add", "-t", "file", "-s", "16m", "-o", "noop+default", "-n", "node2", "inst1")
    bed.run("gnt-cluster", "add-tags", "before")
    assert "read back and verified" in bed.run("gnt-cluster", "backup", FILE)
    bed.run("gnt-cluster", "add-tags", "after")
    bed.run("gnt-group", "add", "fresh")
    refused = bed.run("gnt-cluster", "restore", "--yes-do-it", FILE, expect=1)
    assert "runs on the directories of this cluster" in refused
    bed.run("daemon-util", "stop-all")
    assert "add --yes-do-it" in bed.run("gnt-cluster", "restore", FILE, expect=1)
    bed.run("gnt-cluster", "restore", "--yes-do-it", FILE)
    bed.run("daemon-util", "start-all")
    assert bed.run("gnt-cluster", "list-tags").split() == ["before"]
    assert "fresh" not in bed.run("gnt-group", "list")
    assert "running" in bed.run("gnt-instance", "list")
    bed.run("gnt-cluster", "verify")
    bed.run("gnt-cluster", "add-tags", "later")
    began_s = time.time()
    bed.run("gnt-instance", "shutdown", "inst1")
    bed.run("gnt-cluster", "add-tags", "last")
    told = bed.run("gnt-cluster", "history")
    assert 'cluster: tags=["before", "last", "later"]' in told and "instance inst1: " in told
    assert '"last"' not in bed.run("gnt-cluster", "history", "--at", str(began_s), "cluster")
    assert '"last"' in bed.run("gnt-cluster", "history", "--at", str(began_s + 3600), "cluster")


def test_values_are_taken_back(bed: FakeBed) -> None:
    bed.run("gnt-instance", "modify", "-B", "maxmem=200", "inst1")
    bed.run("gnt-instance", "modify", "-B", "maxmem=300,vcpus=2", "inst1")
    commit = bed.run("gnt-cluster", "history", "--limit", "1", "inst1").split()[2]
    assert '"maxmem": 200' in bed.run("gnt-cluster", "undo", "--dry-run", commit)
    assert ": success" in bed.run("gnt-cluster", "undo", commit)
    found = bed.run("gnt-instance", "list", "--no-headers", "--separator=|", "-o", "be/maxmem,custom_beparams", "inst1")
    assert found.startswith("200|") and "vcpus" not in found
    assert "has changed again since" in bed.run("gnt-cluster", "undo", commit, expect=1)
    bed.run("gnt-instance", "shutdown", "inst1")
    bed.run("gnt-instance", "startup", "inst1")
    commit = bed.run("gnt-cluster", "history", "--limit", "1", "inst1").split()[2]
    assert "a change of admin_state cannot be undone this way" in bed.run("gnt-cluster", "undo", commit, expect=1)
    assert "is no number of a commit" in bed.run("gnt-cluster", "undo", "yesterday", expect=1)


def test_a_copy_of_another_cluster_is_looked_at(bed: FakeBed) -> None:
    bed.run("cp", "-r", "/var/lib/ganeti", "/root/copy")
    assert "Cluster name: cluster" in bed.run("gnt-cluster", "shadow", "/root/copy", expect=None)
