# SPDX-License-Identifier: BSD-2-Clause
"""NICs of a running guest: unplugged and plugged until it has those that it should have.

The runtime record is written after each device, so a migration target always makes the machine as it is. Whatever was
interrupted is completed by the same change once more.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import NicSpec
from ganeti.node.hypervisors.kvm import devices, plugging, record, released, taps
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError
from ganeti.node.hypervisors.kvm.record import NicPlace, RuntimeRecord
from ganeti.ports.node_world import NodeWorld

_UUID_BEGINNING = 18
"""As much of a UUID as Ganeti 3.0 puts into the name of a device."""


def obstacle(known: RuntimeRecord) -> str:
    """Why this guest cannot be given NICs, nor have them taken away, while it runs; empty when it can."""
    if known.hvparams["nic_type"] in devices.NIC_WITHOUT_PCI:
        return f"NICs of nic_type={known.hvparams['nic_type']} cannot come or go: set nic_type=paravirtual"
    if devices.Machine(known.machine).is_q35 and not known.root_ports:
        return "it runs without ports for NICs"
    return ""


class NicChange:
    """One change of a guest's NICs; *known* is its record before."""

    def __init__(self, world: NodeWorld, places: Places, known: RuntimeRecord) -> None:
        self._world = world
        self._places = places
        self._known = known
        self._where = dict(devices.nic_places(known))

    async def run(self, wanted: Sequence[NicSpec]) -> None:
        """Make the guest's NICs those *wanted*, in their order; raises `HypervisorError`."""
        async with Qmp(self._places.socket(self._known.name, "qmp")) as qmp:
            await self._forget_released(qmp)
            await self._change(qmp, wanted)

    async def _change(self, qmp: Qmp, wanted: Sequence[NicSpec]) -> None:
        after = {nic.uuid: nic for nic in wanted}
        leaving = [nic for nic in self._known.nics if nic.uuid not in after or _differs(nic, after[nic.uuid])]
        staying = [nic for nic in self._known.nics if nic not in leaving]
        coming = [nic for nic in wanted if nic.uuid not in {one.uuid for one in staying}]
        if (leaving or coming) and (reason := obstacle(self._known)):
            raise HypervisorError(f"The NICs of {self._known.name} cannot change while it runs: {reason}")
        if (leaving or coming) and not self._known.root_ports:
            await plugging.check_slots(qmp, self._known)
        for nic in leaving:
            place = self._where[nic.uuid]
            device = _device(self._known, nic, place, taps.queues(self._known))
            self._known = released.expect(self._places, self._known, device)
            await self._take_away(qmp, nic, place)
            if nic.uuid not in after:
                del self._where[nic.uuid]
        taps.renumber(self._places, self._known.name, {nic.index: after[nic.uuid].index for nic in staying})
        self._note([after[nic.uuid] for nic in staying])
        for nic in coming:
            await self._plug(qmp, nic)
            self._note(sorted([*self._known.nics, nic], key=lambda one: one.index))

    async def _forget_released(self, qmp: Qmp) -> None:
        """A guest may have let go of a NIC after nobody waited for it any more."""
        for identity in set(self._known.leaving) - await plugging.there(qmp):
            for nic in self._known.nics:
                if (place := self._where[nic.uuid]).identity == identity:
                    await self._take_away(qmp, nic, place)

    async def _take_away(self, qmp: Qmp, nic: NicSpec, place: NicPlace) -> None:
        await self._unplug(qmp, place.identity, f"NIC {nic.index}")
        await taps.forget(self._world, self._places, self._known.name, nic.index)
        self._known = released.without(self._known, [place.identity])
        self._note([one for one in self._known.nics if one.uuid != nic.uuid])

    async def _plug(self, qmp: Qmp, nic: NicSpec) -> None:
        place = self._where.get(nic.uuid) or self._free_place(nic)
        await self._unplug(qmp, place.identity, f"NIC {nic.index}")  # of a change that was interrupted here
        tap = await taps.make(self._world, self._places, self._known, nic)
        try:
            names = [f"{place.identity}-{number}" for number in range(len(tap.descriptors))]
            for name, descriptor in zip(names, tap.descriptors, strict=True):
                await qmp.execute("getfd", {"fdname": name}, descriptor=descriptor)
            await qmp.execute("netdev_add", devices.nic_backend(self._known, place, names))
            try:
                await qmp.execute("device_add", _device(self._known, nic, place, len(names)))
            except QmpError:
                await qmp.execute("netdev_del", {"id": place.identity})
                raise
        except BaseException:
            await taps.forget(self._world, self._places, self._known.name, nic.index)
            raise
        finally:
            tap.close()
        self._where[nic.uuid] = place

    def _free_place(self, nic: NicSpec) -> NicPlace:
        used = {place.identity for place in self._where.values()}
        identity = next(name for number in range(len(used) + 1) if (name := f"nic{number}") not in used)
        if self._known.is_adopted:
            identity = f"nic-{nic.uuid[:_UUID_BEGINNING]}"
        if self._known.root_ports:
            buses = {place.bus for place in self._where.values()}
            ports = (devices.root_port(self._known, number) for number in range(len(buses) + 1))
            return NicPlace(identity=identity, bus=next(port for port in ports if port not in buses), addr="0x0")
        return NicPlace(identity=identity, **plugging.free_slot(self._known))

    async def _unplug(self, qmp: Qmp, identity: str, what: str) -> None:
        """Take a device and its tap away; one that is not there is no error."""
        await plugging.unplug(qmp, self._known, identity, what)
        try:
            await qmp.execute("netdev_del", {"id": identity})
        except QmpError as err:
            if err.error_class != "DeviceNotFound":
                raise

    def _note(self, nics: list[NicSpec]) -> None:
        self._known = msgspec.structs.replace(self._known, nics=nics, nic_places=dict(self._where))
        record.write(self._places, self._known)


def _device(known: RuntimeRecord, nic: NicSpec, place: NicPlace, queues: int) -> dict[str, Any]:
    """Options of a NIC that is plugged: the order of boot is fixed when the guest starts."""
    device = devices.nic_device(known, nic, place, queues)
    device.pop("bootindex", None)
    return device


def _differs(before: NicSpec, after: NicSpec) -> bool:
    """Whether the change concerns the device or its tap."""
    return any(getattr(before, name) != getattr(after, name) for name in ("mac", "mode", "link", "vlan", "ip"))
