# SPDX-License-Identifier: BSD-2-Clause
"""A testbed cluster whose disks are images of a Ceph cluster at the hub, and a guest on one of them that writes a beat
to it four times a second."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fakes import ceph_cluster
from tests.fakes.ceph_cluster import Ceph
from tests.system.fake_bed import FakeBed

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import cluster, layout, machine, network, processes, watching
from ganeti.tools.testbed.layout import Layout
from ganeti.tools.testbed.watching import Watch

NAME = "inst1"
BEATS_PER_S = 4
LIMIT_S = 20.0
"""Within which a node ends a guest whose image another node has taken."""
_NO_CRON_S = 86400
_CONSOLE = "/var/log/ganeti/kvm/{}.serial.log"
_TEMPLATES = "diskless,rbd"


class CephBed(FakeBed):
    def __init__(self, bed: Layout, ceph: Ceph) -> None:
        super().__init__(bed)
        self.ceph = ceph
        for node in bed.nodes:
            self._give_ceph_to(node.name)
        templates = f"--enabled-disk-templates={_TEMPLATES}", f"--ipolicy-disk-templates={_TEMPLATES}"
        self.run(
            "gnt-cluster", "modify", *templates, "-D", f"rbd:pool=rbd,access=userspace,lost_lock_timeout={LIMIT_S:g}"
        )

    def _give_ceph_to(self, node: str) -> None:
        """The programs and libraries, as links, and where the cluster is."""
        if root := ceph_cluster.unpacked():
            self.run("cp", "-as", "--no-clobber", f"{root}/usr", "/", node=node)
        self.run("mkdir", "-p", "/etc/ceph", node=node)
        (self.root(node) / "etc/ceph/ceph.conf").write_text(self.ceph.for_clients)

    def root(self, node: str) -> Path:
        """The files of a node that is on."""
        return Path(f"/proc/{machine.running_pid(self.layout, self.layout.node(node))}/root")

    def add_guest(self, watch: Watch, node: str) -> None:
        """Make the instance, and wait until its guest has written a beat to its disk."""
        words = ("gnt-instance", "add", "-t", "rbd", "-o", "heartbeat+default", "--disk", "0:size=16m", "-n", node)
        hardware = ("-B", "memory=128,vcpus=1", "--net", "0:")
        begun_s = time.monotonic()
        self.run(*words, *hardware, "-O", f"rate={BEATS_PER_S},ack={watching.ack(self.layout)}", NAME)
        watch.wait_for_beat(NAME, begun_s, 60.0)

    def remove_guest(self) -> None:
        self.run("gnt-instance", "remove", "-f", "--shutdown-timeout=0", NAME)

    def emulator(self, node: str) -> int | None:
        """The process of the guest's QEMU on a node; None where there is none."""
        inside = Path(f"/proc/{machine.running_pid(self.layout, self.layout.node(node))}/ns/pid")
        for pid in processes.in_namespace("pid", inside):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"-name" in words and words[words.index(b"-name") + 1].startswith((NAME.encode(), b"guest=inst1")):
                    return pid
        return None

    def console(self, node: str) -> str:
        path = Path(f"{self.root(node)}{_CONSOLE.format(NAME)}")
        return path.read_text(errors="replace") if path.exists() else ""

    def told(self, node: str, word: str) -> list[int]:
        """The numbers that the guest printed after that word: HB for written beats, HB-FAIL for refused ones."""
        return [int(number) for number in re.findall(rf"^{word} (\d+)\r?$", self.console(node), re.MULTILINE)]

    def fail_over(self, watch: Watch, source: str, target: str) -> tuple[float, float]:
        """As an administrator does who knows that the node is lost, and while nothing that the old guest writes is
        acknowledged; gives the seconds until both commands have ended, and until the guest writes on the other node."""
        begun_s = time.monotonic()
        self.run("gnt-node", "modify", "--offline=yes", "--force", source)
        self.run("gnt-instance", "failover", "-f", "-n", target, NAME)
        started_s = time.monotonic()
        return started_s - begun_s, watch.wait_for_beat(NAME, started_s, 120.0)[0] - begun_s

    @contextlib.contextmanager
    def cut_off(self, node: str) -> Iterator[None]:
        """Meanwhile the node reaches neither the others nor the Ceph cluster, and its QEMU hangs."""
        pid = self.emulator(node)
        assert pid is not None, f"{NAME} does not run on {node}"
        os.kill(pid, signal.SIGSTOP)
        network.set_lan(self.layout, self.layout.node(node), up=False)
        try:
            yield
        finally:
            network.set_lan(self.layout, self.layout.node(node), up=True)
            os.kill(pid, signal.SIGCONT)

    def refused(self, old: str, new: str) -> bool:
        """Whether the guest on the old node has been told twice that it writes no more, or was ended by its node before
        that; until then it may be cut off.

        It has written nothing that the new one lacks.
        """
        life = self.console(old).rpartition("BOOTED-OK")[2]
        if len(re.findall(r"^HB-FAIL \d+", life, re.MULTILINE)) < 2 and self.emulator(old) is not None:
            return False
        assert self.told(old, "HB")[-1] <= self.told(new, "HB-RESUME")[-1], "the old guest wrote beside the new one"
        return True

    def come_back(self, node: str) -> None:
        """Wait until the node has ended the old guest by itself, then let it into the cluster again."""
        self.wait(lambda: self.emulator(node) is None, f"{node} ends the guest that it has lost", LIMIT_S + 10.0)
        told = self.run("cat", "/var/log/ganeti/node-daemon.log", node=node)
        assert f"instance {NAME} is ended on this node: node " in told
        self.run("gnt-node", "modify", "--offline=no", node)


@contextlib.contextmanager
def opened(directory: Path, nodes: int = 3) -> Iterator[CephBed]:
    """Nothing of either cluster is left afterwards."""
    (directory / "ceph").mkdir(parents=True)
    bed = testbed.up(directory / "bed", nodes, "kvm", watcher_interval_s=_NO_CRON_S)
    try:
        ceph = Ceph(directory / "ceph", layout.HUB_LAN_ADDRESS, network.in_hub(bed))
        try:
            cluster.create(bed)
            yield CephBed(bed, ceph)
        finally:
            ceph.close()
    finally:
        testbed.down(bed)
