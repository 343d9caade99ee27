# SPDX-License-Identifier: BSD-2-Clause
"""`gnt-node add` over ssh, by its phases, beside the peer's where that is up; and how long a testbed's cluster takes.

    bench/node_add.py [add] [create]

`add` removes and adds node2 of three, and each time a node of the peer's next. Of each run: the dry run's job and the
job, as the queue has noted them, and the rest, which is the command itself and the set-up of the machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import peer, peer_command, report, testbed

TIMES = 5
PEER_NODE = "node3"
SIZES = (3, 5)
FIGURES = ("add", "create")
ASKED = [word for word in sys.argv[1:] if word in FIGURES] or FIGURES
ADD = ("gnt-node", "add", "--no-ssh-key-check", "node2")


def add() -> None:
    with testbed("fake") as layout:
        whole, dry, jobs, peers = [], [], [], []
        for _ in range(TIMES):
            _run(layout, "gnt-node", "remove", "node2")
            before_s = time.monotonic()
            _run(layout, *ADD)
            whole.append(time.monotonic() - before_s)
            spans = _job_spans(layout)
            dry.append(spans[-2])
            jobs.append(spans[-1])
            peers += _peer_s()
        rest = statistics.median(all_s - dry_s - job_s for all_s, dry_s, job_s in zip(whole, dry, jobs, strict=True))
        report("gnt-node add: the dry run's job", statistics.median(dry), "s")
        report("gnt-node add: its job", statistics.median(jobs), "s")
        report("gnt-node add: the command, the machine's set-up", rest, "s")
        taken_s = statistics.median(whole)
        peer_s = statistics.median(peers) if peers else None
        met = None if peer_s is None else taken_s * 3 <= peer_s
        report("gnt-node add, whole", taken_s, "s", peer=peer_s, bar="1/3 of the peer", met=met)


def create() -> None:
    from ganeti.tools.testbed import bed, cluster

    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory:
            layout = bed.up(Path(directory) / "bed", size, "fake", watcher_interval_s=86400)
            try:
                before_s = time.monotonic()
                cluster.create(layout)
                report(f"a testbed's cluster of {size} nodes", time.monotonic() - before_s, "s")
            finally:
                bed.down(layout)


def _run(layout: Any, *command: str) -> str:
    from ganeti.tools.testbed import machine

    done = machine.run(layout, "node1", *command)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _job_spans(layout: Any) -> list[float]:
    """Seconds from receipt to end of every job, in the order of their numbers."""
    listed = _run(layout, "gnt-job", "list", "--no-headers", "--separator=|", "-o", "id,received_ts,end_ts")
    rows = sorted((line.split("|") for line in listed.splitlines()), key=lambda row: int(row[0]))
    return [_seconds(end) - _seconds(received) for _, received, end in rows]


def _seconds(text: str) -> float:
    """Of a time as lists show it, within its hour."""
    minutes, seconds = text.split(":")[-2:]
    return int(minutes) * 60 + float(seconds)


def _peer_s() -> list[float]:
    """One of the peer's, where that is up."""
    if peer_command("gnt-node") is None:
        return []
    peer(1, "gnt-node", "remove", PEER_NODE)
    found = peer(1, "gnt-node", "add", "--no-ssh-key-check", PEER_NODE)
    return [found.wall_s] if found else []


def main() -> None:
    if "add" in ASKED:
        add()
    if "create" in ASKED:
        create()


if __name__ == "__main__":
    main()
