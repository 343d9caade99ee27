# SPDX-License-Identifier: BSD-2-Clause
"""How much of the node's memory each guest has."""

from collections.abc import Iterator
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import PERFORMANCE
from ganeti.wire.prometheus import GAUGE

_RESIDENT = "ganeti_instance_resident_bytes"


def _samples(data: Any) -> Iterator[Sample]:
    for name, value in data.items():
        yield Sample(_RESIDENT, {"instance": name}, value)


@collector(
    *("kvm-inst-rss", None, PERFORMANCE),
    metrics={_RESIDENT: (GAUGE, "Memory of the node that the guest has.")},
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    return {guest.name: guest.resident_bytes for guest in await node.guests()}
