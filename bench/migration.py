# SPDX-License-Identifier: BSD-2-Clause
"""Live migration of a real guest under TLS: total time and longest gap in the replies to ping (bar: median 300 ms).

The guest (128 MiB, two heartbeats a second) goes round the nodes of a testbed; `python bench/migration.py 10` does so
ten times. Software emulation where there is no KVM: compare ratios, not seconds.
"""

from __future__ import annotations

import statistics
import sys
import time

from measure import report, testbed

TIMES = int(next((word for word in sys.argv[1:] if word.isdigit()), "8"))
NAME, ADDRESS = "inst1", "10.78.0.1"
BOOTS_WITHIN_S = 90.0
SETTLED_S = 1.0


def main() -> None:
    from ganeti.tools.testbed import machine, watching

    totals, gaps, lost = [], [], 0
    with testbed("kvm") as layout, watching.watching(layout, [ADDRESS]) as watch:

        def command(*words: str) -> None:
            done = machine.run(layout, "node1", *words)
            if done.returncode:
                sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")

        words = ("-t", "sharedfile", "-o", "heartbeat+default", "--disk", "0:size=64m", "-B", "memory=128")
        command("gnt-instance", "add", *words, "-O", f"rate=2,ack={watching.ACK}", "--net", "0:", NAME)
        watch.wait_for_beat(NAME, 0.0, BOOTS_WITHIN_S)
        for _ in range(TIMES):
            began = time.monotonic()
            command("gnt-instance", "migrate", "-f", NAME)
            ended = time.monotonic()
            watch.wait_for_beat(NAME, ended + SETTLED_S, BOOTS_WITHIN_S)
            totals.append(ended - began)
            gaps.append(watch.longest_gap_s(ADDRESS, began, ended + SETTLED_S) * 1000)
            lost += watch.lost_beats(NAME, began)
    report(f"migration, {TIMES} times, total, median", statistics.median(totals), "s")
    report("migration, longest ping gap, median", statistics.median(gaps), "ms", bar="300 ms")
    report("migration, longest ping gap, worst", max(gaps), "ms")
    report("migration, lost heartbeats in all", float(lost), "beats", bar="0")


if __name__ == "__main__":
    main()
