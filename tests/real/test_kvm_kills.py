# SPDX-License-Identifier: BSD-2-Clause
"""Jobs on real QEMU guests are killed at sampled steps of add, migrate, failover and remove: done, or clean.

Eight steps, spread by a seed over the four operations (all of them with GANETI_CAMPAIGN). Afterwards there is exactly
one QEMU for each running instance, on its primary node, and no tap, socket, record, key, disk or image lock of another.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.system.fake_bed import FakeBed
from tests.system.killing import (
    NAME,
    carry_out,
    finish,
    have_no_instance,
    have_running_instance,
    kill_at,
    make_jobs_stop,
)

from ganeti.tools.testbed import bed, cluster, machine, processes

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")]
ADD = (
    *("gnt-instance", "add", "-t", "sharedfile", "--disk", "0:size=16m", "-B", "memory=96", "--net", "0:"),
    *("-o", "heartbeat+default", NAME),
)
MIGRATE = ("gnt-instance", "migrate", "-f", NAME)
FAILOVER = ("gnt-instance", "failover", "-f", "--shutdown-timeout=0", NAME)
REMOVE = ("gnt-instance", "remove", "-f", "--shutdown-timeout=0", NAME)
STEPS = {ADD: 27, MIGRATE: 24, FAILOVER: 18, REMOVE: 14}
"""About how often each job stops; a number beyond its end lets it run through."""
SAMPLES = 8
SEED = 2026


class KvmBed(FakeBed):
    def guests(self) -> dict[str, list[str]]:
        """QEMU processes by instance; also asserts that each node has files and taps of its own guests only."""
        found: dict[str, list[str]] = {}
        for node in self.layout.nodes:
            init = machine.running_pid(self.layout, node)
            names = []
            for pid in processes.in_namespace("pid", Path(f"/proc/{init}/ns/pid")):
                try:
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                except FileNotFoundError:  # it has ended meanwhile
                    continue
                if b"-name" in words and b"-pidfile" in words:
                    names.append(words[words.index(b"-name") + 1].decode().removeprefix("guest=").partition(",")[0])
            for name in names:
                found.setdefault(name, []).append(node.name)
            files = self.run(
                *("sh", "-c", "cd /run/ganeti/kvm-hypervisor 2>/dev/null && ls pid ctrl conf nic keys chroot || true"),
                node=node.name,
            )
            owners = {line.partition(".")[0] for line in files.split() if not line.endswith(":")}
            assert owners <= set(names), f"{node.name} keeps files of {owners - set(names)}: {files}"
            links = self.run("sh", "-c", "grep -l . /sys/class/net/*/tun_flags 2>/dev/null || true", node=node.name)
            assert len(links.split()) == len(names), f"{node.name} has the taps {links} for the guests {names}"
        return found


@pytest.fixture(scope="module")
def kvm_bed(tmp_path_factory):
    layout = bed.up(tmp_path_factory.mktemp("kvm-kills").resolve(), 3, "kvm", watcher_interval_s=3600)
    try:
        cluster.create(layout)
        found = KvmBed(layout)
        make_jobs_stop(found)
        yield found
    finally:
        bed.down(layout)


def samples() -> list[tuple[tuple[str, ...], int]]:
    every = [(words, stop) for words, stops in STEPS.items() for stop in range(1, stops + 1)]
    return every if os.environ.get("GANETI_CAMPAIGN") else random.Random(SEED).sample(every, SAMPLES)


def test_killed_at_sampled_steps(kvm_bed):
    outcomes = []
    for words, stop in samples():
        if words is ADD:
            have_no_instance(kvm_bed)
        else:
            have_running_instance(kvm_bed, ADD)
        kvm_bed.check()
        job = kvm_bed.submit(*words)
        killed = kill_at(kvm_bed, job, stop)
        print(words[1], stop, killed)  # shown when a check fails
        outcomes.append((words[1], stop, killed, finish(kvm_bed, job)))
        kvm_bed.check()
    assert sum(killed for _, _, killed, _ in outcomes) >= len(outcomes) // 2, outcomes
    have_running_instance(kvm_bed, ADD)
    carry_out(kvm_bed, *REMOVE)
    kvm_bed.check()
