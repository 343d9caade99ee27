# SPDX-License-Identifier: BSD-2-Clause
"""Many creations at once, by name and by the allocator: they never promise a node more memory than it has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed, cluster
from ganeti.wire.job_file import FINAL_STATUSES

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]
HOME = "/run/ganeti/fake-hypervisor"
MEMORY_MIB = 4096
EACH_MIB = 1536
FITTING = MEMORY_MIB // EACH_MIB
ADD = ("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "-B", f"memory={EACH_MIB}m")


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("concurrency").resolve(), 3, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        capacity = json.dumps({"memory_total": MEMORY_MIB, "memory_dom0": 0})
        for node in layout.nodes:
            found.run("sh", "-c", f"mkdir -p {HOME} && echo '{capacity}' > {HOME}/.capacity", node=node.name)
        yield found
    finally:
        bed.down(layout)


@pytest.mark.parametrize(
    ("where", "count", "most"),
    [(("-n", "node2"), 2 * FITTING, FITTING), (("-I", "hail"), 3 * FITTING + 2, 3 * FITTING)],
    ids=["on one node", "by the allocator"],
)
def test_creations_at_once_never_overcommit(fake_bed, where, count, most):
    names = [f"web{number}" for number in range(count)]
    words = " & ".join(" ".join([*ADD, *where, "--submit", "--print-jobid", name]) for name in names)
    jobs = [int(line) for line in fake_bed.run("sh", "-c", f"{words} & wait").splitlines() if line.isdigit()]
    assert len(jobs) == count
    fake_bed.wait(lambda: all(fake_bed.job_status(job) in FINAL_STATUSES for job in jobs), "all creations end")
    # A job's file has its end before config.data, which is written behind the commits.
    fake_bed.wait(lambda: not any_half_made(fake_bed), "config.data has what was taken back")
    fake_bed.check()
    guests = fake_bed.guests()
    made, nodes = list(guests), [node for (node,) in guests.values()]
    assert 0 < len(made) <= most and len(made) == [fake_bed.job_status(job) for job in jobs].count("success")
    assert max(nodes.count(node) for node in nodes) <= FITTING
    if where[0] == "-n":
        assert len(made) == most, "what fits is made"
    for name in made:
        fake_bed.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", name)


def any_half_made(fake_bed: FakeBed) -> bool:
    return any(instance.get("forthcoming") for instance in fake_bed.config()["instances"].values())
