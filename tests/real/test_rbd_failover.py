# SPDX-License-Identifier: BSD-2-Clause
"""A running guest on an image of Ceph whose node is lost: it runs elsewhere, its old client is refused, and its
old node ends it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from tests.fakes import ceph_cluster
from tests.system import ceph_bed
from tests.system.ceph_bed import CephBed

from ganeti.tools.testbed import watching

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(
        not {"GANETI_TEST_HOST", "GANETI_CAMPAIGN"} & os.environ.keys(),
        reason="it takes two minutes: make test-host and make campaign run it",
    ),
]
WITHIN_S = 15.0


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CephBed]:
    if reason := ceph_cluster.why_not():
        pytest.skip(reason)
    with ceph_bed.opened(tmp_path_factory.mktemp("rbd").resolve()) as found:
        yield found


def test_a_guest_runs_elsewhere_and_its_old_client_is_refused(bed: CephBed) -> None:
    """Its node is cut off and its QEMU hangs; when both go on, the guest runs on another node already.

    How long a guest boots is a matter of the machine: `bench/rbd_failover.py` has the whole figure.
    """
    with watching.watching(bed.layout, []) as watch:
        bed.add_guest(watch, "node2")
        with bed.cut_off("node2"):
            started_s, written_s = bed.fail_over(watch, "node2", "node3")
        print(f"the guest was started after {started_s:.1f} s, and wrote after {written_s:.1f} s")
        assert started_s <= WITHIN_S
        bed.wait(lambda: bed.refused("node2", "node3"), "what the old guest writes is refused")
        watch.wait_for_beat(ceph_bed.NAME, time.monotonic(), 60.0)
        bed.come_back("node2")


def test_a_guest_on_a_node_that_only_the_master_takes_for_lost_is_refused(bed: CephBed) -> None:
    with watching.watching(bed.layout, []) as watch:
        watch.wait_for_beat(ceph_bed.NAME, 0.0, 60.0)
        bed.fail_over(watch, "node3", "node2")
        bed.wait(lambda: bed.refused("node3", "node2"), "what the old guest writes is refused")
        bed.come_back("node3")
        bed.remove_guest()
    assert "ERROR" not in bed.run("gnt-cluster", "verify")
