# SPDX-License-Identifier: BSD-2-Clause
"""Guests that another Ganeti has started: both know them by the name of their domain, and by ``/etc/xen/NAME``."""

from collections.abc import Awaitable, Callable, Sequence

from ganeti.node.hypervisors.interface import Adopted, Adoption, RunningInstance
from ganeti.node.hypervisors.started_guests import StartedGuest, StartedGuests
from ganeti.system.boot import boot_identity


class XenAdoption(Adoption):
    def __init__(
        self, hypervisor: str, guests: StartedGuests, listed: Callable[[], Awaitable[list[RunningInstance]]]
    ) -> None:
        self._hypervisor, self._guests, self._listed = hypervisor, guests, listed

    async def check(self, wanted: Sequence[Adopted]) -> list[str]:
        return [
            f"instance {name} is {running.state}: wait until its migration has ended, or end what is left of it"
            for name, running in (await self._running(wanted)).items()
            if running.state in ("incoming", "postmigrate")
        ]

    async def take(self, wanted: Sequence[Adopted]) -> list[str]:
        uuids = {guest.name: guest.uuid for guest in wanted}
        running = await self._running(wanted)
        for name, found in running.items():
            if self._guests.read(name) is None:
                record = StartedGuest(
                    name=name,
                    uuid=uuids[name],
                    memory_mib=found.memory_mib,
                    vcpus=found.vcpus,
                    started_s=0.0,
                    hypervisor=self._hypervisor,
                    boot=boot_identity(),
                )
                self._guests.write(record)
        return list(running)

    async def check_back(self, wanted: Sequence[Adopted]) -> list[str]:
        return await self.check(wanted)

    async def give_back(self, wanted: Sequence[Adopted]) -> list[str]:
        return list(await self._running(wanted))

    async def _running(self, wanted: Sequence[Adopted]) -> dict[str, RunningInstance]:
        found = {running.name: running for running in await self._listed()}
        return {guest.name: found[guest.name] for guest in wanted if guest.name in found}
