# SPDX-License-Identifier: BSD-2-Clause
"""A running cluster of Debian's Ganeti 3.0 with QEMU guests is taken over, used, and given back: no guest notices.

Follows docs/operator/coming-over.md step by step, with Debian's packages in the nodes of a testbed. Takes minutes, so
it is part of ``make campaign`` only (GANETI_CAMPAIGN, or GANETI_TAKE_OVER).
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.thoroughness import CAMPAIGN

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import guest, machine, node_files
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
PING_INTERVAL_S = 0.02
GAP_S = float(os.environ.get("GANETI_GAP_S", "1.0"))
"""The longest time without an answer that is allowed where the cores are shared; the bar on a quiet machine is 0.1."""


def good(bed: Layout, *words: str, node: str = "node1", text: str | None = None) -> str:
    done = machine.run(bed, node, *words, timeout_s=300, text=text)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def names() -> list[str]:
    return [f"inst{number}" for number in range(1, GUESTS + 1)]


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
            arguments = f"{guest.KERNEL_ARGS} hostname={name} addr=10.78.0.{number + 1}/24 hb=2"
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
    """An observer on the guests' network, who notes when each guest answers."""

    def __init__(self, bed: Layout) -> None:
        self._bed = bed
        self._pinging: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        for number in range(GUESTS):
            words = ("busybox", "ping", "-i", str(PING_INTERVAL_S), "-W", "30", f"10.78.0.{number + 1}")
            self._pinging.append(machine.popen(self._bed, "hub", *words))

    def longest_gap_s(self) -> float:
        """End the observation; the longest row of pings without an answer."""
        longest = 0
        for process in self._pinging:
            process.send_signal(2)
            out, _ = process.communicate(timeout=60)
            numbers = [int(number) for number in re.findall(r"seq=(\d+)", out)]
            assert len(numbers) > 10, out
            longest = max(longest, *(late - early for early, late in itertools.pairwise(numbers)))
        self._pinging = []
        return longest * PING_INTERVAL_S


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
    rows = good(bed, "gnt-instance", "list", "--no-headers", "--separator=|", "-o", "name,pnode,status").splitlines()
    return {name: f"{node} {status}" for name, node, status in (row.split("|") for row in rows if "|" in row)}


def wait_for_answers(bed: Layout) -> None:
    for number in range(GUESTS):
        good(
            bed, "sh", "-c", f"for i in $(seq 200); do busybox ping -c1 -W1 10.78.0.{number + 1} && exit; done; exit 1"
        )


def test_over_and_back(bed: Layout, packages: list[Path], package: Path) -> None:
    for node in NODES:
        good(bed, "ip", "addr", "replace", f"10.78.0.20{node[-1]}/24", "dev", "gnt-br0", node=node)
    wait_for_answers(bed)
    before, wanted = processes(bed), states(bed)
    assert set(before) == set(names())
    pings = Pings(bed)
    pings.start()

    good(bed, "gnt-cluster", "queue", "drain")
    good(bed, "gnt-cluster", "watcher", "pause", "2h")
    remove_debian(bed)
    refuse_mixed_nodes(bed, package)
    testbed.install(bed, package)
    said = good(bed, "/usr/lib/ganeti/tools/take-over", "check")
    assert "Nothing was changed" in said and f"{(GUESTS + 1) // 2} guests run" in said
    said = good(bed, "/usr/lib/ganeti/tools/take-over", "begin")
    assert f"{GUESTS} guests run on: {', '.join(sorted(names()))}" in said
    assert states(bed) == wanted
    assert machine.run(bed, "node1", "/usr/lib/ganeti/tools/take-over", "begin").returncode == 1, "it is done already"
    good(bed, "gnt-cluster", "queue", "undrain")
    good(bed, "gnt-cluster", "verify")
    assert processes(bed) == before

    use(bed)
    assert processes(bed) == before
    good(bed, "gnt-cluster", "queue", "drain")
    assert "Nothing was changed" in good(bed, "/usr/lib/ganeti/tools/take-over", "back", "--dry-run")
    good(bed, "/usr/lib/ganeti/tools/take-over", "back")
    for node in NODES:
        good(bed, "dpkg", "--remove", "ganeti", node=node)
    testbed.install(bed, *packages)
    for node in reversed(NODES):
        good(bed, "/usr/lib/ganeti/ensure-dirs", "--full-run", node=node)
        good(bed, "/usr/lib/ganeti/daemon-util", "start-all", node=node)
    assert processes(bed) == before
    assert states(bed) == wanted
    gap_s = pings.longest_gap_s()
    print(f"{GUESTS} guests over and back: longest time without an answer {gap_s:g} s")
    assert gap_s <= GAP_S
    used_by_debian(bed)


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
