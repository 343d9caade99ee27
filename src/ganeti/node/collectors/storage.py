# SPDX-License-Identifier: BSD-2-Clause
"""How full the file systems are that hold what the node daemon keeps: guests' files, and its own (protocols, 5)."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import PERFORMANCE
from ganeti.wire.prometheus import GAUGE

NAME, CATEGORY = "storage", "storage"


def read(places: Iterable[str]) -> list[dict[str, Any]]:
    """Sizes in bytes of the file system at each path that is there; *free* is what others than root may use."""
    found = []
    for place in dict.fromkeys(places):
        try:
            told = os.statvfs(place)
        except OSError:
            continue
        size, free = told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize
        found.append({"path": place, "size": size, "used": size - told.f_bfree * told.f_frsize, "free": free})
    return found


def _samples(data: Any) -> Iterator[Sample]:
    for place in data:
        yield Sample("ganeti_storage_size_bytes", {"path": place["path"]}, place["size"])
        yield Sample("ganeti_storage_free_bytes", {"path": place["path"]}, place["free"])


@collector(
    *(NAME, CATEGORY, PERFORMANCE),
    metrics={
        "ganeti_storage_size_bytes": (GAUGE, "Size of the file system that holds the directory."),
        "ganeti_storage_free_bytes": (GAUGE, "What is free of it."),
    },
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    return await node.probes.storage()
