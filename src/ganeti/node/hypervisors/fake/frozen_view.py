# SPDX-License-Identifier: BSD-2-Clause
"""The hypervisor ``fake``: its guests write nothing, so the disks are as they are; the marks lie beside the guests."""

import contextlib
import os
from collections.abc import AsyncIterator

from ganeti.model.node_requests import InstanceSpec
from ganeti.node.backups.sources import FileSource
from ganeti.node.hypervisors.fake.failures import failing
from ganeti.node.hypervisors.fake.guests import Guests
from ganeti.node.hypervisors.interface import FrozenViews
from ganeti.ports.node_world import NodeWorld


class FakeFrozenViews(FrozenViews):
    def __init__(self, world: NodeWorld, directory: str) -> None:
        self._world, self._directory, self._guests = world, directory, Guests(directory)

    async def open(self, spec: InstanceSpec, *, mark: str, since: str) -> list[bool]:
        async with failing(self._world, self._directory, "view_open", spec.name):
            guest = self._guests.required(spec.name)
            with open(self._held(spec.name), "w", encoding="utf-8") as file:
                file.write(mark)
            return [False for _ in guest.disk_paths]

    async def changed(self, name: str, disk: int) -> list[tuple[int, int]] | None:
        return None

    async def close(self, name: str, *, kept: str) -> None:
        async with failing(self._world, self._directory, "view_close", name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._held(name))

    @contextlib.asynccontextmanager
    async def reading(self, name: str, disk: int) -> AsyncIterator[FileSource]:
        async with failing(self._world, self._directory, "view_reading", name):
            yield FileSource(self._guests.required(name).disk_paths[disk])

    def _held(self, name: str) -> str:
        return f"{self._directory}/.view-{name}"
