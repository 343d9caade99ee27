# SPDX-License-Identifier: BSD-2-Clause
"""Live migration of a real guest under TLS: total time and longest gap in the replies to ping (bar: median 300 ms).

The guest (128 MiB, two heartbeats a second) goes round the nodes of a testbed; `python bench/migration.py 10` does so
ten times. With the word `mirror`, a second guest whose disk is mirrored moves between its two nodes in turn with the
first one: its gap is to be 60 ms longer at most. Software emulation where there is no KVM: compare ratios, not seconds.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass, field

from measure import report, testbed

TIMES = int(next((word for word in sys.argv[1:] if word.isdigit()), "8"))
TEMPLATES = ("sharedfile", *(word for word in sys.argv[1:] if word == "mirror"))
BOOTS_WITHIN_S = 90.0
SETTLED_S = 1.0


@dataclass
class Figures:
    """Of one guest's migrations."""

    name: str
    address: str
    totals_s: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    lost: int = 0


def main() -> None:
    from ganeti.tools.testbed import machine, watching

    guests = {
        template: Figures(f"inst{number}", f"10.78.0.{number}") for number, template in enumerate(TEMPLATES, start=1)
    }
    with (
        testbed("kvm") as layout,
        watching.watching(layout, [guest.address for guest in guests.values()]) as watch,
    ):

        def command(*words: str) -> None:
            done = machine.run(layout, "node1", *words)
            if done.returncode:
                sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")

        for template, guest in guests.items():
            words = ("-t", template, "-o", "heartbeat+default", "--disk", "0:size=64m", "-B", "memory=128")
            command(
                "gnt-instance", "add", *words, "-O", f"rate=2,ack={watching.ack(layout)}", "--net", "0:", guest.name
            )
            watch.wait_for_beat(guest.name, 0.0, BOOTS_WITHIN_S)
        for _ in range(TIMES):
            for guest in guests.values():
                began = time.monotonic()
                command("gnt-instance", "migrate", "-f", guest.name)
                ended = time.monotonic()
                watch.wait_for_beat(guest.name, ended + SETTLED_S, BOOTS_WITHIN_S)
                guest.totals_s.append(ended - began)
                guest.gaps_ms.append(watch.longest_gap_s(guest.address, began, ended + SETTLED_S) * 1000)
                guest.lost += watch.lost_beats(guest.name, began)
    for template, guest in guests.items():
        of = "migration" if template == TEMPLATES[0] else f"migration on {template}"
        report(f"{of}, {TIMES} times, total, median", statistics.median(guest.totals_s), "s")
        report(f"{of}, longest ping gap, median", statistics.median(guest.gaps_ms), "ms", bar="300 ms")
        report(f"{of}, longest ping gap, worst", max(guest.gaps_ms), "ms")
        report(f"{of}, lost heartbeats in all", float(guest.lost), "beats", bar="0")
    if len(guests) > 1:
        shared, mirrored = (statistics.median(guest.gaps_ms) for guest in guests.values())
        report("longest ping gap, mirror after shared file, medians", mirrored - shared, "ms", bar="60 ms")


if __name__ == "__main__":
    main()
