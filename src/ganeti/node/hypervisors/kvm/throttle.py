# SPDX-License-Identifier: BSD-2-Clause
"""Limits of what a guest reads and writes, for each of its disks alike (``disk_iops``, ``disk_bandwidth``).

QEMU holds a limit at the guest's device, so it stays when the disk behind it is exchanged, and counts nothing that a
copy reads. Bursts are not allowed for: a guest gets what the parameter says, second by second.
"""

from collections.abc import Sequence
from typing import Any

from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.record import DiskPlace, RuntimeRecord

PARAMETERS = ("disk_iops", "disk_bandwidth")
_MIB = 1024 * 1024


async def apply(qmp: Qmp, known: RuntimeRecord, places: Sequence[DiskPlace]) -> None:
    """Have the limits of *known* hold for the disks at *places*."""
    devices = [str(entry.get("qdev", "")) for entry in await qmp.execute("query-block")]
    for place in places:
        inside = f"/machine/peripheral/{place.identity}/"  # a paravirtual disk is a part of its PCI device
        device = next((each for each in devices if each == place.identity or each.startswith(inside)), place.identity)
        await qmp.execute("block_set_io_throttle", {"id": device, **_limits(known)})


async def begin(qmp: Qmp, known: RuntimeRecord, places: Sequence[DiskPlace]) -> None:
    """The same for disks that have none yet."""
    if any(known.hvparams.get(name) for name in PARAMETERS):
        await apply(qmp, known, places)


def _limits(known: RuntimeRecord) -> dict[str, Any]:
    bandwidth = int(known.hvparams.get("disk_bandwidth") or 0) * _MIB
    iops = int(known.hvparams.get("disk_iops") or 0)
    each_way = dict.fromkeys(("bps_rd", "bps_wr", "iops_rd", "iops_wr"), 0)
    return {"bps": bandwidth, "iops": iops, **each_way}
