# SPDX-License-Identifier: BSD-2-Clause
"""How much the disks of a node read and write: the kernel's table of them (protocols, 5)."""

from collections.abc import Iterator
from typing import Any

from ganeti.node.collectors.interface import Node, Sample, collector
from ganeti.node.collectors.report import PERFORMANCE, UnreadableError, text_of, whole
from ganeti.wire.prometheus import COUNTER

NAME, CATEGORY = "diskstats", "storage"
PLACE = "/proc/diskstats"
_COUNTERS = (
    *("readsNum", "mergedReads", "secRead", "timeRead"),
    *("writes", "mergedWrites", "secWritten", "timeWrite"),
    *("ios", "timeIO", "wIOmillis"),
)
_FIXED = 3
_SECTOR_BYTES = 512


def read(text: str) -> list[dict[str, Any]]:
    """The counters of each disk (times in ms, the rest counts); raises `UnreadableError`.

    Kernels since 4.18 add counters at the end of the line, which are left out: 3.1 knows eleven.
    """
    return [_disk(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _disk(number: int, fields: list[str]) -> dict[str, Any]:
    if len(fields) < _FIXED + len(_COUNTERS):
        raise UnreadableError(f"line {number} has {len(fields)} columns, not {_FIXED + len(_COUNTERS)} or more")
    major, minor, name, *rest = fields
    where = f"line {number}"
    counters = {key: whole(value, where) for key, value in zip(_COUNTERS, rest, strict=False)}
    return {"major": whole(major, where), "minor": whole(minor, where), "name": name, **counters}


def _samples(data: Any) -> Iterator[Sample]:
    for disk in data:
        device = {"device": disk["name"]}
        yield Sample("ganeti_disk_reads_total", device, disk["readsNum"])
        yield Sample("ganeti_disk_read_bytes_total", device, disk["secRead"] * _SECTOR_BYTES)
        yield Sample("ganeti_disk_writes_total", device, disk["writes"])
        yield Sample("ganeti_disk_written_bytes_total", device, disk["secWritten"] * _SECTOR_BYTES)


@collector(
    *(NAME, CATEGORY, PERFORMANCE),
    metrics={
        "ganeti_disk_reads_total": (COUNTER, "Reads that the disk has completed."),
        "ganeti_disk_read_bytes_total": (COUNTER, "Bytes read from the disk."),
        "ganeti_disk_writes_total": (COUNTER, "Writes that the disk has completed."),
        "ganeti_disk_written_bytes_total": (COUNTER, "Bytes written to the disk."),
    },
    samples=_samples,
)
async def _collect(node: Node) -> Any:
    return read(text_of(PLACE))
