# SPDX-License-Identifier: BSD-2-Clause
"""Disks of a running guest: unplugged and plugged until it has those that it should have.

QEMU gets a disk's file open, because it may see an empty directory only and be a user who may not open it. The
runtime record is written after each disk, as for NICs (`nic_changes`).
"""

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import AttachedDisk
from ganeti.node.hypervisors.kvm import devices, disks, plugging, record, released, removable, throttle, users
from ganeti.node.hypervisors.kvm.block_nodes import drop_node, set_number
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.record import DiskPlace, RuntimeRecord
from ganeti.ports.node_world import NodeWorld


def obstacle(known: RuntimeRecord) -> str:
    """Why this guest cannot be given disks, nor have them taken away, while it runs; empty when it can."""
    if known.is_adopted:
        return "it was started by an earlier Ganeti: stop it and start it again"
    kind, controller = known.hvparams["disk_type"], known.hvparams["scsi_controller_type"]
    if kind in disks.SCSI_TYPES:
        if controller == disks.SCSI_WITH_HOTPLUG:
            return ""
        return (
            f"a guest does not hear of disks on the controller {controller} that come and go: set "
            f"scsi_controller_type={disks.SCSI_WITH_HOTPLUG}, or disk_type=paravirtual"
        )
    if kind != "paravirtual":
        return f"disks of disk_type={kind} cannot come or go: set disk_type=paravirtual"
    if devices.Machine(known.machine).is_q35 and not known.disk_ports:
        return "it runs without ports for disks"
    return ""


class DiskChange:
    """One change of a guest's disks; *known* is its record before."""

    def __init__(self, world: NodeWorld, places: Places, known: RuntimeRecord) -> None:
        self._world = world
        self._places = places
        self._known = known

    async def run(self, wanted: Sequence[AttachedDisk]) -> None:
        """Make the guest's disks those *wanted*, in their order; raises `HypervisorError`."""
        order = [disk.spec.uuid for disk in wanted]
        async with Qmp(self._places.socket(self._known.name, "qmp")) as qmp:
            await self._forget_released(qmp)
            had = {place.uuid for place in self._known.disks}
            leaving = [place for place in self._known.disks if place.uuid not in order]
            coming = [disk for disk in wanted if disk.spec.uuid not in had]
            if leaving or coming:
                await self._check(qmp)
            for place in leaving:
                await self._unplug(qmp, place)
                self._note([one for one in self._known.disks if one is not place])
            for disk in coming:
                place = await self._plug(qmp, disk)
                self._note([*self._known.disks, place])
            self._note(sorted(self._known.disks, key=lambda place: order.index(place.uuid)))

    async def _check(self, qmp: Qmp) -> None:
        reason = obstacle(self._known)
        if reason:
            raise HypervisorError(f"The disks of {self._known.name} cannot change while it runs: {reason}")
        if self._known.hvparams["disk_type"] == "paravirtual" and not self._known.disk_ports:
            await plugging.check_slots(qmp, self._known)

    async def _forget_released(self, qmp: Qmp) -> None:
        """A guest may have let go of a disk by itself, or after nobody waited for it any more."""
        there = await plugging.there(qmp)
        for place in self._known.disks:
            if place.identity not in there:
                await drop_node(self._world, qmp, place.node_name)
                self._note([one for one in self._known.disks if one is not place])

    async def _plug(self, qmp: Qmp, disk: AttachedDisk) -> DiskPlace:
        place = self._free_place(disk)
        remarks: list[str] = []
        cache = disks.cache_of(self._known, disk, remarks)
        for remark in remarks:
            self._world.log(f"instance {self._known.name}: {remark}")
        node = disks.block_node(self._known, disk, cache, place.node_name)
        await drop_node(self._world, qmp, place.node_name)  # of a change that was interrupted here
        if disk.blockdev is None:
            modes = [os.O_RDONLY] if disk.spec.mode == "ro" else [os.O_RDONLY, os.O_RDWR]
            modes = disks.open_flags(modes, cache)
            number = set_number(place.node_name)
            node["file"]["filename"] = await plugging.hand_over(
                qmp, number, disk.path, f"Disk {disk.spec.index}", modes
            )
        else:
            users.let_guest_in(self._places, self._known, disk)
        try:
            await qmp.execute("blockdev-add", node)
            await qmp.execute("device_add", disks.device(self._known, place, cache))
            await throttle.begin(qmp, self._known, [place])
        except BaseException:
            await drop_node(self._world, qmp, place.node_name)
            raise
        return place

    def _free_place(self, disk: AttachedDisk) -> DiskPlace:
        identity = _first_free("disk", {place.identity for place in self._known.disks})
        return DiskPlace(uuid=disk.spec.uuid, identity=identity, options=self._free_options())

    def _free_options(self) -> dict[str, Any]:
        taken = [place.options for place in self._known.disks]
        if self._known.hvparams["disk_type"] in disks.SCSI_TYPES:
            return disks.free_scsi_place(removable.placed(self._known))
        if self._known.disk_ports:
            numbers = range(len(taken) + 1)
            return next(one for number in numbers if (one := disks.port_place(self._known, number)) not in taken)
        return plugging.free_slot(self._known)

    async def _unplug(self, qmp: Qmp, place: DiskPlace) -> None:
        position = [one.uuid for one in self._known.disks].index(place.uuid)
        cache = disks.Cache(direct=False, through=await plugging.writes_through(qmp, place.identity))
        self._known = released.expect(self._places, self._known, disks.device(self._known, place, cache))
        await plugging.unplug(qmp, self._known, place.identity, f"disk {position}")
        await drop_node(self._world, qmp, place.node_name)

    def _note(self, places: Sequence[DiskPlace]) -> None:
        """The places of NICs are written too: a start would put them after the disks."""
        nics = devices.nic_places(self._known)
        gone = {place.identity for place in self._known.disks} - {place.identity for place in places}
        known = msgspec.structs.replace(self._known, disks=list(places), nic_places=nics)
        self._known = released.without(known, gone)
        record.write(self._places, self._known)


def _first_free(word: str, taken: set[str]) -> str:
    return next(name for number in range(len(taken) + 1) if (name := f"{word}{number}") not in taken)
