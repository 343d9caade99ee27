# SPDX-License-Identifier: BSD-2-Clause
"""How long a cluster is without master: from the fail-over command to the first answered query on the new master.

Three nodes of the testbed with a few instances; gracefully, and after the master's plug was pulled. Bar: 3 s. The first
list that asks the nodes for live data waits for the one that is off, a second more: told beside it.

    bench/failover.py [TIMES]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import precedence, report
from tests.campaign.machines import Machines, machines

BAR_S = 3.0
INSTANCES = 10


def fill(bed: Machines) -> None:
    for number in range(INSTANCES):
        words = ("gnt-instance", "add", "-t", "diskless", "-o", "noop+default", "--no-start", "-n", "node1")
        bed.run("node1", *words, f"guest{number}")


def fail_over(bed: Machines, *, pulled: bool) -> tuple[float, float]:
    """Move on to the next node; gives the seconds until it answers, and until it has listed live data."""
    old = bed.master
    assert old is not None
    new = bed.names[(bed.names.index(old) + 1) % len(bed.names)]
    if pulled:
        bed.pull_plug(old)
    begun_s = time.monotonic()
    bed.become_master(new)
    bed.run(new, "gnt-instance", "list", "-o", "name,pnode,admin_state")
    answered_s = time.monotonic() - begun_s
    bed.run(new, "gnt-instance", "list")
    live_s = time.monotonic() - begun_s
    if pulled:
        bed.switch_on(old)
    bed.settle()
    return answered_s, live_s


def main(times: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory,
        precedence(),
        machines(Path(directory) / "bed") as bed,
    ):
        fill(bed)
        for what, pulled in (("by wish", False), ("plug pulled", True)):
            taken_s, live_s = zip(*(fail_over(bed, pulled=pulled) for _ in range(times)), strict=True)
            worst_s = max(taken_s)
            report(f"fail-over {what} to the first answered query, p50", statistics.median(taken_s), "s")
            report(f"fail-over {what} to the first list with live data, p50", statistics.median(live_s), "s")
            report(f"fail-over {what}, worst of {times}", worst_s, "s", bar=f"{BAR_S:g} s", met=worst_s <= BAR_S)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 10)
