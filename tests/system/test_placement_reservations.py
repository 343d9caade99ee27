# SPDX-License-Identifier: BSD-2-Clause
"""Creations that choose their nodes by themselves share the room of the cluster, whoever dies in between (D13)."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
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
NODES = 3
ADD = ("gnt-instance", "add", "-t", "diskless", "-o", "noop+default")


@pytest.fixture(scope="module")
def fake_bed(tmp_path_factory) -> Iterator[FakeBed]:
    layout = bed.up(tmp_path_factory.mktemp("reservations").resolve(), NODES, "fake", watcher_interval_s=86400)
    try:
        cluster.create(layout)
        found = FakeBed(layout)
        capacity = json.dumps({"memory_total": MEMORY_MIB, "memory_dom0": 0})
        for node in layout.nodes:
            found.run("sh", "-c", f"mkdir -p {HOME} && echo '{capacity}' > {HOME}/.capacity", node=node.name)
        found.run("gnt-cluster", "modify", "--default-iallocator-params", "no-capacity-checks=")
        yield found
    finally:
        bed.down(layout)


def start_luxid(fake_bed: FakeBed, *variables: str) -> None:
    fake_bed.run("daemon-util", "stop", "ganeti-luxid")
    fake_bed.run("env", *variables, "daemon-util", "start", "ganeti-luxid")


def wait_for_stops(fake_bed: FakeBed, count: int) -> list[int]:
    """Wait until so many jobs have stopped themselves; gives their processes."""
    fake_bed.wait(lambda: len(list(fake_bed.stopped())) == count, f"{count} jobs have room reserved")
    return list(fake_bed.stopped())


def ended(fake_bed: FakeBed, *jobs: int) -> bool:
    return all(fake_bed.job_status(job) in FINAL_STATUSES for job in jobs)


def remove_all(fake_bed: FakeBed) -> None:
    for name in fake_bed.guests():
        fake_bed.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", name)


@pytest.mark.requirement("S2.60")
def test_what_fits_is_made_and_nothing_else(fake_bed):
    """Many at once, by the built-in allocator: none waits for a node, none is refused that would have fitted."""
    fitting = NODES * (MEMORY_MIB // 1280)
    names = [f"web{number}" for number in range(fitting + 5)]
    words = " & ".join(" ".join([*ADD, "-B", "memory=1280m", "--submit", "--print-jobid", name]) for name in names)
    jobs = [int(line) for line in fake_bed.run("sh", "-c", f"{words} & wait").splitlines() if line.isdigit()]
    assert len(jobs) == len(names)
    fake_bed.wait(lambda: ended(fake_bed, *jobs), "all creations end")
    fake_bed.check()
    outcomes = Counter(fake_bed.job_status(job) for job in jobs)
    assert outcomes == {"success": fitting, "error": 5}
    nodes = Counter(node for (node,) in fake_bed.guests().values())
    assert set(nodes.values()) == {MEMORY_MIB // 1280}
    remove_all(fake_bed)


@pytest.mark.requirement("S2.60")
def test_a_reservation_holds_until_the_job_dies(fake_bed):
    """Jobs stop between reservation and commit: nothing shows their instances, and yet nobody gets their room."""
    add = (*ADD, "-B", "memory=3g")
    start_luxid(fake_bed, "GANETI_PAUSE_AT=job-recorded")
    stopped: list[int] = []
    jobs = []
    for number in range(NODES):
        jobs.append(fake_bed.submit(*add, f"web{number}"))
        stopped += [pid for pid in wait_for_stops(fake_bed, number + 1) if pid not in stopped]
    assert fake_bed.config()["instances"] == {}

    refused = fake_bed.submit(*add, "late")
    fake_bed.wait(lambda: ended(fake_bed, refused), "there is no room left")
    assert fake_bed.job_status(refused) == "error"
    said = fake_bed.run("gnt-job", "info", str(refused))
    assert "too little memory (2,049 MiB short)" in said, said

    os.kill(stopped[0], signal.SIGKILL)
    fake_bed.wait(lambda: ended(fake_bed, jobs[0]), "the dead job is undone")
    heir = fake_bed.submit(*add, "heir")
    wait_for_stops(fake_bed, NODES)
    fake_bed.wait(lambda: [fake_bed.let_go_on(), ended(fake_bed, *jobs[1:], heir)][1], "all others end")
    assert [fake_bed.job_status(job) for job in (*jobs, heir)] == ["error", "success", "success", "success"]
    assert sorted(node for (node,) in fake_bed.guests().values()) == ["node1", "node2", "node3"]
    start_luxid(fake_bed)
    fake_bed.check()
    remove_all(fake_bed)


def test_named_nodes_and_programs_share_it_too(fake_bed):
    """Each way to a node reserves room on it, so mixed they do not overbook either."""
    place = "/usr/lib/ganeti/iallocators/second"
    answer = json.dumps({"success": True, "info": "", "result": ["node2"]})
    fake_bed.run("sh", "-c", f"printf '#!/bin/sh\\necho '\"'\"'{answer}'\"'\"'\\n' > {place}; chmod 755 {place}")
    ways = [("-n", "node2"), ("-I", "second"), ("-I", "hail"), ("-n", "node2"), ("-I", "second"), ("-I", "hail")]
    lines = [
        " ".join([*ADD, "-B", "memory=3g", *way, "--submit", "--print-jobid", f"web{number}"])
        for number, way in enumerate(ways)
    ]
    jobs = [
        int(line) for line in fake_bed.run("sh", "-c", f"{' & '.join(lines)} & wait").splitlines() if line.isdigit()
    ]
    fake_bed.wait(lambda: ended(fake_bed, *jobs), "all creations end")
    fake_bed.check()
    nodes = Counter(node for (node,) in fake_bed.guests().values())
    assert nodes["node2"] == 1 and max(nodes.values()) == 1
    remove_all(fake_bed)


@pytest.mark.parametrize("kill", [(), ("--kill", "--yes-do-it")], ids=["cancelled", "killed"])
def test_a_program_ends_with_its_job(fake_bed, kill):
    place = "/usr/lib/ganeti/iallocators/thinks"
    fake_bed.run("sh", "-c", f"printf '#!/bin/sh\nsleep 777\n' > {place}; chmod 755 {place}")

    def thinks() -> bool:
        return bool(fake_bed.run("pgrep", "-f", "[s]leep 777", expect=None).strip())

    job = fake_bed.submit(*ADD, "-I", "thinks", "web1")
    fake_bed.wait(thinks, "the allocator runs")
    fake_bed.run("gnt-job", "cancel", *kill, str(job))
    fake_bed.wait(lambda: ended(fake_bed, job) and not thinks(), "job and allocator end")
    assert fake_bed.job_status(job) == ("error" if kill else "canceled")
    fake_bed.check()


def test_why_creates_nothing(fake_bed):
    said = fake_bed.run(*ADD, "-B", "memory=1g", "--why", "web1")
    assert "web1 would be placed on node" in said and "fit, but the cluster is better balanced without it" in said
    said = fake_bed.run(*ADD, "-B", "memory=8g", "--why", "web1", expect=1)
    assert "web1 fits nowhere as it is asked for. Nearest fit: node" in said and "with 4,097 MiB less memory" in said
    assert fake_bed.config()["instances"] == {}
