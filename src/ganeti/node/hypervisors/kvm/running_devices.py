# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``kvm``: what of a guest changes while it runs."""

import contextlib
import os
import re
from collections.abc import Sequence

from ganeti.base.errors import HypervisorError
from ganeti.base.names import shown
from ganeti.model.node_calls.disk_transfer import DiskDoor
from ganeti.model.node_calls.hotplug import HotplugObstacles, MirrorProgress
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node.hypervisors.interface import RunningDevices, check_name
from ganeti.node.hypervisors.kvm import checks, disk_changes, disk_copies, nic_changes, process, record, removable
from ganeti.node.hypervisors.kvm.disk_exchange import DiskExchange
from ganeti.node.hypervisors.kvm.disk_transfer import DiskReceiver, DiskSender
from ganeti.node.hypervisors.kvm.frozen_view import KvmFrozenViews
from ganeti.node.hypervisors.kvm.live_parameters import ParameterChange
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.record import RuntimeRecord
from ganeti.node.hypervisors.kvm.snapshots import KvmSnapshots
from ganeti.ports.node_world import NodeWorld

_CONSOLE_BYTES = 64 * 1024
_SIGNS = re.compile(r"login:|^HB \d+", re.MULTILINE)
"""What no guest shows before it is up; ``Reached target`` and ``Welcome to`` come from an initrd, too."""


class KvmDevices(RunningDevices):
    def __init__(self, world: NodeWorld, places: Places) -> None:
        super().__init__("kvm")
        self._world = world
        self._places = places

    async def hotplug_obstacles(self, name: str) -> HotplugObstacles:
        found = self._changeable(name)
        if found is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        _, known = found
        reasons = {f"hv/{name}": removable.obstacle(known, name) for name in removable.CD_PARAMETERS}
        return HotplugObstacles(
            nics=nic_changes.obstacle(known),
            disks=disk_changes.obstacle(known),
            parameters={name: reason for name, reason in reasons.items() if reason},
        )

    async def change_nics(self, spec: InstanceSpec) -> None:
        found = self._changeable(spec.name)
        if found is not None:
            await nic_changes.NicChange(self._world, self._places, found[1]).run(record.nics_of(spec))

    async def change_disks(self, spec: InstanceSpec, disks: Sequence[AttachedDisk]) -> None:
        found = self._changeable(spec.name)
        if found is not None:
            await disk_changes.DiskChange(self._world, self._places, found[1]).run(disks)

    async def change_parameters(self, spec: InstanceSpec, names: Sequence[str]) -> list[str]:
        found = self._changeable(spec.name)
        if found is None:
            return []
        return await ParameterChange(self._world, self._places, *found).run(
            checks.filled(spec.hvparams), spec.beparams, names
        )

    async def sign_of_life(self, name: str, words: str) -> str:
        self._running(name)
        if await KvmSnapshots(self._places, self._running).answers(name):
            return "its agent answers"
        console = _end_of(self._places.serial_log(name))
        if words:
            return f"its console shows '{shown(words)}'" if words in console else ""
        found = _SIGNS.search(console)
        return f"its console shows '{shown(found[0])}'" if found else ""

    async def forget_signs(self, name: str) -> None:
        check_name(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._places.serial_log(name))

    def frozen_views(self) -> KvmFrozenViews:
        return KvmFrozenViews(self._world, self._places, self._running)

    async def copy_disks(self, name: str, paths: Sequence[str]) -> None:
        found = self._changeable(name)
        if found is None:
            raise HypervisorError(f"The instance {name} does not run on this node, so its disks are read as they are")
        await disk_copies.DiskCopies(self._world, self._places, found[1]).run(paths)

    async def end_copies(self, name: str) -> None:
        check_name(name)
        known = record.read(self._places, name)
        if process.find(self._places, name) is not None and known is not None:
            await disk_copies.DiskCopies(self._world, self._places, known).end()
        else:
            disk_copies.forget(self._places, name)

    async def mirror_disks(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> list[MirrorProgress]:
        return await self._copies(spec).copy(targets)

    async def hold_copies(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> None:
        await self._copies(spec).hold(targets)

    async def exchange_disks(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> None:
        await self._copies(spec).exchange(targets)

    async def give_up_exchange(self, spec: InstanceSpec) -> None:
        found = self._changeable(spec.name)
        if found is not None:
            await DiskExchange(self._world, self._places, found[1]).give_up()

    async def receive_disks(self, spec: InstanceSpec, address: str) -> DiskDoor:
        return await DiskReceiver(self._places, *self._required(spec.name)).open(address)

    async def disks_received(self, spec: InstanceSpec) -> None:
        await DiskReceiver(self._places, *self._required(spec.name)).close()

    async def send_disks(self, spec: InstanceSpec, door: DiskDoor) -> list[MirrorProgress]:
        if self._changeable(spec.name) is None:
            raise HypervisorError(f"The instance {spec.name} does not run on this node")
        return await self._sender(spec).send(len(spec.disks), door)

    async def hand_over_disks(self, spec: InstanceSpec) -> None:
        await self._sender(spec).hand_over()

    async def stop_sending(self, spec: InstanceSpec) -> None:
        if self._found(spec.name) is not None:
            await self._sender(spec).stop()

    def _sender(self, spec: InstanceSpec) -> DiskSender:
        return DiskSender(self._world, self._places, *self._required(spec.name))

    def _copies(self, spec: InstanceSpec) -> DiskExchange:
        found = self._changeable(spec.name)
        if found is None:
            raise HypervisorError(f"The instance {spec.name} does not run on this node")
        return DiskExchange(self._world, self._places, found[1])

    def _running(self, name: str) -> tuple[GuestProcess, RuntimeRecord]:
        check_name(name)
        guest, known = process.find(self._places, name), record.read(self._places, name)
        if guest is None or known is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        return guest, known

    def _changeable(self, name: str) -> tuple[GuestProcess, RuntimeRecord] | None:
        """A guest whose devices can change now, or None when it does not run."""
        found = self._found(name)
        if found is None:
            return None
        guest, known = found
        if not known.started or record.read_note(self._places, name) is not None:
            raise HypervisorError(f"{name} is in a migration or half started: end or cancel that first")
        return guest, known

    def _required(self, name: str) -> tuple[GuestProcess, RuntimeRecord]:
        found = self._found(name)
        if found is None:
            raise HypervisorError(f"The instance {name} does not run on this node")
        return found

    def _found(self, name: str) -> tuple[GuestProcess, RuntimeRecord] | None:
        check_name(name)
        guest = process.find(self._places, name)
        known = record.read(self._places, name)
        return None if guest is None or known is None else (guest, known)


def _end_of(path: str) -> str:
    """The last part of what a console has shown."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _CONSOLE_BYTES))
            return file.read(_CONSOLE_BYTES).decode(errors="replace").replace("\r", "")
    except FileNotFoundError:
        return ""
