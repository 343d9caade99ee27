# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``fake``: devices of a running guest, which are entries of its file."""

import contextlib
import secrets
import shutil
from collections.abc import Sequence

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.model.node_calls.disk_transfer import DiskDoor
from ganeti.model.node_calls.hotplug import HotplugObstacles, MirrorProgress
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node.hypervisors.fake.failures import failing
from ganeti.node.hypervisors.fake.frozen_view import FakeFrozenViews
from ganeti.node.hypervisors.fake.guests import Guests
from ganeti.node.hypervisors.interface import RunningDevices
from ganeti.node.storage.image_io import in_thread
from ganeti.ports.node_world import NodeWorld

_DISK_PORT = 8103


class FakeDevices(RunningDevices):
    def __init__(self, world: NodeWorld, directory: str) -> None:
        super().__init__("fake")
        self._world = world
        self._directory = directory
        self._guests = Guests(directory)

    async def hotplug_obstacles(self, name: str) -> HotplugObstacles:
        async with self._failing("hotplug_obstacles", name):
            self._guests.required(name)
            return HotplugObstacles()

    async def change_nics(self, spec: InstanceSpec) -> None:
        async with self._failing("change_nics", spec.name):
            guest = self._guests.read(spec.name)
            if guest is not None:
                self._guests.write(msgspec.structs.replace(guest, macs=[nic.mac for nic in spec.nics]))

    async def change_disks(self, spec: InstanceSpec, disks: Sequence[AttachedDisk]) -> None:
        async with self._failing("change_disks", spec.name):
            guest = self._guests.read(spec.name)
            if guest is not None:
                self._guests.write(msgspec.structs.replace(guest, disk_paths=[disk.path for disk in disks]))

    async def copy_disks(self, name: str, paths: Sequence[str]) -> None:
        async with self._failing("copy_disks", name):
            guest = self._guests.required(name)
            for source, path in zip(guest.disk_paths, paths, strict=True):
                await in_thread(shutil.copyfile, source, path)

    async def sign_of_life(self, name: str, words: str) -> str:
        """A fake guest is up at once; one without a file system to boot from is its file in ``.fail``."""
        async with self._failing("sign_of_life", name):
            return "the fake guest runs" if self._guests.required(name).state == "running" else ""

    def frozen_views(self) -> FakeFrozenViews:
        return FakeFrozenViews(self._world, self._directory)

    async def mirror_disks(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> list[MirrorProgress]:
        async with self._failing("mirror_disks", spec.name):
            guest = self._guests.required(spec.name)
            for source, target in zip(guest.disk_paths, targets, strict=True):
                if source != target.path:
                    await in_thread(shutil.copyfile, source, target.path)
            return [MirrorProgress(index=target.spec.index, is_equal=True) for target in targets]

    async def hold_copies(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> None:
        async with self._failing("hold_copies", spec.name):
            self._guests.required(spec.name)

    async def exchange_disks(self, spec: InstanceSpec, targets: Sequence[AttachedDisk]) -> None:
        async with self._failing("exchange_disks", spec.name):
            guest = self._guests.required(spec.name)
            self._guests.write(msgspec.structs.replace(guest, disk_paths=[target.path for target in targets]))

    async def receive_disks(self, spec: InstanceSpec, address: str) -> DiskDoor:
        async with self._failing("receive_disks", spec.name):
            self._require(spec.name, "incoming")
            return DiskDoor(address=address, port=_DISK_PORT, key=secrets.token_hex(32))

    async def disks_received(self, spec: InstanceSpec) -> None:
        async with self._failing("disks_received", spec.name):
            self._require(spec.name, "incoming")

    async def send_disks(self, spec: InstanceSpec, door: DiskDoor) -> list[MirrorProgress]:
        async with self._failing("send_disks", spec.name):
            self._require(spec.name, "running", "paused")
            return [MirrorProgress(index=disk.index, is_equal=True) for disk in spec.disks]

    async def hand_over_disks(self, spec: InstanceSpec) -> None:
        async with self._failing("hand_over_disks", spec.name):
            self._require(spec.name, "paused")

    def _require(self, name: str, *states: str) -> None:
        guest = self._guests.required(name)
        if guest.state not in states:
            raise HypervisorError(f"{name} is {guest.state} on this node, and must be {' or '.join(states)} for this")

    def _failing(self, method: str, name: str) -> contextlib.AbstractAsyncContextManager[None]:
        return failing(self._world, self._directory, method, name)
