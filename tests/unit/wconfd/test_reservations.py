# SPDX-License-Identifier: BSD-2-Clause
"""WConfD's reservations of room: kept through restarts, ended by commits, by their owner, and by its death."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes.wconfd import fast_directory, running_wconfd

from ganeti.base.errors import INTERNAL_ERROR, GanetiError, LockError
from ganeti.calls.reservation_calls import list_reservations, reserve_room
from ganeti.model.configuration import Draft
from ganeti.model.objects import Instance
from ganeti.model.reservations import Reservation
from ganeti.ports.config import Change


class MoveInstance(Change, frozen=True, kw_only=True):
    """Give an instance another primary node."""

    uuid: str
    node: str

    def apply(self, draft: Draft) -> Instance:
        instance = replace(draft.instance(self.uuid), primary_node=self.node, disks=[], disks_active=False)
        draft.put("instances", instance)
        return instance


@pytest.fixture
def root():
    with fast_directory() as path:
        yield path


def run(scenario, root):
    async def go():
        async with running_wconfd(root) as daemon:
            return await scenario(daemon)

    return asyncio.run(go())


def room(instance: str, *nodes: str) -> Reservation:
    return Reservation(instance=instance, nodes=list(nodes), memory_mib=64)


async def held(daemon) -> list[tuple[int | str, str]]:
    return [(job, reservation.instance) for job, reservation in (await list_reservations(daemon.client)).held]


def test_reservations_end_with_their_owner(root):
    async def scenario(daemon):
        one, two = daemon.job(1), daemon.job(2)
        assert await reserve_room(daemon.client, one.for_locks, [room("a", "n1")], 0) is None
        assert await reserve_room(daemon.client, two.for_locks, [room("b", "n1")], 0) == "n1"
        assert await reserve_room(daemon.client, two.for_locks, [room("b", "n1")], 1) is None
        assert await held(daemon) == [(1, "a"), (2, "b")]
        daemon.locks[0].close()
        assert await held(daemon) == [(2, "b")], "job 1 is dead"
        with pytest.raises(LockError, match="nobody holds its lock file"):
            await reserve_room(daemon.client, one.for_locks, [room("a", "n1")], 9)
        await daemon.client.free_locks(two.for_locks)
        assert await held(daemon) == []
        await reserve_room(daemon.client, two.for_locks, [room("c", "n1")], 9)
        await daemon.client.call("giveUpRoom", two.for_locks.to_wire())
        assert await held(daemon) == []

    run(scenario, root)


def test_a_commit_ends_the_reservation_in_the_same_moment(root):
    """Whoever reads reservations and position together counts the room exactly once."""

    async def scenario(daemon):
        job = daemon.job(1)
        config = await daemon.client.call("readConfig")
        instance = next(iter(config["instances"].values()))
        target = next(uuid for uuid in config["nodes"] if uuid != instance["primary_node"])
        await reserve_room(daemon.client, job.for_locks, [room(instance["name"], target)], 0)
        before = await list_reservations(daemon.client)
        change = MoveInstance(uuid=instance["uuid"], node=target)
        committed = asyncio.ensure_future(daemon.client.commit(job, 1, change, False))
        while True:
            now = await list_reservations(daemon.client)
            assert bool(now.held) == (now.position == before.position)
            if not now.held:
                break
        assert tuple((await committed).position) == tuple(now.position)

    run(scenario, root)


def test_a_restart_breaks_no_reservation(root):
    async def first(daemon):
        job = daemon.job(1)
        await reserve_room(daemon.client, job.for_locks, [room("a", "n1")], 0)
        kept = list(daemon.locks)
        daemon.locks.clear()
        return kept

    async def second(daemon):
        assert await held(daemon) == [(1, "a")]
        assert (await list_reservations(daemon.client)).serial == 1

    async def third(daemon):
        assert await held(daemon) == []

    locks = run(first, root)
    run(second, root)
    for lock in locks:
        lock.close()
    run(third, root)


def test_a_damaged_file_is_passed_over(root):
    def file() -> Path:
        (found,) = Path(root).rglob("reservations.json")
        return found

    async def first(daemon):
        await reserve_room(daemon.client, daemon.job(1).for_locks, [room("a", "n1")], 0)

    async def second(daemon):
        assert await held(daemon) == []

    run(first, root)
    for text in (b"", b"[]", b"{", b'{"version": 7}'):
        file().write_bytes(text)
        run(second, root)


def test_wrong_arguments_are_refused_in_words(root):
    async def scenario(daemon):
        client = daemon.job(1).for_locks.to_wire()
        for arguments in ([client, [{}], 0], [client, [], "x"], [client, 5, 0], ["x", [], 0]):
            with pytest.raises(GanetiError) as caught:
                await daemon.client.call("reserveRoom", *arguments)
            assert INTERNAL_ERROR not in str(caught.value)

    run(scenario, root)
