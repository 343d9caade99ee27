# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's answers about maintenance: incidents, and what is planned about them. Both follow from the configuration."""

import time
from typing import Any

from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.serving import serves
from ganeti.luxid.placement.placements import Placements
from ganeti.master.maintenance.asking import next_round
from ganeti.master.maintenance.incidents import incident_rows
from ganeti.master.maintenance.rounds import waits_s
from ganeti.model.placement_requests import PlacementRequest
from ganeti.ports.luxid import AnswerPlacement, KnownIncidents, Placement, PlanMaintenance

Plain = dict[str, Any]


class MaintenanceCalls:
    """Handlers of questions."""

    def __init__(self, follower: ConfigFollower, placements: Placements) -> None:
        self._follower = follower
        self._placements = placements

    @serves(KnownIncidents)
    async def known_incidents(self, asked: KnownIncidents) -> list[Plain]:
        return incident_rows(self._follower.configuration)

    @serves(PlanMaintenance)
    async def plan(self, asked: PlanMaintenance) -> Plain:
        now_s = time.time()
        planned = await next_round(lambda: self._follower.configuration, self._place, None, now_s)
        own = self._follower.configuration.maintenance
        settings = {key: value for key, value in own.to_plain().items() if key != "incidents"}
        waits = waits_s(self._follower.configuration, now_s)
        return {**planned.plain(), "jobs": own.jobs, "waits_s": waits, "settings": settings}

    async def _place(self, request: PlacementRequest) -> Placement:
        return await self._placements.answer(AnswerPlacement(request, None, False))
