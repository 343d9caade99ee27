# SPDX-License-Identifier: BSD-2-Clause
"""A running guest's disks copied to others by block jobs of QEMU, and exchanged for them when both are equal.

While the jobs run, each write of the guest is complete when both disks have it. `hold` brings all of them to their
end, where the guest's writes wait for a moment, and `exchange` gives the guest the copies: between the two, disks and
copies are equal. A job is kept after its end until its outcome has been read, so a caller that asks again after
an interruption finds it.
"""

import errno
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.hotplug import MirrorProgress
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.hypervisors.kvm import disks, plugging, record, users
from ganeti.node.hypervisors.kvm.block_nodes import drop_node, set_number
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.record import DiskPlace, RuntimeRecord
from ganeti.ports.node_world import NodeWorld

_CONCLUDED = "concluded"
_PENDING = "pending"
_FULL = os.strerror(errno.ENOSPC)
_END_S = 60.0
_POLL_S = 0.05
_COPY = "m"
"""What the node of a copy is called after the disk; a copy of that has the disk's own name again."""


class DiskExchange:
    """Copies of a guest's disks; *known* is its record before."""

    def __init__(self, world: NodeWorld, places: Places, known: RuntimeRecord) -> None:
        self._world = world
        self._places = places
        self._known = known

    async def copy(self, targets: Sequence[AttachedDisk]) -> list[MirrorProgress]:
        """Begin to copy each disk to its target, or see how far that is; raises `HypervisorError` where it fails."""
        async with self._qmp() as qmp:
            return [await self._copy(qmp, place, target) for place, target in self._pairs(targets)]

    async def exchange(self, targets: Sequence[AttachedDisk]) -> None:
        """Have the guest use the targets alone, which are equal; raises `HypervisorError` where it keeps a disk."""
        async with self._qmp() as qmp:
            await self._hold(qmp, targets)
            for place, target in self._pairs(targets):
                if place.uuid != target.spec.uuid:
                    await self._exchange(qmp, place, target)

    async def hold(self, targets: Sequence[AttachedDisk]) -> None:
        """Let the guest's writes wait, all copies equal, until `exchange` or `give_up`; raises `HypervisorError`."""
        async with self._qmp() as qmp:
            await self._hold(qmp, targets)

    async def give_up(self) -> None:
        """End all copying; the guest keeps its disks."""
        async with self._qmp() as qmp:
            for place in self._known.disks:
                job = await _job(qmp, place)
                if job is not None:
                    if job["status"] != _CONCLUDED:
                        await qmp.execute("job-cancel", {"id": job["id"]})
                    await self._until(qmp, place, _CONCLUDED)
                    await qmp.execute("job-dismiss", {"id": job["id"]})
                if await _has_node(qmp, _other_node(place)):
                    await drop_node(self._world, qmp, _other_node(place))

    def _pairs(self, targets: Sequence[AttachedDisk]) -> list[tuple[DiskPlace, AttachedDisk]]:
        if len(targets) != len(self._known.disks):
            raise HypervisorError(
                f"{self._known.name} runs with {len(self._known.disks)} disks and cannot exchange {len(targets)}: "
                "start it again first"
            )
        return list(zip(self._known.disks, targets, strict=True))

    async def _copy(self, qmp: Qmp, place: DiskPlace, target: AttachedDisk) -> MirrorProgress:
        if place.uuid == target.spec.uuid:
            return MirrorProgress(index=target.spec.index, is_equal=True)
        if await _job(qmp, place) is None:
            await self._begin(qmp, place, target)
        job = await _job(qmp, place)
        if job is None or job.get("error"):
            error = job["error"] if job else "the job has gone"
            raise self._failure(target, "cannot be copied while it runs", error)
        return MirrorProgress(
            index=target.spec.index,
            is_equal=job["status"] == "ready",
            done_bytes=job["current-progress"],
            total_bytes=job["total-progress"],
        )

    async def _begin(self, qmp: Qmp, place: DiskPlace, target: AttachedDisk) -> None:
        name = _other_node(place)
        if await _has_node(qmp, name):
            await drop_node(self._world, qmp, name)
        cache = disks.cache_of(self._known, target, [])
        node = disks.block_node(self._known, target, cache, name)
        if target.blockdev is None:
            modes = disks.open_flags([os.O_RDONLY, os.O_RDWR], cache)
            what = f"Disk {target.spec.index}"
            node["file"]["filename"] = await plugging.hand_over(qmp, set_number(name), target.path, what, modes)
        else:
            users.let_guest_in(self._places, self._known, target)
        node["read-only"] = node["file"]["read-only"] = False
        await qmp.execute("blockdev-add", node)
        if target.blockdev is None and os.path.isfile(target.path):
            await _make_as_large(qmp, place.node_name, name)
        await qmp.execute(
            "blockdev-mirror",
            {"job-id": _job_id(place), "device": place.node_name, "target": name, "sync": "full"}
            | {"copy-mode": "write-blocking", "auto-dismiss": False, "auto-finalize": False},
        )

    async def _hold(self, qmp: Qmp, targets: Sequence[AttachedDisk]) -> None:
        pairs = [(place, target) for place, target in self._pairs(targets) if place.uuid != target.spec.uuid]
        for place, target in pairs:
            job = await _job(qmp, place)
            if job is None:
                raise HypervisorError(f"Disk {target.spec.index} of {self._known.name} is not being copied")
            if job["status"] == "ready":
                await qmp.execute("job-complete", {"id": job["id"]})
        for place, target in pairs:
            error = await self._until(qmp, place, _PENDING, _CONCLUDED)
            if error:
                raise self._failure(target, "could not be copied", error)

    async def _exchange(self, qmp: Qmp, place: DiskPlace, target: AttachedDisk) -> None:
        job = await _job(qmp, place)
        if job is None:
            raise HypervisorError(f"Disk {target.spec.index} of {self._known.name} is not being copied")
        if job["status"] == _PENDING:
            await qmp.execute("job-finalize", {"id": job["id"]})
        error = await self._until(qmp, place, _CONCLUDED)
        if error:
            raise self._failure(target, "could not be exchanged", error)
        changed = msgspec.structs.replace(place, uuid=target.spec.uuid, node=_other_node(place))
        places = [changed if one is place else one for one in self._known.disks]
        self._known = msgspec.structs.replace(self._known, disks=places)
        record.write(self._places, self._known)
        await qmp.execute("job-dismiss", {"id": job["id"]})
        await drop_node(self._world, qmp, place.node_name)

    async def _until(self, qmp: Qmp, place: DiskPlace, *states: str) -> str:
        """Wait until a job is in one of *states*; gives its error."""
        deadline = self._world.now_s() + _END_S
        while (job := await _job(qmp, place)) is not None and job["status"] not in states:
            if self._world.now_s() > deadline:
                raise HypervisorError(f"The copying of a disk of {self._known.name} does not end: try again")
            await self._world.sleep(_POLL_S)
        return str(job.get("error", "")) if job is not None else ""

    def _failure(self, target: AttachedDisk, what: str, error: str) -> HypervisorError:
        """The error of a job that copies to *target*, with the remedy where there is one."""
        remedy = ": make room there and try again" if _FULL in error else ""
        where = f" ({target.path})" if target.path else ""
        return HypervisorError(f"Disk {target.spec.index} of {self._known.name} {what}: {error}{where}{remedy}")

    def _qmp(self) -> Qmp:
        return Qmp(self._places.socket(self._known.name, "qmp"))


def _job_id(place: DiskPlace) -> str:
    return f"exchange-{place.identity}"


def _other_node(place: DiskPlace) -> str:
    return place.identity if place.node_name != place.identity else f"{place.identity}{_COPY}"


async def _job(qmp: Qmp, place: DiskPlace) -> dict[str, Any] | None:
    jobs = await qmp.execute("query-jobs")
    return next((job for job in jobs if job["id"] == _job_id(place)), None)


async def _make_as_large(qmp: Qmp, source: str, target: str) -> None:
    """A volume is made of whole extents, so it may be larger than the image that was made for its disk."""
    nodes = await qmp.execute("query-named-block-nodes", {"flat": True})
    sizes = {node["node-name"]: node["image"]["virtual-size"] for node in nodes if "image" in node}
    if sizes[target] < sizes[source]:
        await qmp.execute("block_resize", {"node-name": target, "size": sizes[source]})


async def _has_node(qmp: Qmp, name: str) -> bool:
    return any(node["node-name"] == name for node in await qmp.execute("query-named-block-nodes", {"flat": True}))
