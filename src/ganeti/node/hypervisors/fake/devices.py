# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``fake``: devices of a running guest, which are entries of its file."""

import contextlib
import shutil
from collections.abc import Sequence

import msgspec

from ganeti.model.node_calls.hotplug import HotplugObstacles
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node.hypervisors.fake.failures import failing
from ganeti.node.hypervisors.fake.guests import Guests
from ganeti.node.hypervisors.fake.moments import FakeMoments
from ganeti.node.hypervisors.interface import RunningDevices
from ganeti.node.storage.image_io import in_thread
from ganeti.ports.node_world import NodeWorld


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

    def moments(self) -> FakeMoments:
        return FakeMoments(self._world, self._directory)

    def _failing(self, method: str, name: str) -> contextlib.AbstractAsyncContextManager[None]:
        return failing(self._world, self._directory, method, name)
