# SPDX-License-Identifier: BSD-2-Clause
"""The real WConfD with a follower over HTTPS: killed, deposed, and begun with an epoch by command."""

import asyncio
import json
import signal
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.fakes.master_daemons import HOST, NODE_UUID, OFFLINE_UUID, Master, configuration
from tests.fakes.replica import FakeReplica
from tests.fakes.wconfd import until

from ganeti.base.errors import EXIT_NOT_MASTER, DeposedError, GanetiError
from ganeti.base.paths import NODED_PORT
from ganeti.base.version import RELEASE
from ganeti.calls.wconfd_client import JobOwner, WConfdClient
from ganeti.master.config.fingerprint import fingerprint_of
from ganeti.master.operations.filter_changes import ReplaceFilterChange
from ganeti.model.objects import FilterRule
from ganeti.node.certificates import create_authority, issue_node_certificate
from ganeti.system.http_server import HttpReply, HttpRequest, HttpServer
from ganeti.system.livelock import LiveLock, job_lock_path
from ganeti.system.tls import ServerFiles, server_context
from ganeti.wconfd.start import make_directories

OWN_ADDRESS, ADDRESS = "127.0.91.1", "127.0.91.2"
FOLLOWER = "node2.example.com"
CLUSTER = configuration()["cluster"]["uuid"]
VOTED = ("--no-voting", "--yes-do-it")
"""The master has no node daemon here, which would vote for it."""

_JOB = """
import sys, time
from ganeti.system.livelock import LiveLock
lock = LiveLock(sys.argv[1])
print("locked", flush=True)
time.sleep(600)
"""


class Bed:
    """A master's directory, and the other candidate."""

    def __init__(self, root: Path) -> None:
        self.master = Master(root / "root")
        self.paths = self.master.paths
        self.replica = FakeReplica(OFFLINE_UUID, CLUSTER, time.time)
        self.own = FakeReplica(NODE_UUID, CLUSTER, time.time)
        """What the master's own node daemon knows: promises."""
        self.locks: list[LiveLock] = []
        make_directories(self.paths)
        plain = configuration()
        plain["nodes"][NODE_UUID] |= {"primary_ip": OWN_ADDRESS, "secondary_ip": OWN_ADDRESS}
        plain["nodes"][OFFLINE_UUID] |= {"primary_ip": ADDRESS, "secondary_ip": ADDRESS, "offline": False}
        plain["nodes"][OFFLINE_UUID] |= {"master_candidate": True}
        plain["cluster"]["tags"] = []
        Path(self.paths.config_file).write_text(json.dumps(plain))
        authority = create_authority("c")
        Path(self.paths.client_cert).write_text(issue_node_certificate(authority, HOST, "c", [OWN_ADDRESS]))
        Path(self.paths.authority_cert).write_text(authority.certificate)
        own = root / "follower.pem"
        own.write_text(issue_node_certificate(authority, FOLLOWER, "c", [ADDRESS]))
        self.files = ServerFiles(str(own), "", self.paths.authority_cert)

    async def answer(self, request: HttpRequest) -> HttpReply:
        return self._answer(self.replica, request)

    async def answer_here(self, request: HttpRequest) -> HttpReply:
        return self._answer(self.own, request)

    def _answer(self, replica: FakeReplica, request: HttpRequest) -> HttpReply:
        body = msgspec.json.decode(request.body)
        call = request.path.lstrip("/")
        if call == "write_ssconf_files":
            return HttpReply(200, b"[true,null]")
        try:
            return HttpReply(200, msgspec.json.encode([True, replica.answer(call, body["arguments"])]))
        except GanetiError as err:
            return HttpReply(200, msgspec.json.encode([False, err.to_wire()]))

    @asynccontextmanager
    async def wconfd(self, *arguments: str):
        """The daemon, once it serves, or has ended."""
        log = Path(f"{self.paths.log_dir}/output")
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "ganeti.daemons.wconfd", "-f", *VOTED, *arguments,
                env=self.master.environment, stdout=output, stderr=output,
            )  # fmt: skip
        client = WConfdClient(self.paths.wconfd_socket, 20.0)
        try:
            yield process, client
        finally:
            await client.close()
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


@asynccontextmanager
async def own_daemon(bed: Bed):
    files = ServerFiles(bed.paths.client_cert, "", bed.paths.authority_cert)
    server = HttpServer(bed.answer_here, address=OWN_ADDRESS, port=NODED_PORT, tls=server_context(files))
    await server.start()
    try:
        yield
    finally:
        await server.close()


@asynccontextmanager
async def follower(bed: Bed):
    server = HttpServer(bed.answer, address=ADDRESS, port=NODED_PORT, tls=server_context(bed.files))
    await server.start()
    try:
        yield
    finally:
        await server.close()


@pytest.fixture
def bed(tmp_path):
    bed = Bed(tmp_path)
    yield bed
    for lock in bed.locks:
        lock.remove()


def a_filter(number: int) -> ReplaceFilterChange:
    rule = FilterRule(uuid=f"00000000-0000-4000-8000-{number:012x}", priority=number, predicates=[], action="ACCEPT")
    return ReplaceFilterChange(rule=rule)


async def in_sync(client):
    async def told():
        return (await client.call("replicationState"))["nodes"][OFFLINE_UUID]["state"] == "in-sync"

    await until(told, 20.0)


def test_what_is_acknowledged_is_at_the_follower_through_kills_and_a_deposition(bed):
    async def scenario():
        lock_file = job_lock_path(bed.paths.livelock_dir, 1, 1)
        job = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _JOB, lock_file, stdout=asyncio.subprocess.PIPE
        )
        assert job.stdout is not None
        await job.stdout.readline()
        owner = JobOwner(1, lock_file, 1)
        async with follower(bed):
            async with bed.wconfd() as (process, client):
                await client.position()
                await in_sync(client)
                for number in range(1, 21):
                    position, _ = await client.commit(owner, number, a_filter(number), False)
                    assert bed.replica.position == position
                process.send_signal(signal.SIGKILL)
                await process.wait()
            async with bed.wconfd() as (process, client):
                assert await client.position() == position
                members = (await client.call("replicationState"))["membership"]["members"]
                assert sorted(members) == sorted([NODE_UUID, OFFLINE_UUID]), "nobody was forgotten"
                await client.commit(owner, 21, a_filter(21), False)
                promised = bed.replica.answer("promise", {**caller(2), "ask_only": False})
                assert promised["granted"]
                bed.replica.position = (2, 1)
                with pytest.raises((DeposedError, GanetiError)):
                    await client.commit(owner, 22, a_filter(22), False)
                async with asyncio.timeout(20):
                    assert await process.wait() == EXIT_NOT_MASTER
                    assert await job.wait() == -signal.SIGKILL, "nothing of a master outlives its WConfD"

    asyncio.run(scenario())


def saved(bed: Bed) -> dict[str, bytes]:
    """The configuration of a master that does not run, as a backup has it."""
    base = Path(bed.paths.config_database)
    files = [base.with_name(base.name + suffix) for suffix in ("", "-wal", "-shm")] + [Path(bed.paths.config_file)]
    return {str(path): path.read_bytes() for path in files if path.exists()}


def restore(bed: Bed, backup: dict[str, bytes]) -> None:
    for path in saved(bed):
        Path(path).unlink()
    for path, content in backup.items():
        Path(path).write_bytes(content)


def a_job(bed: Bed) -> JobOwner:
    """One that lives as long as the test."""
    lock = LiveLock(job_lock_path(bed.paths.livelock_dir, 1, 1))
    bed.locks.append(lock)
    return JobOwner(1, lock.path, 1)


async def commit_and_end(bed: Bed, owner: JobOwner, first: int, last: int):
    async with bed.wconfd() as (_, client):
        await client.position()
        await in_sync(client)
        for number in range(first, last + 1):
            position, _ = await client.commit(owner, number, a_filter(number), False)
    return position


async def follows(bed: Bed, owner: JobOwner, step: int, *, alone: bool = False):
    """Commit once more; the follower has what the master has, in a new epoch.

    A master that is *alone* acknowledges by itself: the epoch begins when it has heard of the follower.
    """
    async with bed.wconfd() as (_, client):
        async with asyncio.timeout(30):
            if alone:
                await in_sync(client)
            position, _ = await client.commit(owner, step, a_filter(step), False)
            assert position[0] == 2, "positions that were given away mean what they meant"
            await in_sync(client)
        assert bed.replica.position == position
        await client.call("flushConfig")
        assert bed.replica.digest == fingerprint_of(Path(bed.paths.config_file).read_bytes())
        assert bed.replica.membership is not None
        assert bed.replica.membership["version"][0] == 2


@pytest.mark.parametrize("later", [1, 3, 6])
def test_after_an_older_database_was_restored_its_positions_are_not_given_again(bed, later):
    async def scenario():
        async with follower(bed), own_daemon(bed):
            owner = a_job(bed)
            await commit_and_end(bed, owner, 1, 3)
            backup = saved(bed)
            await commit_and_end(bed, owner, 4, 6)
            restore(bed, backup)
            await follows(bed, owner, 6 + later)

    asyncio.run(scenario())


def test_a_database_made_anew_from_an_older_file_begins_an_epoch(bed):
    async def scenario():
        async with follower(bed), own_daemon(bed):
            owner = a_job(bed)
            await commit_and_end(bed, owner, 1, 3)
            backup = saved(bed)
            await commit_and_end(bed, owner, 4, 4)
            restore(bed, {bed.paths.config_file: backup[bed.paths.config_file]})
            await follows(bed, owner, 7, alone=True)

    asyncio.run(scenario())


def caller(epoch: int):
    return {"cluster": CLUSTER, "software": RELEASE, "epoch": epoch, "master": OFFLINE_UUID, "time_s": time.time()}


def test_an_epoch_begins_by_command_and_is_over_for_lower_ones(bed):
    async def scenario():
        async with follower(bed):
            async with bed.wconfd() as (_, client):
                await client.position()
                await in_sync(client)
            async with bed.wconfd("--epoch", "5") as (_, client):
                assert await client.position() == (5, 1)
                state = await client.call("replicationState")
                assert state["epoch"] == 5
                assert sorted(state["membership"]["members"]) == sorted([NODE_UUID, OFFLINE_UUID])
                await in_sync(client)
                assert bed.replica.position == (5, 1)
                assert (bed.replica.promised, bed.replica.holder) == (5, NODE_UUID)
            async with bed.wconfd("--epoch", "4") as (process, _):
                async with asyncio.timeout(20):
                    assert await process.wait() == EXIT_NOT_MASTER
            async with bed.wconfd("--epoch", "5") as (_, client):
                assert await client.position() == (5, 1)
        assert "epoch 4 is over" in Path(f"{bed.paths.log_dir}/output").read_text()

    asyncio.run(scenario())
