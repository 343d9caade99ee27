# SPDX-License-Identifier: BSD-2-Clause
"""How busy the processors have been in the last minutes, each and all (protocols, 5)."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import PERFORMANCE, UnreadableError, whole
from ganeti.wire.prometheus import GAUGE

NAME, CATEGORY = "cpu-avg-load", None
PLACE = "/proc/stat"
SAMPLE_S = 5.0
_IDLE = (3, 4)
"""Idle, and waiting for disks."""
_GUEST = 8
"""From here on the kernel tells shares of the counters before."""


def busy_s(text: str) -> dict[str, float]:
    """Seconds that each processor has been busy since the machine was started, by ``cpu`` (all), ``cpu0`` and so on.

    Raises `UnreadableError`.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, *rest = line.split() or [""]
        if not name.startswith("cpu"):
            continue
        ticks = [whole(word, f"line {number}") for word in rest[:_GUEST]]
        busy = sum(tick for place, tick in enumerate(ticks) if place not in _IDLE)
        found[name] = busy / os.sysconf("SC_CLK_TCK")
    if "cpu" not in found:
        raise UnreadableError("nothing is said of processors")
    return found


def loads(growth: Mapping[str, float]) -> dict[str, Any]:
    """The data of the report: processors busy in the mean, each and all."""
    each = [growth[name] for name in growth if name != "cpu"]
    return {"cpu_number": len(each), "cpus": each, "cpu_total": growth.get("cpu", 0.0)}


def _samples(data: Any) -> Iterator[Sample]:
    yield Sample("ganeti_node_cpus", {}, data["cpu_number"])
    yield Sample("ganeti_node_cpu_load", {}, data["cpu_total"])


@collector(
    *(NAME, CATEGORY, PERFORMANCE),
    metrics={
        "ganeti_node_cpus": (GAUGE, "Processors of the node."),
        "ganeti_node_cpu_load": (GAUGE, "Processors busy in the mean of the last ten minutes."),
    },
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    return loads(node.busy.growth())
