# SPDX-License-Identifier: BSD-2-Clause
"""The queue on three real nodes: what a command was told lies on every candidate, and goes there when it goes here."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
NO_CRON_S = 86400
CANDIDATES = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("queue").resolve(), 3, "fake", watcher_interval_s=NO_CRON_S)
    try:
        cluster.create(layout)
        running = FakeBed(layout)
        running.wait(lambda: in_sync(running) == 2, "all candidates are in sync")
        yield running
    finally:
        bed.down(layout)


def in_sync(fake_bed: FakeBed) -> int:
    return fake_bed.run("gnt-node", "list", "--no-headers", "-o", "sync_state").count("in-sync")


def copies(fake_bed: FakeBed, name: str) -> list[bytes | None]:
    """The file of this name on each candidate; None where there is none."""
    paths = [fake_bed.data(node) / "queue" / name for node in CANDIDATES]
    return [path.read_bytes() if path.exists() else None for path in paths]


@pytest.mark.requirement("S2.7")
def test_a_submitted_job_and_its_end_are_everywhere_when_the_command_knows(fake_bed: FakeBed) -> None:
    job_id = fake_bed.submit("gnt-debug", "delay", "60")
    assert None not in copies(fake_bed, f"job-{job_id}")
    fake_bed.run("gnt-job", "cancel", str(job_id), expect=None)
    job_id = fake_bed.submit("gnt-debug", "delay", "0")
    fake_bed.run("gnt-job", "watch", str(job_id))
    here, *there = copies(fake_bed, f"job-{job_id}")
    assert here is not None and b'"success"' in here and there == [here, here]


@pytest.mark.requirement("S2.7", "S2.18", "S2.62")
def test_a_job_that_changes_something_leaves_the_same_everywhere(fake_bed: FakeBed) -> None:
    job_id = fake_bed.submit("gnt-instance", "add", "-t", "sharedfile", "-s", "8m", "-o", "noop+default", "web")
    fake_bed.run("gnt-job", "watch", str(job_id))
    here, *there = copies(fake_bed, f"job-{job_id}")
    assert here is not None and there == [here, here] and b'"begun"' in here
    fake_bed.wait(lambda: copies(fake_bed, f"job-{job_id}.undo") == [None] * 3, "its undo log is gone everywhere")


def test_the_drain_flag_and_the_archive_follow(fake_bed: FakeBed) -> None:
    fake_bed.run("gnt-cluster", "queue", "drain")
    assert copies(fake_bed, "drain") == [b""] * 3
    fake_bed.run("gnt-cluster", "queue", "undrain")
    assert copies(fake_bed, "drain") == [None] * 3
    job_id = fake_bed.submit("gnt-debug", "delay", "0")
    fake_bed.run("gnt-job", "watch", str(job_id))
    fake_bed.run("gnt-job", "archive", str(job_id))
    fake_bed.wait(lambda: copies(fake_bed, f"job-{job_id}") == [None] * 3, "it is archived everywhere")
    fake_bed.wait(lambda: None not in copies(fake_bed, f"archive/0/job-{job_id}"), "and kept there")
