# SPDX-License-Identifier: BSD-2-Clause
"""What is done with instances: a parameter changed, a batch created, all shown, a device added to a running guest.

Each command beside the peer's where a peer cluster is up. Hot-plug is measured on a real guest, from the call of the
hypervisor's driver to the moment at which the guest lists the device (it looks every 0.2 s).

    bench/instances.py [modify] [batch] [info] [hotplug]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from measure import Cost, counted, peer_command, peer_daemons_cpu_s, report, run, testbed
from measure import median as median_cost

PARTS = ("modify", "batch", "info", "hotplug")
TIMES = 10
PEER_TIMES = 3
BATCH = 100
PEER_BATCH = 10
SHOWN = 200
ROUNDS = 5
NEW = ("-t", "diskless", "-o", "noop+default", "-B", "memory=64", "--no-nics")
PEER_NEW = ("-t", "diskless", "-o", "noop+default", "--no-name-check", "--no-ip-check", "--no-nics", "-n", "node2")


class Ours:
    """Commands on the master of a testbed; the cost is that of the command and of all daemons and jobs."""

    def __init__(self, layout: Any, count_s: Callable[[], float]) -> None:
        self.layout = layout
        self._count_s = count_s
        self._entering = Cost(0.0, 0.0)
        self._entering = self.whole(TIMES, lambda _: ("true",))

    def run(self, *command: str, node: str = "node1") -> Cost:
        from ganeti.tools.testbed import machine

        return run(*machine.command_line(self.layout, node, command))

    def whole(self, times: int, command: Callable[[int], tuple[str, ...]]) -> Cost:
        before_s = self._count_s()
        found = median_cost([self.run(*command(number)) for number in range(times)])
        each_s = (self._count_s() - before_s) / times
        return Cost(found.wall_s - self._entering.wall_s, each_s - self._entering.cpu_s)


class Peer:
    """The same on the peer."""

    def whole(self, times: int, command: Callable[[int], tuple[str, ...]]) -> Cost:
        before = peer_daemons_cpu_s()
        found = median_cost([run(*(peer_command(*command(number)) or ())) for number in range(times)])
        return Cost(found.wall_s, found.cpu_s + (peer_daemons_cpu_s() - before) / times)


def ratio(figure: str, ours: float, theirs: float | None, bar: float) -> None:
    met = None if theirs is None else ours <= theirs * bar
    report(figure, ours, "s", peer=theirs, bar=f"{bar:g} of the peer", met=met)


def modify(ours: Ours, other: Peer | None) -> None:
    """Each side has done it once before: the peer's daemons have run for long, and ours import what is asked for."""
    ours.run("gnt-instance", "add", *NEW, "one")
    ours.run("gnt-instance", "modify", "-B", "vcpus=2", "one")
    cost = ours.whole(TIMES, lambda number: ("gnt-instance", "modify", "-B", f"vcpus={1 + number % 2}", "one"))
    theirs = None
    if other is not None:
        other.whole(1, lambda _: ("gnt-instance", "add", *PEER_NEW, "inst901"))
        other.whole(1, lambda _: ("gnt-instance", "modify", "-B", "vcpus=1", "inst901"))
        theirs = other.whole(
            PEER_TIMES, lambda number: ("gnt-instance", "modify", "-B", f"vcpus={2 - number % 2}", "inst901")
        )
        other.whole(1, lambda _: ("gnt-instance", "remove", "-f", "inst901"))
    ratio("gnt-instance modify of one parameter, wall", cost.wall_s, theirs.wall_s if theirs else None, 1 / 20)
    ratio("gnt-instance modify of one parameter, CPU", cost.cpu_s, theirs.cpu_s if theirs else None, 1 / 20)


def widen(ours: Ours) -> None:
    """Let each node have room for all, so that the placement does not end what is measured."""
    room = json.dumps({"cpu_total": 256, "memory_total": 65536, "memory_free": 60000})
    command = f"mkdir -p /run/ganeti/fake-hypervisor && echo '{room}' >/run/ganeti/fake-hypervisor/.capacity"
    for node in ours.layout.nodes:
        ours.run("sh", "-c", command, node=node.name)


def batch(ours: Ours, other: Peer | None) -> None:
    """Instances a second; the peer's are its single creations, which its batch does not beat."""
    wanted = [
        {"instance_name": f"many{number}", "disk_template": "diskless", "os_type": "noop+default"}
        for number in range(BATCH)
    ]
    extra = {"no_install": True, "start": False, "nics": [], "beparams": {"memory": 16}}
    text = json.dumps([each | extra for each in wanted])
    ours.run("sh", "-c", f"cat >/tmp/many.json <<'END'\n{text}\nEND")
    cost = ours.whole(1, lambda _: ("gnt-instance", "batch-create", "/tmp/many.json"))
    rate = BATCH / cost.wall_s
    theirs = None
    if other is not None:
        names = [f"inst{910 + number}" for number in range(PEER_BATCH)]
        each = other.whole(PEER_BATCH, lambda number: ("gnt-instance", "add", *PEER_NEW, names[number]))
        other.whole(1, lambda _: ("gnt-instance", "remove", "-f", names[0]))
        for name in names[1:]:
            run(*(peer_command("gnt-instance", "remove", "-f", name) or ()))
        theirs = 1 / each.wall_s
    met = None if theirs is None else rate >= 25 * theirs
    peer_text = "" if theirs is None else f" ({rate / theirs:.1f} times {theirs:.2f}/s)"
    report(f"batch creation of {BATCH}{peer_text}", rate, "instances/s", bar="25 times the peer", met=met)


def info(ours: Ours) -> None:
    listed = subprocess.run(
        _line(ours, "gnt-instance", "list", "--no-headers", "-o", "name"), capture_output=True, text=True, check=True
    )
    missing = SHOWN - len(listed.stdout.split())
    wanted = [
        {"instance_name": f"more{number}", "disk_template": "diskless", "os_type": "noop+default", "no_install": True}
        | {"start": False, "nics": [], "beparams": {"memory": 16}}
        for number in range(missing)
    ]
    ours.run("sh", "-c", f"cat >/tmp/more.json <<'END'\n{json.dumps(wanted)}\nEND")
    ours.run("gnt-instance", "batch-create", "/tmp/more.json")
    cost = ours.whole(3, lambda _: ("gnt-instance", "info", "--all"))
    report(f"gnt-instance info --all, {SHOWN} instances, CPU", cost.cpu_s, "s", bar="0.3 s", met=cost.cpu_s <= 0.3)


def _line(ours: Ours, *command: str) -> list[str]:
    from ganeti.tools.testbed import machine

    return machine.command_line(ours.layout, "node1", command)


def hotplug() -> None:
    from msgspec.structs import replace
    from tests.contract import hypervisor_world
    from tests.real import kvm_lab

    from ganeti.tools.testbed import guest

    with kvm_lab.opened(Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp")) / "lab", guest.ensure()) as lab:
        node, name = lab.nodes[0], "plug"
        spec = lab.instance(name)
        lab.start(node, spec)
        node.wait_console(name, r"^HB \d")
        kvm_lab.watch_devices(node, name)

        def seen_s(change: Callable[[], None], arrived: Callable[[tuple[str, ...]], bool]) -> float:
            begun_s = time.monotonic()
            change()
            kvm_lab.wait_until(lambda: arrived(kvm_lab.devices_seen(node, name)[-1]), "the device", step_s=0.005)
            return time.monotonic() - begun_s

        disk = replace(spec, disks=[*spec.disks, lab.disk(name, 1, 8).spec])
        nic = replace(spec, nics=[*spec.nics, hypervisor_world.nic(1, link=kvm_lab.BRIDGE)])

        def disks(wanted: Any) -> None:
            node.call("change_disks", spec=wanted, disks=kvm_lab.attached(wanted))

        times: dict[str, list[float]] = {"disk": [], "NIC": []}
        for _ in range(ROUNDS):
            times["disk"].append(seen_s(lambda: disks(disk), lambda seen: len(seen[2].split()) == 2))
            seen_s(lambda: disks(spec), lambda seen: len(seen[2].split()) == 1)
            times["NIC"].append(seen_s(lambda: node.call("change_nics", spec=nic), lambda seen: seen[1] == "2"))
            seen_s(lambda: node.call("change_nics", spec=spec), lambda seen: seen[1] == "1")
        for what, found in times.items():
            median_s = statistics.median(found)
            report(f"hot-add of a {what}, call to seen in the guest", median_s, "s", bar="1 s", met=median_s <= 1)


def main() -> None:
    parts = [word for word in sys.argv[1:] if word in PARTS] or list(PARTS)
    if set(parts) & {"modify", "batch", "info"}:
        with counted() as count_s, testbed("fake") as layout:
            ours = Ours(layout, count_s)
            widen(ours)
            other = Peer() if peer_command("gnt-instance") else None
            if "modify" in parts:
                modify(ours, other)
            if "batch" in parts:
                batch(ours, other)
            if "info" in parts:
                info(ours)
    if "hotplug" in parts:
        hotplug()


if __name__ == "__main__":
    main()
