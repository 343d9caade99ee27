# SPDX-License-Identifier: BSD-2-Clause
"""Memory and processors of this node, from /proc and /sys (protocols, section 6, "hv info")."""

import glob
import os
from collections.abc import Iterable

from ganeti.model.node_calls.node import NodeCapacity


def read_memory_mib() -> tuple[int, int]:
    """Give the total and the available memory."""
    values: dict[str, int] = {}
    with open("/proc/meminfo", encoding="ascii") as source:
        for line in source:
            name, _, rest = line.partition(":")
            values[name] = int(rest.split()[0])
    return values["MemTotal"] // 1024, values["MemAvailable"] // 1024


def capacity_of(guest_resident_mib: Iterable[int], version: list[int] | None) -> NodeCapacity:
    """What guests really use is neither free nor the node's own.

    The node's system runs on all processors, and is counted as such, as in 3.1: ratios of a policy are chosen by that.
    """
    total, free = read_memory_mib()
    processors = os.cpu_count() or 1
    return NodeCapacity(
        memory_total=total,
        memory_free=free,
        memory_dom0=max(0, total - free - sum(guest_resident_mib)),
        cpu_total=processors,
        cpu_nodes=max(1, len(glob.glob("/sys/devices/system/node/node[0-9]*"))),
        cpu_sockets=_sockets(),
        cpu_dom0=processors,
        hv_version=version,
    )


def _sockets() -> int:
    found = set()
    for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id"):
        with open(path, encoding="ascii") as source:
            found.add(source.read().strip())
    return max(1, len(found))
