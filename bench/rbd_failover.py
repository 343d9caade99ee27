# SPDX-License-Identifier: BSD-2-Clause
"""How long a guest on an image of Ceph writes nothing when its node is lost: from the administrator's first command.

Three nodes and a Ceph cluster in memory; the guest boots under emulation. Its node is cut off and its QEMU hangs; then
`gnt-node modify --offline=yes`, `gnt-instance failover`, which shuts the old client out and breaks its lock. Bar: 15 s
to the first beat that the guest has written on the other node. What the old client writes afterwards is refused, or the
figure is none. Ceph's programs are fetched where they are not installed (`setup/ceph-packages`).

    bench/rbd_failover.py [TIMES]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import precedence, report
from tests.fakes import ceph_cluster
from tests.system import ceph_bed
from tests.system.ceph_bed import CephBed

from ganeti.tools.testbed import watching
from ganeti.tools.testbed.watching import Watch

BAR_S = 15.0


def lose_node(bed: CephBed, watch: Watch, source: str, target: str) -> tuple[float, float]:
    """Give the seconds to the end of the commands, and to the first beat; the node is well again afterwards."""
    with bed.cut_off(source):
        taken: tuple[float, float] = bed.fail_over(watch, source, target)
    bed.wait(lambda: bed.refused(source, target), f"what the guest writes on {source} is refused")
    bed.come_back(source)
    return taken


def main(times: int) -> None:
    if reason := ceph_cluster.why_not():
        print(f"no figure of failover on Ceph: {reason}")
        return
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as directory,
        precedence(),
        ceph_bed.opened(Path(directory)) as bed,
        watching.watching(bed.layout, []) as watch,
    ):
        bed.add_guest(watch, "node2")
        sides = ("node2", "node3")
        taken = [lose_node(bed, watch, sides[number % 2], sides[1 - number % 2]) for number in range(times)]
        bed.remove_guest()
    started_s, written_s = (list(values) for values in zip(*taken, strict=True))
    report("failover on Ceph to a started guest, p50", statistics.median(started_s), "s")
    worst_s = max(written_s)
    report("failover on Ceph to the first write elsewhere, p50", statistics.median(written_s), "s")
    report(f"the same, worst of {times}", worst_s, "s", bar=f"{BAR_S:g} s", met=worst_s <= BAR_S)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 4)
