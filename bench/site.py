# SPDX-License-Identifier: BSD-2-Clause
"""A whole site by hand: long lists, verification, help, and a node emptied (issue of the commands).

    bench/site.py [list] [help] [verify] [evacuate]

`list` is a master with 20,000 instances and no node that answers. `verify` and `evacuate` are a cluster of three fake
nodes with 200 instances, 50 of them mirrored by shared files on node2; where the peer is up and holds the same
(`inst1` to `inst200`), it does the same work in the same run.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from config_change import JOB_ID, filled
from large_queue import ask, stalls
from measure import BIN, Cost, median, peer, peer_command, precedence, repeat, report, run, testbed
from tests.fakes.master_daemons import Master

from ganeti.calls.wconfd_client import JobOwner, WConfdClient
from ganeti.master.operations.cluster.set_params import ChangeCluster
from ganeti.system.livelock import LiveLock, job_lock_path

INSTANCES = 20_000
STALL_MS = 100.0
LIVE: tuple[tuple[str, str, list[str], Any], ...] = (
    ("list of all with their status", "instance", ["name", "pnode", "status", "oper_ram"], None),
    ("the status of one", "instance", ["name", "status"], ["=", "name", "instance00007"]),
    ("list of nodes", "node", ["name", "mfree", "pinst_cnt", "sinst_cnt"], None),
    ("list of groups", "group", ["name", "node_cnt", "pinst_cnt"], None),
)
"""What may keep other clients waiting: lists for which nodes are asked, or that count instances."""
ON_NODES = 200
MIRRORED = 50
TIMES = 5
CHANGES: tuple[tuple[str, dict[str, list[Any]], float], ...] = (
    ("the size of the candidate pool, at once", {"candidate_pool_size": [5, 6]}, 0.0),
    ("backend parameters, 2 s later", {"beparams": [{"default": {"vcpus": 1}}, {"default": {"vcpus": 2}}]}, 2.0),
    ("backend parameters, at once", {"beparams": [{"default": {"vcpus": 1}}, {"default": {"vcpus": 2}}]}, 0.0),
)
FIGURES = ("list", "help", "verify", "evacuate")
ASKED = [word for word in sys.argv[1:] if word in FIGURES] or FIGURES
PROGRAMS = (
    *("gnt-backup", "gnt-cluster", "gnt-debug", "gnt-filter", "gnt-group", "gnt-instance", "gnt-job"),
    *("gnt-network", "gnt-node", "gnt-os", "gnt-storage"),
)
_MANY_CPUS = ("gnt-cluster", "modify", "--ipolicy-vcpu-ratio", "1000")
"""All guests are on one machine's processors here; the peer needs it, too."""


def configured_fields() -> list[str]:
    """Every field of instances that the configuration has: without those of single disks, NICs and parameters, of
    which an answer would have more than its 64 MiB."""
    from ganeti.master.query.instances import INSTANCES as RESOURCE
    from ganeti.node.catalogue import build_catalogue

    return [
        field.name
        for field in RESOURCE.with_drivers(build_catalogue()).listed()
        if not field.live and "/" not in field.name and field.kind != "other"
    ]


def lists() -> None:
    with TemporaryDirectory(prefix="site-", dir="/var/tmp") as directory, precedence():
        master = Master(Path(directory) / "root")
        Path(master.paths.config_file).write_text(json.dumps(filled(INSTANCES)))
        try:
            master.start("wconfd")
            master.start("luxid")
            fields = configured_fields()
            ask(master.paths.luxi_socket, "Query", "instance", ["name"], None)
            taken_s = statistics.median(
                _timed(lambda: ask(master.paths.luxi_socket, "Query", "instance", fields, None)) for _ in range(TIMES)
            )
            _against(f"{INSTANCES} instances, {len(fields)} configured fields, over LUXI", taken_s, 0.3)
            for change, values, pause_s in CHANGES:
                taken_s = asyncio.run(_after(master, fields, values, pause_s))
                _against(f"the first such list after a change of the cluster: {change}", taken_s, 0.3)
            for what, resource, asked, only in LIVE:
                work = partial(ask, master.paths.luxi_socket, "Query", resource, asked, only)
                stalls(master, f"{INSTANCES} instances, {what}", work, bar=STALL_MS)
            command = str(BIN / "gnt-instance"), "list"
            _against(
                f"gnt-instance list, {INSTANCES} instances, default fields",
                repeat(TIMES, lambda _: run(*command, env=master.environment)).wall_s,
                0.6,
            )
        finally:
            master.stop_all()


async def _after(master: Master, fields: list[str], values: dict[str, list[Any]], pause_s: float) -> float:
    """Seconds that the first list takes, *pause_s* after a change of the cluster; the median of several changes.

    *values* has attributes of the cluster, each with two values that take turns.
    """
    lock = LiveLock(job_lock_path(master.paths.livelock_dir, JOB_ID, 1))
    client = WConfdClient(master.paths.wconfd_socket)
    owner = JobOwner(JOB_ID, lock.path, time.time_ns(), os.getpid())
    taken_s = []
    for step in range(1, TIMES + 1):
        change = ChangeCluster(values={name: both[step % 2] for name, both in values.items()})
        await client.commit(owner, step, change, False)
        await asyncio.sleep(pause_s)
        taken_s.append(_timed(lambda: ask(master.paths.luxi_socket, "Query", "instance", fields, None)))
    lock.close()
    return statistics.median(taken_s)


def helps() -> None:
    costs = {name: repeat(TIMES, lambda _, name=name: run(str(BIN / name), "--help")) for name in PROGRAMS}  # type: ignore[misc]
    name, cost = max(costs.items(), key=lambda each: each[1].cpu_s)

    bar_s = 0.04
    report(f"--help, the slowest program ({name}), CPU", cost.cpu_s, "s", bar=f"{bar_s} s", met=cost.cpu_s <= bar_s)


def site() -> None:
    with testbed("fake") as layout:
        _fill(layout)
        if "verify" in ASKED:
            ours = _worth([_on_master(layout, "gnt-cluster", "verify") for _ in range(TIMES)], layout)
            _beside(
                f"gnt-cluster verify, {ON_NODES} instances, 3 nodes", ours, _peer(3, "gnt-cluster", "verify"), 8, 1.0
            )
        if "evacuate" in ASKED:
            command = ("gnt-node", "evacuate", "-f", "-p", "-I", "hail", "node2")
            ours = _worth([_on_master(layout, *command)], layout)
            left = _text(layout, "gnt-node", "list", "--no-headers", "-o", "pinst_cnt", "node2").strip()
            if left != "0":
                sys.exit(f"{left} instances are still on node2")
            _beside(f"evacuation of a node with {MIRRORED} instances", ours, _peer(1, *command), 10, None)


def _fill(layout: Any) -> None:
    mirrored = {"disk_template": "sharedfile", "disks": [{"size": 1}], "pnode": "node2", "beparams": {"memory": 64}}
    others = {"disk_template": "diskless", "disks": [], "beparams": {"memory": 16}}
    common = {"os_type": "noop+default", "nics": []}
    batch = [
        common
        | (mirrored if number <= MIRRORED else others | {"pnode": f"node{1 + 2 * (number % 2)}"})
        | {"instance_name": f"inst{number}"}
        for number in range(1, ON_NODES + 1)
    ]
    (layout.node("node1").upper / "root").mkdir(exist_ok=True)
    (layout.node("node1").upper / "root/batch.json").write_text(json.dumps(batch))
    _on_master(layout, *_MANY_CPUS)
    _on_master(layout, "gnt-instance", "batch-create", "/root/batch.json")


def _on_master(layout: Any, *command: str) -> Cost:
    from ganeti.tools.testbed import machine

    return run(*machine.command_line(layout, "node1", command))


def _text(layout: Any, *command: str) -> str:
    from ganeti.tools.testbed import machine

    return machine.run(layout, "node1", *command).stdout


def _worth(costs: list[Cost], layout: Any) -> float:
    """Wall seconds, without those of entering the machine."""
    return median(costs).wall_s - median([_on_master(layout, "true") for _ in range(TIMES)]).wall_s


def _peer(times: int, *command: str) -> float | None:
    """The peer's wall seconds; None where it is not up. An exit status of its own is no reason to stop."""
    words = peer_command(*command)
    if words is None:
        return None
    found = peer(times, "sh", "-c", f"{' '.join(command)} || true")
    return found.wall_s if found else None


def _timed(work: Callable[[], Any]) -> float:
    began_s = time.monotonic()
    work()
    return time.monotonic() - began_s


def _against(figure: str, taken_s: float, bar_s: float) -> None:
    report(figure, taken_s, "s", bar=f"{bar_s} s", met=taken_s <= bar_s)


def _beside(figure: str, taken_s: float, peer_s: float | None, times: int, bar_s: float | None) -> None:
    met = None if peer_s is None else taken_s * times <= peer_s and (bar_s is None or taken_s <= bar_s)
    wanted = f"1/{times} of the peer" + (f", {bar_s} s" if bar_s else "")
    report(figure, taken_s, "s", peer=peer_s, bar=wanted, met=met)


def main() -> None:
    if "list" in ASKED:
        lists()
    if "help" in ASKED:
        helps()
    if {"verify", "evacuate"} & set(ASKED):
        site()


if __name__ == "__main__":
    main()
