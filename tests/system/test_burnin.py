# SPDX-License-Identifier: BSD-2-Clause
"""`burnin` on real daemons: everything is done to an instance, and nothing is left; a failure leaves nothing either."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
BURNIN = "/usr/lib/ganeti/tools/burnin"
SMALL = ("-o", "noop+default", "--disk-size", "16m", "--disk-growth", "8m", "--mem-size", "64m", "--vcpu-count", "1")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = testbed.up(tmp_path_factory.mktemp("burnin").resolve(), 2, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        yield FakeBed(layout)
    finally:
        testbed.down(layout)


def test_everything_is_done_and_nothing_is_left(bed: FakeBed) -> None:
    said = bed.run(BURNIN, *SMALL, "-p", "-t", "sharedfile", "--reboot-types", "hard", "--rename", "inst9", "inst1")
    for title in (
        "Creating",
        "Growing disks",
        "Migrating",
        "Exporting",
        "Reinstalling",
        "Renaming",
        "NICs",
        "Removing",
    ):
        assert title in said, said
    assert "- Done after" in said
    assert bed.run("gnt-instance", "list", "--no-headers") == ""
    bed.check()


def test_a_failure_leaves_nothing(bed: FakeBed) -> None:
    bed.run("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-n", "node1", "--no-start", "inst8")
    said = bed.run(BURNIN, *SMALL, "--rename", "inst8", "inst1", expect=1)
    assert "inst8 exists already" in said
    said = bed.run(BURNIN, "-o", "nosuch", *SMALL[2:], "inst1", expect=1)
    assert "- Failed after" in said and "OS 'nosuch'" in said, "the reason, not where to look for it"
    assert bed.run("gnt-instance", "list", "--no-headers", "-o", "name") == "inst8\n"
    assert "There is no disk template" in bed.run(BURNIN, *SMALL, "-t", "nosuch", "inst1", expect=1)
