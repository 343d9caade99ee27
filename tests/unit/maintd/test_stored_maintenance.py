# SPDX-License-Identifier: BSD-2-Clause
"""Maintenance in a real WConfD: stored as a commit, told by its calls, in `config.data`, and there after a restart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.wconfd import fast_directory, running_wconfd

from ganeti.base.errors import GanetiError
from ganeti.calls.daemon_commits import DaemonCommits
from ganeti.master.maintenance.changes import CancelIncident, ChangeMaintenance, RecordIncidents
from ganeti.system.livelock import LiveLock

ORIGINAL = {"status": "evacuate", "details": {"disk": "sda"}}
UUID = "11111111-1111-4111-8111-111111111111"
INCIDENT = {"uuid": UUID, "node": "uuid-node1", "original": ORIGINAL, "action": "evacuate"}


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


@pytest.mark.requirement("S4.34")
def test_each_call_changes_one_thing_durably_beside_the_daemon() -> None:
    async def scenario() -> None:
        with fast_directory() as root:
            async with running_wconfd(root) as daemon:
                call = daemon.client.call
                lock = LiveLock(f"{daemon.paths.livelock_dir}/maint_1")
                daemon.locks.append(lock)
                commits = DaemonCommits(daemon.client, lock.path)
                await commits.commit(ChangeMaintenance(values={"nodes_at_once": 3}))
                assert await call("setMaintdRoundDelay", 90) == []
                assert await call("setMaintdBalance", True) == []
                assert await call("setMaintdBalanceThreshold", 2) == []
                assert await call("maintenanceRoundDelay") == 90
                assert await call("maintenanceBalancing") == [True, 2.0]
                assert await call("appendMaintdJobs", [7, 8]) == await call("appendMaintdJobs", [8, 9]) == []
                assert await call("maintenanceJobs") == [7, 8, 9]
                assert await call("clearMaintdJobs") == await call("maintenanceJobs") == []
                assert await call("addMaintdEvacuated", ["a", "b"]) == await call("rmMaintdEvacuated", "a") == []
                assert await call("maintenanceEvacuated") == ["b"]
                node = next(iter(json.loads(Path(daemon.paths.config_file).read_text())["nodes"]))
                incident = {"uuid": UUID, "node": node, "original": ORIGINAL, "action": "evacuate", "jobs": [3]}
                assert await call("updateMaintdIncident", incident) == []
                assert await call("updateMaintdIncident", incident | {"repair-status": "failed"}) == []
                [told] = await call("maintenanceIncidents")
                assert told["repair-status"] == "failed" and told["jobs"] == [3] and told["serial_no"] == 2
                assert await call("rmMaintdIncident", UUID) == await call("maintenanceIncidents") == []
                assert (await commits.commit(ChangeMaintenance(values={"nodes_at_once": 4}))).position[1] > 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("call", "arguments", "sentence"),
    [
        ("setMaintdRoundDelay", [0], "The delay cannot be read"),
        ("setMaintdBalance", ["yes"], "The switch cannot be read"),
        ("setMaintdBalanceThreshold", [-1], "The threshold cannot be read"),
        ("appendMaintdJobs", [["x"]], "list of jobs cannot be read"),
        ("appendMaintdJobs", [[-20]], "list of jobs cannot be read"),
        ("addMaintdEvacuated", ["a"], "list of instances cannot be read"),
        ("rmMaintdIncident", ["nothing"], "is the id of no incident"),
        ("updateMaintdIncident", [{"uuid": UUID}], "cannot be read"),
        ("updateMaintdIncident", [INCIDENT | {"node": "elsewhere"}], "No node has the UUID 'elsewhere'"),
        ("updateMaintdIncident", [INCIDENT | {"uuid": "x"}], "'x' is no UUID"),
        ("updateMaintdIncident", [INCIDENT | {"jobs": [-1]}], "what cannot be the number of a job"),
        ("updateMaintdIncident", [INCIDENT | {"action": "burn"}], "its action is none of"),
        ("updateMaintdIncident", [INCIDENT | {"repair-status": "so"}], "its repair-status is none of"),
        (
            "updateMaintdIncident",
            [INCIDENT | {"original": {"status": "live-repair"}}],
            "live-repair needs the plain name",
        ),
        ("clearMaintdJobs", [1], "takes 0 arguments"),
    ],
)
def test_a_wrong_call_changes_nothing(call: str, arguments: list[Any], sentence: str) -> None:
    async def scenario() -> None:
        with fast_directory() as root:
            async with running_wconfd(root) as daemon:
                before = await daemon.client.call("position")
                with pytest.raises(GanetiError, match=sentence):
                    await daemon.client.call(call, *arguments)
                assert await daemon.client.call("position") == before

    asyncio.run(scenario())
