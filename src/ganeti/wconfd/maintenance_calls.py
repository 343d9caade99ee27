# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's calls that tell what is stored of maintenance (S4.34).

What changes it are commits, as with everything else: `master/maintenance/changes.py`.
"""

import asyncio
from typing import Any

from ganeti.calls.serving import serves
from ganeti.model.objects import Maintenance
from ganeti.stores.config_view import ConfigReader


class MaintenanceCalls:
    """Each reads what is durable."""

    def __init__(self, database: str) -> None:
        self._database = database

    @serves("maintenanceRoundDelay")
    async def round_delay(self) -> Any:
        return (await self._stored()).round_delay_s

    @serves("maintenanceJobs")
    async def jobs(self) -> Any:
        return (await self._stored()).jobs

    @serves("maintenanceBalancing")
    async def balancing(self) -> Any:
        own = await self._stored()
        return [own.balance, own.balance_threshold]

    @serves("maintenanceEvacuated")
    async def evacuated(self) -> Any:
        return (await self._stored()).evacuated

    @serves("maintenanceIncidents")
    async def incidents(self) -> Any:
        return [each.to_plain() for each in (await self._stored()).incidents]

    async def _stored(self) -> Maintenance:
        return await asyncio.to_thread(_read, self._database)


def _read(database: str) -> Maintenance:
    with ConfigReader(database).view() as view:
        return view.maintenance
