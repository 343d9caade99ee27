# SPDX-License-Identifier: BSD-2-Clause
"""Maintenance in a real WConfD: stored as a commit, told by its calls, in `config.data`, and there after a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.fakes.wconfd import fast_directory, running_wconfd

from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.master.maintenance.changes import CancelIncident, ChangeMaintenance, RecordIncidents
from ganeti.system.livelock import LiveLock

ORIGINAL = {"status": "evacuate", "details": {"disk": "sda"}}
UUID = "11111111-1111-4111-8111-111111111111"


@pytest.mark.requirement("S4.32", "S4.33", "S4.34")
def test_an_incident_is_stored_told_published_and_kept() -> None:
    async def first(daemon) -> None:
        lock = LiveLock(f"{daemon.paths.livelock_dir}/maint_1")
        daemon.locks.append(lock)
        commits = DaemonCommits(daemon.client, lock.path)
        before = json.loads(Path(daemon.paths.config_file).read_text())
        node = next(iter(before["nodes"]))
        await commits.commit(ChangeMaintenance(values={"round_delay_s": 60, "balance": True}))
        done = await commits.commit(RecordIncidents(noted=[(UUID, node, "evacuate", ORIGINAL)]))
        await commits.commit(CancelIncident(uuid=UUID[:6]))
        await daemon.client.wait_published(done.position)
        assert await daemon.client.call("maintenanceRoundDelay") == 60
        assert await daemon.client.call("maintenanceJobs") == []
        assert await daemon.client.call("maintenanceBalancing") == [True, 0.1]
        assert await daemon.client.call("maintenanceEvacuated") == []
        [told] = await daemon.client.call("maintenanceIncidents")
        assert told["original"] == ORIGINAL and told["repair-status"] == "canceled" and told["node"] == node

    async def again(daemon) -> None:
        [told] = await daemon.client.call("maintenanceIncidents")
        assert told["uuid"] == UUID
        plain = json.loads(Path(daemon.paths.config_file).read_text())["maintenance"]
        assert plain["roundDelay"] == 60 and plain["incidents"][0]["original"] == ORIGINAL

    async def go(root) -> None:
        for part in (first, again):
            async with running_wconfd(root) as daemon:
                await part(daemon)

    with fast_directory() as root:
        asyncio.run(go(root))
