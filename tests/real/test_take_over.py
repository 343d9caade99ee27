# SPDX-License-Identifier: BSD-2-Clause
"""A running cluster of Debian's Ganeti 3.0 with QEMU guests is taken over, used, and given back: no guest notices.

Follows docs/operator/coming-over.md step by step, with Debian's packages in the nodes of a testbed. Takes minutes, so
it is part of ``make campaign`` only (GANETI_CAMPAIGN, or GANETI_TAKE_OVER).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.thoroughness import CAMPAIGN

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import guest, machine, node_files, watching
from ganeti.tools.testbed.cluster import SMALL_GUESTS
from ganeti.tools.testbed.layout import Layout

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(not CAMPAIGN and not os.environ.get("GANETI_TAKE_OVER"), reason="takes minutes: make campaign"),
]
NODES = ("node1", "node2")
GUESTS = int(os.environ.get("GANETI_GUESTS", "2"))
PARAMETERS = {
    "kernel_path": f"{node_files.GUEST_BOOT}/vmlinuz",
    "initrd_path": f"{node_files.GUEST_BOOT}/initrd",
    "kernel_args": guest.KERNEL_ARGS,
    "root_path": "/dev/vda",
    "kvm_flag": "disabled",
    "kvm_path": "/usr/bin/qemu-system-x86_64",
}
INIT = (
    *("gnt-cluster", "init", "--no-etc-hosts", "--master-netdev", "eth0", "--master-netmask", "24"),
    *("--enabled-hypervisors", "kvm", "--enabled-disk-templates", "diskless,file,sharedfile"),
    *("--ipolicy-disk-templates", "diskless,file,sharedfile"),
    *("--file-storage-dir", node_files.FILE_STORAGE, "--shared-file-storage-dir", node_files.SHARED_FILE_STORAGE),
    *("-N", "mode=bridged,link=gnt-br0", "--ipolicy-bounds-specs", SMALL_GUESTS),
    *("-H", "kvm:" + ",".join(f"{name}={value}" for name, value in PARAMETERS.items()), "cluster"),
)
OS = """
mkdir -p /srv/ganeti/os/plain && cd /srv/ganeti/os/plain && echo 20 > ganeti_api_version
echo default > variants.list; : > parameters.list
for s in create import export rename verify; do printf '#!/bin/sh\\nexit 0\\n' > $s; chmod +x $s; done
"""
BEATS = 2 if GUESTS < 8 else 0.1
"""Beats a second: those of twenty guests under emulation would need a core of their own."""
PING_EVERY_S = 0.02 if GUESTS < 8 else 0.05
BOOTS_WITHIN_S = 300.0
QUIET_S = 20.0
GAP_S = float(os.environ.get("GANETI_GAP_S", "1.0"))
"""The longest time without an answer that is allowed where the cores are shared; the bar on a quiet machine is 0.1."""


def good(bed: Layout, *words: str, node: str = "node1", text: str | None = None) -> str:
    done = machine.run(bed, node, *words, timeout_s=300, text=text)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def names() -> list[str]:
    return [f"inst{number}" for number in range(1, GUESTS + 1)]


def address(number: int) -> str:
    return f"10.78.0.{number + 1}"


def node_of(number: int) -> str:
    return NODES[number % len(NODES)]


@pytest.fixture(scope="module")
def packages() -> list[Path]:
    fetched = subprocess.run([guest.tree() / "setup/peer-packages"], capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"Debian's packages cannot be had: {fetched.stderr.strip()}")
    return sorted(Path(fetched.stdout.strip()).glob("*.deb"))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("package")
    words = [sys.executable, str(guest.tree() / "setup/deb"), "--into", str(into)]
    return Path(subprocess.check_output(words, text=True).strip())


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory, packages: list[Path]) -> Iterator[Layout]:
    place = tmp_path_factory.mktemp("take-over").resolve() / "bed"
    made = testbed.up(place, 2, "kvm", watcher_interval_s=86400, package=packages[0], needed_by_package=packages[1:])
    try:
        for node in NODES:
            good(made, "sh", "-c", OS, node=node)
        good(made, *INIT)
        good(made, "gnt-node", "add", "--no-ssh-key-check", "node2", text="")
        for number, name in enumerate(names()):
            arguments = f"{guest.KERNEL_ARGS} hostname={name} addr={address(number)}/24 hb={BEATS}"
            good(
                made,
                *("gnt-instance", "add", "-t", "file", "-s", "64m", "-o", "plain+default", "-n", node_of(number)),
                *("-B", "memory=96M,vcpus=1", "--no-ip-check", "--no-name-check", "--no-install"),
                *("-H", f"kvm:kernel_args={arguments}", name),
            )
        good(made, "gnt-instance", "startup", "--force-multiple", *names())
        yield made
    finally:
        testbed.down(made)


class Pings:
    """What an observer on the guests' network sees: the longest time that a guest does not answer, step by step."""

    def __init__(self, watch: watching.Watch) -> None:
        self._watch = watch
        self._since_s = time.monotonic()
        self.gaps_s: dict[str, float] = {}

    def step(self, name: str) -> None:
        """End a step: note its longest gap over all guests, and print it."""
        until_s = time.monotonic()
        gaps = {who: self._watch.longest_gap_s(address(n), self._since_s, until_s) for n, who in enumerate(names())}
        worst = max(gaps, key=gaps.__getitem__)
        self.gaps_s[name] = gaps[worst]
        print(f"{name}: {until_s - self._since_s:.0f} s, longest gap {gaps[worst] * 1000:.0f} ms ({worst})", flush=True)
        self._since_s = until_s


def processes(bed: Layout) -> dict[str, str]:
    """(process id, start time) of each guest: another one would be a guest that was restarted."""
    found = {}
    for node in NODES:
        command = (
            "cd /run/ganeti/kvm-hypervisor/pid && for n in *; do echo $n $(cut -d' ' -f1,22 /proc/$(cat $n)/stat); done"
        )
        for line in good(bed, "sh", "-c", command, node=node).splitlines():
            name, _, rest = line.partition(" ")
            found[name] = f"{node} {rest}"
    return found


def remove_debian(bed: Layout) -> None:
    for node in NODES:
        good(bed, "/usr/lib/ganeti/daemon-util", "stop-all", node=node)
        good(bed, "rm", "/etc/ganeti/lib", node=node)


def states(bed: Layout) -> dict[str, str]:
    return {name: f"{rest[0]} {rest[1]}" for name, rest in rows(bed).items()}


def rows(bed: Layout) -> dict[str, list[str]]:
    """What the list says of each instance."""
    fields = "name,pnode,status,admin_state,os,hypervisor,disk_template,be/memory,be/vcpus,disk.sizes,nic.macs"
    words = ("--no-headers", "--separator=|", "-o", f"{fields},hv/kernel_args")
    said = good(bed, "gnt-instance", "list", *words).splitlines()
    return {name: rest for name, *rest in (row.split("|") for row in said if "|" in row)}


def wait_for_answers(bed: Layout) -> None:
    for number in range(GUESTS):
        asks = f"for i in $(seq 200); do busybox ping -c1 -W1 {address(number)} && exit; done; exit 1"
        good(bed, "sh", "-c", asks)


def test_over_and_back(bed: Layout, packages: list[Path], package: Path) -> None:
    for node in NODES:
        good(bed, "ip", "addr", "replace", f"10.78.0.20{node[-1]}/24", "dev", "gnt-br0", node=node)
    wait_for_answers(bed)
    before, wanted, listed = processes(bed), states(bed), rows(bed)
    assert set(before) == set(names())
    with watching.watching(bed, [address(number) for number in range(GUESTS)], PING_EVERY_S) as watch:
        pings = Pings(watch)
        over(bed, package, pings)
        assert rows(bed) == listed
        assert processes(bed) == before
        use(bed)
        pings.step("instances are modified")
        assert processes(bed) == before
        back(bed, packages, pings)
        assert processes(bed) == before
        assert states(bed) == wanted
        assert {name: row for name, row in rows(bed).items() if name != "inst1"} == {
            name: row for name, row in listed.items() if name != "inst1"
        }
        pings.step("the cluster of Ganeti 3.0")
        assert max(pings.gaps_s.values()) <= GAP_S, pings.gaps_s
    used_by_debian(bed)


def over(bed: Layout, package: Path, pings: Pings) -> None:
    time.sleep(QUIET_S)  # what is measured: how long guests do not answer while nothing happens
    pings.step("nothing happens")
    good(bed, "gnt-cluster", "verify", "-I", "ENODESETUP")  # a node of a testbed has no /proc/sysrq-trigger
    good(bed, "gnt-cluster", "queue", "drain")
    good(bed, "gnt-cluster", "watcher", "pause", "2h")
    pings.step("verify and drain of Ganeti 3.0")
    remove_debian(bed)
    pings.step("its daemons are stopped")
    refuse_mixed_nodes(bed, package)
    testbed.install(bed, package)
    pings.step("dpkg -i of our package")
    said = good(bed, "/usr/lib/ganeti/tools/take-over", "check")
    assert "Nothing was changed" in said and f"{(GUESTS + 1) // 2} guests run" in said
    pings.step("take-over check")
    said = good(bed, "/usr/lib/ganeti/tools/take-over", "begin")
    assert f"{GUESTS} guests run on: {', '.join(sorted(names()))}" in said
    pings.step("take-over begin")
    assert machine.run(bed, "node1", "/usr/lib/ganeti/tools/take-over", "begin").returncode == 1, "it is done already"
    good(bed, "gnt-cluster", "queue", "undrain")
    good(bed, "gnt-cluster", "verify")
    good(bed, "gnt-cluster", "watcher", "continue")
    pings.step("our verify")


def back(bed: Layout, packages: list[Path], pings: Pings) -> None:
    good(bed, "gnt-cluster", "queue", "drain")
    good(bed, "gnt-cluster", "watcher", "pause", "2h")
    assert "Nothing was changed" in good(bed, "/usr/lib/ganeti/tools/take-over", "back", "--dry-run")
    good(bed, "/usr/lib/ganeti/tools/take-over", "back")
    pings.step("take-over back")
    for node in NODES:
        good(bed, "dpkg", "--remove", "ganeti", node=node)
    testbed.install(bed, *packages)
    pings.step("dpkg -i of Ganeti 3.0")
    for node in reversed(NODES):
        good(bed, "/usr/lib/ganeti/ensure-dirs", "--full-run", node=node)
        good(bed, "/usr/lib/ganeti/daemon-util", "start-all", node=node)
    pings.step("its daemons are started")


def refuse_mixed_nodes(bed: Layout, package: Path) -> None:
    """This program on the master alone: refused with the node's name, and nothing is changed."""
    shutil.copyfile(package, bed.node("node1").disks / "alone.deb")
    good(bed, "dpkg", "--force-unsafe-io", "--force-confnew", "-Bi", f"{node_files.FILE_STORAGE}/alone.deb")
    config = good(bed, "cat", "/var/lib/ganeti/config.data")
    done = machine.run(bed, "node1", "/usr/lib/ganeti/tools/take-over", "begin")
    assert done.returncode == 1 and "node2 does not have this program" in done.stderr, done.stderr
    assert good(bed, "cat", "/var/lib/ganeti/config.data") == config
    done = machine.run(bed, "node1", "daemon-util", "start-all")
    assert done.returncode == 1 and "has the data of an earlier Ganeti" in done.stderr, done.stderr


def use(bed: Layout) -> None:
    """The guests are managed, not only listed: a NIC comes, a disk grows, a migration is refused with the reason."""
    good(bed, "gnt-instance", "modify", "--net", "add:ip=10.78.0.99", "inst1")
    good(bed, "gnt-instance", "grow-disk", "inst1", "0", "16m")
    assert "nic/1" in good(bed, "gnt-instance", "info", "inst1")


def used_by_debian(bed: Layout) -> None:
    """Ganeti 3.0 finds what has been changed meanwhile, in the running guest too."""
    good(bed, "gnt-cluster", "queue", "undrain")
    said = good(bed, "gnt-instance", "modify", "--hotplug", "--net", "1:remove", "inst1")
    assert "hotplug:done" in said, said
    assert "80M" in good(bed, "gnt-instance", "info", "inst1")
    good(bed, "gnt-instance", "shutdown", "--timeout", "1", "inst1")
    good(bed, "gnt-instance", "startup", "inst1")
    assert states(bed)["inst1"].endswith("running")
