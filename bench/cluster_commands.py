# SPDX-License-Identifier: BSD-2-Clause
"""Commands on a cluster of three fake nodes: a trivial job, creating and listing instances, and what the daemons cost.

Prints the time to put the cluster up, wall and CPU (client and daemons together) of each command, the memory of each
daemon and the CPU the idle cluster uses (bar: 0.5 % of a core).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import Any

from measure import WATCHER_EVERY_S, Cost, cpu_s, peer, peer_command, processes, pss_mib, report, run, testbed
from measure import median as median_cost

INSTANCES = int(next((word for word in sys.argv[1:] if word.isdigit()), "20"))
LISTED = 200
IDLE_S = 30.0
DAEMON = re.compile(r"(ganeti-(?:noded|luxid|wconfd)|ganeti\.[a-z.]*spawner)")


def daemons_cpu_s(layout: Any) -> float:
    from ganeti.tools.testbed import machine

    return sum(cpu_s(pid) for node in layout.nodes for pid in processes(machine.running_pid(layout, node)))


def on_master(layout: Any, *command: str) -> Cost:
    from ganeti.tools.testbed import machine

    return run(*machine.command_line(layout, "node1", command))


def costs(layout: Any, times: int, command: Callable[[int], tuple[str, ...]]) -> tuple[Cost, float]:
    """(median of the client, CPU per run in the daemons)."""
    before = daemons_cpu_s(layout)
    found = [on_master(layout, *command(index)) for index in range(times)]
    return median_cost(found), (daemons_cpu_s(layout) - before) / times


def main() -> None:
    from ganeti.tools.testbed import machine

    started_s = time.monotonic()
    with testbed("fake") as layout:
        report("testbed with cluster of 3 nodes up, wall", time.monotonic() - started_s, "s")
        entering = median_cost([on_master(layout, "true") for _ in range(5)])
        on_master(layout, "gnt-debug", "delay", "0")

        job, daemons = costs(layout, 20, lambda _: ("gnt-debug", "delay", "0"))
        other = peer(3, "gnt-debug", "delay", "0.001")
        report(
            "trivial job, command to end, wall", job.wall_s - entering.wall_s, "s", peer=other.wall_s if other else None
        )
        report("trivial job, CPU of command", job.cpu_s - entering.cpu_s, "s", peer=other.cpu_s if other else None)
        report("trivial job, CPU of daemons and job", daemons, "s")

        words = ("-t", "diskless", "-o", "noop+default", "-B", "memory=64")
        add, daemons = costs(layout, INSTANCES, lambda n: ("gnt-instance", "add", *words, f"inst{n + 1}"))
        report("gnt-instance add (fake, placed by itself), wall", add.wall_s - entering.wall_s, "s", peer=peer_add())
        report("gnt-instance add, CPU of daemons and job", daemons, "s")

        listing, daemons = costs(layout, 10, lambda _: ("gnt-instance", "list", "--cache=off"))
        other = peer(3, "gnt-instance", "list")
        report(
            f"gnt-instance list ({INSTANCES} instances), wall",
            listing.wall_s - entering.wall_s,
            "s",
            peer=other.wall_s if other else None,
        )
        report("gnt-instance list, CPU of daemons", daemons, "s")

        for name in ("node1", "node2"):
            inside = processes(machine.running_pid(layout, layout.node(name)))
            for pid, command in sorted(inside.items()):
                if match := DAEMON.search(command):
                    report(f"PSS of {match[1]} on {name}", pss_mib(pid), "MiB")

        before, started_s = daemons_cpu_s(layout), time.monotonic()
        time.sleep(IDLE_S)
        share = (daemons_cpu_s(layout) - before) / (time.monotonic() - started_s) * 100
        watch = median_cost([on_master(layout, "ganeti-watcher") for _ in range(3)])
        report("one run of the watcher on the master, CPU", watch.cpu_s - entering.cpu_s, "s")
        watching = 3 * (watch.cpu_s - entering.cpu_s) / WATCHER_EVERY_S * 100
        report("idle cluster of 3 nodes, share of a core", share + watching, "%", bar="0.5 %")


def peer_add() -> float | None:
    """Creating and removing one instance on the peer: wall of the creation."""
    words = (
        "-t",
        "diskless",
        "-o",
        "noop+default",
        "--no-name-check",
        "--no-ip-check",
        "--no-nics",
        "-I",
        "hail",
        "inst900",
    )
    if peer_command("gnt-instance") is None:
        return None
    other = peer(1, "gnt-instance", "add", *words)
    peer(1, "gnt-instance", "remove", "-f", "inst900")
    return other.wall_s if other else None


if __name__ == "__main__":
    main()
