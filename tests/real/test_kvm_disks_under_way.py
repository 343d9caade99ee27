# SPDX-License-Identifier: BSD-2-Clause
"""On a whole cluster: a running guest takes its disks to another node and to other templates; a killed job is undone.

About a minute, so part of the campaign; the parts are tested by themselves (`test_kvm_disk_move`,
`test_kvm_disk_exchange`) and every crash point of the jobs by the simulator.
"""

from __future__ import annotations

import os

import pytest
from tests.real.test_kvm_kills import KvmBed

from ganeti.tools.testbed import bed, cluster

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(not os.environ.get("GANETI_CAMPAIGN"), reason="part of the campaign"),
]
NAME = "web1"
CONSOLE = f"/var/log/ganeti/kvm/{NAME}.serial.log"


@pytest.fixture(scope="module")
def kvm_bed(tmp_path_factory):
    layout = bed.up(tmp_path_factory.mktemp("kvm-disks").resolve(), 2, "kvm", watcher_interval_s=3600)
    try:
        cluster.create(layout)
        found = KvmBed(layout)
        disks = ("--disk", "0:size=512m", "--disk", "1:size=32m")
        found.run(
            *("gnt-instance", "add", "-t", "file", *disks, "-B", "memory=96", "--net", "0:", "-n", "node1"),
            *("-o", "heartbeat+default", NAME),
        )
        yield found
    finally:
        bed.down(layout)


def beats_on(bed: KvmBed, node: str) -> None:
    """The one guest is there and goes on; no node keeps anything of another."""
    bed.wait(lambda: bed.guests() == {NAME: [node]}, f"{NAME} runs on {node}")
    before = bed.run("wc", "-l", CONSOLE, node=node)
    bed.wait(lambda: bed.run("wc", "-l", CONSOLE, node=node) != before, "another beat")
    shown = bed.run("gnt-instance", "list", "--no-headers", "-o", "status,pnode", NAME).split()
    assert shown == ["running", node]


def images(bed: KvmBed, node: str) -> list[str]:
    return bed.run("sh", "-c", "find /srv/ganeti/file-storage -type f", node=node).split()


def test_a_killed_move_leaves_nothing_on_the_target(kvm_bed):
    job = kvm_bed.submit("gnt-instance", "move", "-f", "--live", "-n", "node2", NAME)
    kvm_bed.wait(lambda: "copying the disks" in kvm_bed.run("gnt-job", "info", str(job)), "the copying")
    kvm_bed.run("gnt-job", "cancel", "--kill", "--yes-do-it", str(job))
    kvm_bed.wait(lambda: kvm_bed.job_status(job) in ("error", "success"), "the job's end")
    there, other = ("node1", "node2") if kvm_bed.job_status(job) == "error" else ("node2", "node1")
    beats_on(kvm_bed, there)
    assert (len(images(kvm_bed, there)), images(kvm_bed, other)) == (2, [])


def test_it_moves_there_and_back_with_its_disks(kvm_bed):
    for command in (("move", "--live"), ("migrate", "--move-disks")):
        there, other = "node2", "node1"
        if kvm_bed.guests() == {NAME: ["node2"]}:
            there, other = other, there
        kvm_bed.run("gnt-instance", *command, "-f", "-n", there, NAME)
        beats_on(kvm_bed, there)
        assert (len(images(kvm_bed, there)), images(kvm_bed, other)) == (2, [])


def test_all_its_disks_get_another_template(kvm_bed):
    (there,) = kvm_bed.guests()[NAME]
    other = "node2" if there == "node1" else "node1"
    for template, *more in (("sharedfile",), ("mirror", "-n", other), ("file",)):
        kvm_bed.run("gnt-instance", "modify", "-t", template, *more, NAME)
        beats_on(kvm_bed, there)
        assert template in kvm_bed.run("gnt-instance", "list", "--no-headers", "-o", "disk_template", NAME)
    assert (len(images(kvm_bed, there)), images(kvm_bed, other)) == (2, [])
    assert "ERROR" not in kvm_bed.run("gnt-cluster", "verify", expect=None)
