# SPDX-License-Identifier: BSD-2-Clause
"""A running cluster of Debian's Ganeti 3.0 with QEMU guests is taken over, used, and given back: no guest notices.

Types the commands of docs/operator/coming-over.md as they stand there; testbed nodes have the packages of Debian.
Takes minutes, so it is part of ``make campaign`` only (GANETI_CAMPAIGN, or GANETI_TAKE_OVER).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes import bed_addresses
from tests.fakes.built_package import built_package
from tests.fakes.thoroughness import CAMPAIGN
from tests.real import coming_over_page as page

from ganeti.tools.testbed import bed as testbed
from ganeti.tools.testbed import guest, machine, node_files, watching
from ganeti.tools.testbed.cluster import SMALL_GUESTS
from ganeti.tools.testbed.layout import Layout

pytestmark = [
    pytest.mark.daemons,
    bed_addresses.of_ipv4_alone("the cluster that is taken over is one of IPv4"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(not CAMPAIGN and not os.environ.get("GANETI_TAKE_OVER"), reason="takes minutes: make campaign"),
]
NODES = ("node1", "node2")
OTHER = "node3"
"""A machine that has this program and no cluster."""
STOPPED = "kept"
"""An instance that is stopped, and exported by Ganeti 3.0."""
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
    return built_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory, packages: list[Path]) -> Iterator[Layout]:
    place = tmp_path_factory.mktemp("take-over").resolve() / "bed"
    made = testbed.up(
        place, 3, "kvm", watcher_interval_s=86400, package=packages[0], needed_by_package=packages[1:], ip="4"
    )
    try:
        to_every_machine(made, *packages)
        give_sources(made, packages)
        good(made, "bash", "-c", "rm /root/*.deb", node=OTHER)
        share_root_key(made)
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
        new = ("-t", "file", "-s", "16m", "-o", "plain+default", "-n", "node1", "-B", "memory=96M,vcpus=1")
        good(made, "gnt-instance", "add", *new, "--no-ip-check", "--no-name-check", "--no-start", STOPPED)
        good(made, "gnt-backup", "export", "-n", "node2", STOPPED)
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


def typed(bed: Layout, node: str, command: str, answer: str = "") -> str:
    """What an administrator sees who types this; asked, they say *answer*."""
    return good(bed, "bash", "-c", command, node=node, text=answer)


def take_step(bed: Layout, number: int, *, machines: tuple[str, ...] | None = None) -> str:
    """Type the commands of a step of the page where it says, one after another; gives all that was said."""
    step, said = page.steps()[number], ""
    where = {"master": NODES[:1], "every node": NODES, "every node, the master last": tuple(reversed(NODES))}
    for node in machines or where[step.machines]:
        for command in step.commands:
            said += typed(bed, node, command, answer="y\n" if "apt-get" in command else "")
    return said


def to_every_machine(bed: Layout, *packages: Path) -> None:
    """Put them where the page has them: root's home directory."""
    for node in (*NODES, OTHER):
        for package in packages:
            shutil.copyfile(package, bed.node(node).disks / package.name)
            good(bed, "mv", f"{node_files.FILE_STORAGE}/{package.name}", "/root/", node=node)


def give_sources(bed: Layout, packages: list[Path]) -> None:
    """What apt-get finds on a machine that may ask Debian's archive: its packages of Ganeti."""
    index = ""
    for package in packages:
        control = subprocess.check_output(["dpkg-deb", "-f", str(package)], text=True)
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        index += f"{control}Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n\n"
    source = "deb [trusted=yes] file:/srv/archive ./"
    lines = (
        "cd /srv/archive && mv /root/*.deb . && cat > Packages && rm -rf /etc/apt/sources.list*"
        f" && echo '{source}' > /etc/apt/sources.list && apt-get -o APT::Sandbox::User=root update"
    )
    for node in NODES:
        good(bed, "mkdir", "-p", "/srv/archive", node=node)
        good(bed, "bash", "-c", lines, node=node, text=index)


def share_root_key(bed: Layout) -> None:
    """The administrator of the other machine has a way to the master."""
    key = good(bed, "cat", "/root/.ssh/id_ed25519")
    good(bed, "bash", "-c", "umask 077 && cat > /root/.ssh/id_ed25519", node=OTHER, text=key)


def daemons_are_not_idle(bed: Layout) -> None:
    """No daemon goes on in the scheduling class that its package was unpacked in."""
    for node in NODES:
        for pid in good(bed, "bash", "-c", "cat /run/ganeti/*.pid", node=node).split():
            said = good(bed, "chrt", "-p", pid, node=node)
            assert "SCHED_OTHER" in said, said


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
    look_before(bed, package)
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
        back(bed, pings)
        assert processes(bed) == before
        assert states(bed) == wanted
        assert {name: row for name, row in rows(bed).items() if name != "inst1"} == {
            name: row for name, row in listed.items() if name != "inst1"
        }
        pings.step("the cluster of Ganeti 3.0")
        assert max(pings.gaps_s.values()) <= GAP_S, pings.gaps_s
    used_by_debian(bed)


def look_before(bed: Layout, package: Path) -> None:
    """The page's first section, on a machine that has this program and no cluster."""
    to_every_machine(bed, package)
    typed(bed, OTHER, f"rm /etc/ganeti/lib && dpkg -Bi {package.name}")
    said = [typed(bed, {"other": OTHER}.get(where, where), command) for where, command in page.before()]
    assert "a cluster of Ganeti 3.0" in said[1] and "What speaks against a take-over:\n  - nothing" in said[1], said[1]
    assert "What placement would say" in said[-1], said[-1]


def over(bed: Layout, package: Path, pings: Pings) -> None:
    time.sleep(QUIET_S)  # what is measured: how long guests do not answer while nothing happens
    pings.step("nothing happens")
    assert [page.steps()[1].commands, page.steps()[1].machines] == [("gnt-cluster verify",), "master"]
    good(bed, "gnt-cluster", "verify", "-I", "ENODESETUP")  # a node of a testbed has no /proc/sysrq-trigger
    take_step(bed, 2)
    pings.step("verify and drain of Ganeti 3.0")
    take_step(bed, 3, machines=NODES[:1])
    pings.step("our package on the master")
    refuse_mixed_nodes(bed)
    pings.step("mixed nodes are refused")
    take_step(bed, 3, machines=NODES[1:])
    pings.step("our package on the other node")
    said = take_step(bed, 4)
    assert "Nothing was changed" in said and f"{(GUESTS + 1) // 2} guests run" in said
    assert "there are exports in /var/lib/ganeti/export" in said, said
    pings.step("take-over check")
    said = take_step(bed, 5)
    assert f"{GUESTS} guests run on: {', '.join(sorted(names()))}" in said
    pings.step("take-over begin")
    assert machine.run(bed, "node1", "/usr/lib/ganeti/tools/take-over", "begin").returncode == 1, "it is done already"
    take_step(bed, 6)
    pings.step("our verify")
    for command in page.exports_over():
        typed(bed, "node2", command)
    assert STOPPED in good(bed, "gnt-backup", "list")
    daemons_are_not_idle(bed)
    pings.step("exports are moved")


def back(bed: Layout, pings: Pings) -> None:
    said = take_step(bed, 7)
    assert "Nothing was changed" in said
    pings.step("take-over back")
    take_step(bed, 8)
    pings.step("apt-get install of Ganeti 3.0, its daemons are started")
    daemons_are_not_idle(bed)


def refuse_mixed_nodes(bed: Layout) -> None:
    """This program on the master alone: refused with the node's name, and nothing is changed."""
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
    assert page.steps()[9].commands == (
        "gnt-cluster queue undrain",
        "gnt-cluster verify",
        "gnt-cluster watcher continue",
    )
    good(bed, "gnt-cluster", "queue", "undrain")
    good(bed, "gnt-cluster", "verify", "-I", "ENODESETUP")
    good(bed, "gnt-cluster", "watcher", "continue")
    for command in page.exports_over():
        ours, theirs = "/srv/ganeti/export", "/var/lib/ganeti/export"
        typed(bed, "node2", command.replace(ours, "HERE").replace(theirs, ours).replace("HERE", theirs))
    assert STOPPED in good(bed, "gnt-backup", "list")
    said = good(bed, "gnt-instance", "modify", "--hotplug", "--net", "1:remove", "inst1")
    assert "hotplug:done" in said, said
    assert "80M" in good(bed, "gnt-instance", "info", "inst1")
    good(bed, "gnt-instance", "shutdown", "--timeout", "1", "inst1")
    good(bed, "gnt-instance", "startup", "inst1")
    assert states(bed)["inst1"].endswith("running")
