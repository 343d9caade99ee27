# SPDX-License-Identifier: BSD-2-Clause
"""How many processors each guest has kept busy in the last minutes."""

from collections.abc import Iterator
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import PERFORMANCE
from ganeti.wire.prometheus import GAUGE

_LOAD = "ganeti_instance_cpu_load"


def _samples(data: Any) -> Iterator[Sample]:
    for name, value in data.items():
        yield Sample(_LOAD, {"instance": name}, value)


@collector(
    *("inst-cpu-load", None, PERFORMANCE),
    metrics={_LOAD: (GAUGE, "Processors the guest has kept busy in the mean of the last ten minutes.")},
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    return node.guests_busy.growth()
