# SPDX-License-Identifier: BSD-2-Clause
"""Capacity in LuxiD: counted by a real worker, kept for whoever was told it is missing, void when room is taken."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fakes.wconfd import fast_directory
from tests.unit.luxid.placement.test_placements import FREE_MIB, Bed, bed

from ganeti.base.errors import GanetiError
from ganeti.calls.reservation_calls import reserve_room
from ganeti.luxid.placement.capacities import Capacities
from ganeti.master.capacity import question, read_answer, requests
from ganeti.model.capacity import Capacity
from ganeti.model.locks import node_lock
from ganeti.model.objects import NodeGroup
from ganeti.model.placement_requests import CountCapacity
from ganeti.model.reservations import Reservation

GROUP = "uuid-group1"
SPEC = [1024, 1024, 1]


def run(scenario: Any) -> None:
    async def go(root: Any) -> None:
        async with bed(root) as found:
            placements = found.placements
            parts = placements._follower, placements._wconfd, placements.cache, placements.renew_reports
            await scenario(found, Capacities(*parts))

    with fast_directory() as root:
        asyncio.run(go(root))


def asked(found: Bed, **given: Any) -> dict[str, Any]:
    view = found.placements._view
    return {
        group.uuid: question(view, group, "hail", {"default_template": "diskless", "max_inst_spec": SPEC, **given})
        for group in view.groups()
    }


async def count(found: Bed, **given: Any) -> dict[str, Capacity]:
    (request,) = requests(asked(found, **given))
    response = await found.placements.place(request, None)
    assert response["success"], response
    return {group: Capacity(entry, 5.0) for group, entry in read_answer(request, response["result"]).items()}


def total(counted: dict[str, Capacity]) -> int:
    return sum(row[3] for row in counted[GROUP].result["tspecs"])


def test_the_worker_counts_with_reservations() -> None:
    async def scenario(found: Bed, capacities: Capacities) -> None:
        before = await count(found)
        assert before[GROUP].result["tspecs"][0] == [*SPEC, 3 * (FREE_MIB // SPEC[0] - 1)], "something stays free"
        assert found.placements._worker._process is None, "counting keeps nobody else waiting"
        taken = Reservation(instance="x", nodes=["uuid-node1"], memory_mib=2048, vcpus=1, disk_template="diskless")
        assert await reserve_room(found.placements._wconfd, found.daemon.job(1).for_locks, [taken], 10) is None
        assert total(await count(found)) < total(before)

    run(scenario)


@pytest.mark.requirement("S1.41", "S1.67")
def test_what_a_job_had_counted_is_known_until_room_is_taken() -> None:
    async def scenario(found: Bed, capacities: Capacities) -> None:
        client, job, other = found.placements._wconfd, found.daemon.job(1), found.daemon.job(2)
        owner, questions = job.for_locks, asked(found)

        async def known(**more: Any) -> bool:
            return bool(
                await capacities.known(owner, more.pop("questions", questions), cached=more.pop("cached", True))
            )

        async def keep() -> None:
            assert not await known()
            assert capacities.keep(owner, await count(found)) == [GROUP]
            assert await known()

        await keep()
        assert not await known(cached=False)
        assert await known(), "but it is still there for others"
        assert not await known(questions=asked(found, max_cpu_ratio=2.0))
        assert not await known(), "who asked with others' parameters had it dropped (S1.67)"
        await keep()
        taken = Reservation(instance="x", nodes=["uuid-node1"], memory_mib=1024, vcpus=1, disk_template="diskless")
        assert await reserve_room(client, other.for_locks, [taken], 10) is None
        await keep()
        assert await client.try_locks(other.for_locks, [(node_lock("uuid-node2"), "exclusive")]) == []
        await client.free_locks(other.for_locks)
        await keep()
        found.clock[0] = 3600.0
        assert not await known()

    run(scenario)


def test_what_is_counted_is_kept_though_nodes_have_less_memory_than_they_reported() -> None:
    """A node's free memory moves all the time: what is counted is counted of reports that were renewed before."""

    async def scenario(found: Bed, capacities: Capacities) -> None:
        owner, questions, asker = found.daemon.job(1).for_locks, asked(found), found.asker
        for cached in (True, False):
            assert await capacities.known(owner, questions, cached=cached) == {}
            assert capacities.keep(owner, await count(found)) == [GROUP]
            assert await capacities.known(owner, questions, cached=True)
            asker.free_mib -= 1
            found.clock[0] += 31.0
        found.placements.cache.reports.changed(["uuid-node1"])
        asker.free_mib -= 1
        assert await capacities.known(owner, questions, cached=True) == {}
        assert capacities.keep(owner, await count(found)) == [GROUP]

    run(scenario)


@pytest.mark.requirement("S1.53")
def test_nodes_are_asked_by_who_wants_nothing_from_the_cache() -> None:
    async def scenario(found: Bed, capacities: Capacities) -> None:
        owner, questions, nodes = found.daemon.job(1).for_locks, asked(found), len(found.placements._view.nodes())
        before = total(await count(found))
        found.asker.free_mib //= 2
        assert await capacities.known(owner, questions, cached=True) == {}
        assert (total(await count(found)), len(found.asker.asked)) == (before, nodes), "they said it just now"
        assert await capacities.known(owner, questions, cached=False) == {}
        assert (total(await count(found)) < before, len(found.asker.asked)) == (True, 2 * nodes)

    run(scenario)


@pytest.mark.requirement("S1.43")
def test_only_who_was_told_what_is_missing_may_tell_it() -> None:
    async def scenario(found: Bed, capacities: Capacities) -> None:
        owner, stranger = found.daemon.job(1).for_locks, found.daemon.job(2).for_locks
        counted, questions = await count(found), asked(found)
        assert capacities.keep(stranger, counted) == []
        assert await capacities.known(owner, questions, cached=True) == {}
        assert capacities.keep(stranger, counted) == []
        assert capacities.keep(owner, {"elsewhere": counted[GROUP]}) == []
        assert capacities.keep(owner, counted) == [], "once"
        assert await capacities.known(owner, questions, cached=True) == {}
        found.placements.cache.reports.changed(["uuid-node1"])
        assert capacities.keep(owner, counted) == [], "something became less meanwhile"

    run(scenario)


def test_a_template_that_hail_does_not_know_is_refused_in_words() -> None:
    async def scenario(found: Bed, capacities: Capacities) -> None:
        request = CountCapacity(node_groups=[], default_template="invented")
        with pytest.raises(GanetiError, match="name one of"):
            await found.placements.place(request, None)

    run(scenario)


def test_an_unknown_group_is_refused_in_words() -> None:
    async def scenario(found: Bed, capacities: Capacities) -> None:
        group = NodeGroup(uuid="uuid-gone", name="gone")
        with pytest.raises(GanetiError, match="no node group uuid-gone"):
            await found.placements.place(CountCapacity(node_groups=[group.uuid], default_template="plain"), None)

    run(scenario)
