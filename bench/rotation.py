# SPDX-License-Identifier: BSD-2-Clause
"""Certificates, authority and ConfD's key renewed again and again while jobs call the nodes: what fails.

    bench/rotation.py [--every=SECONDS] [--for=SECONDS] [--json]

A testbed of three nodes. Two lines of jobs that call all nodes; a node daemon's log has a line
for each call it refuses. By default every 60 seconds for 10 minutes.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import report, testbed

from ganeti.tools.testbed import machine
from ganeti.tools.testbed.layout import Layout

LINES = 2
RENEW = ("gnt-cluster", "renew-crypto", "--force", "--new-cluster-certificate", "--new-confd-hmac-key")


def option(name: str, default_s: float) -> float:
    given = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith(f"--{name}=")]
    return float(given[-1]) if given else default_s


class Load:
    """Jobs one after the other until told to stop."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.stop = threading.Event()
        self.jobs, self.longest_s = 0, 0.0
        self.failures: list[str] = []

    def run(self) -> None:
        nodes = [word for node in self.layout.nodes for word in ("-n", node.name)]
        while not self.stop.is_set():
            begun_s = time.monotonic()
            done = machine.run(self.layout, "node1", "gnt-debug", "delay", *nodes, "0.05", timeout_s=300.0)
            self.longest_s = max(self.longest_s, time.monotonic() - begun_s)
            self.jobs += 1
            if done.returncode:
                self.failures.append(done.stdout + done.stderr)


def refusals(layout: Layout) -> int:
    logs = (node.upper / "var/log/ganeti/node-daemon.log" for node in layout.nodes)
    return sum(" refused: " in line for log in logs for line in log.read_text().splitlines())


def main() -> None:
    every_s, for_s = option("every", 60.0), option("for", 600.0)
    with testbed("fake") as layout:
        assert isinstance(layout, Layout)
        lines = [Load(layout) for _ in range(LINES)]
        threads = [threading.Thread(target=line.run) for line in lines]
        for thread in threads:
            thread.start()
        took_s, failed = [], 0
        end_s = time.monotonic() + for_s
        while time.monotonic() < end_s:
            begun_s = time.monotonic()
            done = machine.run(layout, "node1", *RENEW, timeout_s=300.0)
            took_s.append(time.monotonic() - begun_s)
            if done.returncode:
                failed += 1
                print(done.stdout + done.stderr, file=sys.stderr)
            time.sleep(max(0.0, min(begun_s + every_s, end_s) - time.monotonic()))
        for line in lines:
            line.stop.set()
        for thread in threads:
            thread.join()
        failures = [text for line in lines for text in line.failures]
        report("renewals", len(took_s), "")
        report("a renewal, longest", max(took_s), "s")
        report("jobs meanwhile", sum(line.jobs for line in lines), "")
        report("a job, longest", max(line.longest_s for line in lines), "s")
        report("renewals that failed", failed, "", bar="0", met=not failed)
        report("jobs that failed", len(failures), "", bar="0", met=not failures)
        report("calls that were refused", refusals(layout), "", bar="0", met=not refusals(layout))
        for text in failures[:3]:
            print(text, file=sys.stderr)


main()
