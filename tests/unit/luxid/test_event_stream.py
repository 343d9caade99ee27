# SPDX-License-Identifier: BSD-2-Clause
"""The hub of events: what subscribers get, when they are dropped, and when nothing is recorded."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import configuration

from ganeti.base.errors import TransportError
from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.serving import stream_of
from ganeti.luxid import event_stream, lock_feed
from ganeti.luxid.event_stream import SUBSCRIBE, EventHub
from ganeti.luxid.server import LuxiServer
from ganeti.master.events.log import EventLog
from ganeti.model.traits import Catalogue
from ganeti.system.unix_socket import connect, serve
from ganeti.wire.framing import Connection
from ganeti.wire.job_file import JobFile, OpcodeEntry

OWNER = [1, "/lock", 11]


def job(job_id: int, status: str = "queued", text: str = "") -> JobFile:
    entry = OpcodeEntry(input={"OP_ID": "OP_TEST_DELAY"}, status=status)
    if text:
        entry.log = [[1, [0, 0], "message", text]]
    return JobFile(id=job_id, ops=[entry])


class Jobs:
    """A queue whose jobs are told to the hub as they change."""

    def __init__(self) -> None:
        self.files: dict[int, JobFile] = {}
        self.ended: dict[int, str] = {}

    def unfinished_files(self):
        return list(self.files.values())

    def ended_statuses(self):
        return self.ended


class Bed:
    """A hub, served at a socket."""

    def __init__(self, tmp_path, event_log: EventLog | None) -> None:
        self.path = str(tmp_path / "luxi")
        self.wconfd = str(tmp_path / "wconfd")
        self.jobs = Jobs()
        self.follower = ConfigFollower(None)
        self.follower._take({"event": "snapshot", "position": [1, 5], "config": configuration().to_plain()})
        self.silent: set[str] = set()
        self.hub = EventHub(self.jobs, self.follower, Catalogue(), self.wconfd, lambda: self.silent, event_log)
        self.follower.observers.append(self.hub.config_coming)
        self.server = LuxiServer({}, {SUBSCRIBE: stream_of(SUBSCRIBE, self.hub.serve)})

    async def subscribe(self, *args: Any) -> tuple[Connection, dict[str, Any]]:
        connection = await connect(self.path)
        await connection.send({"method": SUBSCRIBE, "args": list(args)})
        answer = await connection.receive()
        assert answer["success"], answer
        return connection, answer["result"]

    def change(self, job_id: int, status: str, text: str = "") -> None:
        file = job(job_id, status, text)
        if status == "success":
            self.jobs.files.pop(job_id, None)
            self.jobs.ended[job_id] = status
        else:
            self.jobs.files[job_id] = file
        self.hub.job_changed(file, job_id)

    def commit(self, serial: int, put=(), remove=()) -> None:
        self.follower._take({"event": "commit", "position": [1, serial], "put": put, "remove": remove})


def run(tmp_path, scenario, event_log: EventLog | None = None):
    async def go():
        bed = Bed(tmp_path, event_log)
        await bed.server.listen(bed.path)
        try:
            async with asyncio.timeout(30):
                return await scenario(bed)
        finally:
            await bed.server.close()
            await bed.hub.close()

    return asyncio.run(go())


async def until(condition) -> None:
    """Let the loop turn until the hub has come so far: it waits for sockets and timers of its own."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def take(connection: Connection, count: int) -> list[dict[str, Any]]:
    return [await connection.receive() for _ in range(count)]


def test_a_snapshot_and_the_stream_after_it_make_the_whole(tmp_path):
    """Subscribers come at any moment of a busy time: what each can tell in the end is what is."""

    async def scenario(bed: Bed):
        readers = []

        async def follow():
            connection, answer = await bed.subscribe(["job"], None, {"snapshot": True})
            snapshot = await connection.receive()
            assert snapshot["position"] == answer["position"]
            known = {job_id: status for job_id, status, _, _ in snapshot["job"]}
            while known.get(99) != "success":
                event = await connection.receive()
                if event["what"] == "submitted":
                    assert event["id"] not in known
                elif event["what"] == "status":
                    assert known[event["id"]] == event["was"]
                known[event["id"]] = event["status"]
            connection.abort()
            return known

        for job_id in range(100):
            if job_id % 4 == 0:
                readers.append(asyncio.ensure_future(follow()))
            for status in ("queued", "waiting", "running", "success"):
                bed.change(job_id, status)
                if status != "success" or job_id < 99:
                    await asyncio.sleep(0)
            if job_id == 98:
                await until(lambda: len(bed.hub._readers) == len(readers))
        assert all(known == bed.jobs.ended for known in await asyncio.gather(*readers))

    run(tmp_path, scenario)


def test_everybody_gets_the_kinds_asked_for(tmp_path):
    async def scenario(bed: Bed):
        everything, answer = await bed.subscribe(["job", "config", "node"])
        assert answer["kinds"] == ["config", "job", "node"]
        jobs, _ = await bed.subscribe(["job"])
        bed.change(1, "queued")
        node = bed.follower.configuration.nodes()[-1]
        bed.commit(6, [["nodes", node.uuid, replace(node, drained=True).to_plain()]])
        bed.hub.node_asked(node.uuid, False)
        bed.hub.node_asked("of nobody", False)
        bed.change(1, "running")
        events = await take(everything, 5)
        assert [(event["event"], event.get("what")) for event in events] == [
            ("job", "submitted"),
            ("config", None),
            ("node", "changed"),
            ("node", "unreachable"),
            ("job", "status"),
        ]
        assert events[3]["name"] == node.name and events[1]["commit"] == [1, 6]
        assert [event["what"] for event in await take(jobs, 2)] == ["submitted", "status"]

    run(tmp_path, scenario)


def test_a_subscriber_that_does_not_read_is_dropped_and_comes_back_to_a_snapshot(tmp_path):
    """Others get everything meanwhile, and what is kept for it is no more than the log."""
    texts = [f"{number}" + "x" * 10_000 for number in range(400)]

    async def scenario(bed: Bed):
        slow, answer = await bed.subscribe(["job"])
        quick, _ = await bed.subscribe(["job"])
        for number, text in enumerate(texts, 1):
            bed.change(number, "queued", text)
            assert [event.get("text", text) for event in await take(quick, 2)] == [text, text]
        position, got = answer["position"], []
        with pytest.raises(TransportError):
            while True:
                event = await slow.receive()
                position = event["position"]
                got.append(event)
        assert [event["text"] for event in got if event["what"] == "log"] == texts[: len(got) // 2]
        again, _ = await bed.subscribe(["job"], position)
        assert len((await again.receive())["job"]) == 400

    run(tmp_path, scenario, EventLog("small", bytes_kept=100_000))


def test_without_subscribers_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(event_stream, "_LINGER_S", 0.05)

    async def scenario(bed: Bed):
        bed.change(1, "queued")
        bed.commit(6)
        assert bed.hub.log.number == 0
        connection, answer = await bed.subscribe(["job"])
        bed.change(1, "running")
        (event,) = await take(connection, 1)
        assert (event["what"], event["was"]) == ("status", "queued")
        await connection.close()
        await until(lambda: not bed.hub._recording)
        assert bed.hub.log.size_bytes == 0
        bed.change(1, "success")
        for position in (answer["position"], event["position"]):
            again, _ = await bed.subscribe(["job"], position)
            assert (await again.receive())["job"] == [[1, "success", None, None]]

    run(tmp_path, scenario)


def test_back_within_a_while_nothing_is_missing(tmp_path):
    async def scenario(bed: Bed):
        connection, answer = await bed.subscribe(["job"])
        await connection.close()
        bed.change(1, "queued")
        bed.change(1, "success")
        again, same = await bed.subscribe(["job"], answer["position"])
        assert same["position"] == answer["position"]
        assert [event["what"] for event in await take(again, 2)] == ["submitted", "status"]

    run(tmp_path, scenario)


def test_what_the_log_has_no_more_comes_as_a_snapshot(tmp_path):
    async def scenario(bed: Bed):
        first, answer = await bed.subscribe(["job", "node"])
        for number in range(1, 6):
            bed.change(number, "queued")
            await first.receive()
        again, now = await bed.subscribe(["job", "node"], answer["position"])
        assert now["position"] != answer["position"]
        snapshot = await again.receive()
        assert [row[0] for row in snapshot["job"]] == [1, 2, 3, 4, 5] and "config" not in snapshot
        bed.change(6, "queued")
        assert (await again.receive())["id"] == 6

    run(tmp_path, scenario, EventLog("small", events_kept=3))


def test_snapshots_say_which_nodes_are_silent(tmp_path):
    async def scenario(bed: Bed):
        node = bed.follower.configuration.nodes()[0]
        bed.silent.add(node.uuid)
        connection, _ = await bed.subscribe(["node"], None, {"snapshot": True})
        nodes = (await connection.receive())["node"]
        assert [each["name"] for each in nodes if not each["reachable"]] == [node.name]

    run(tmp_path, scenario)


class LocksOfWConfD:
    """A WConfD that has one lock held and can say more; counts how often it was followed."""

    def __init__(self) -> None:
        self.followed = 0
        self.streams: list[Connection] = []
        self.ended = 0

    async def serve(self, connection: Connection) -> None:
        request = await connection.receive()
        assert request == {"method": "followLocks", "args": [None]}
        self.followed += 1
        self.streams.append(connection)
        held = [["cluster/BGL", [[OWNER, "shared"]]]]
        await connection.send({"event": "locks", "serial": 3, "held": held, "waiting": []})
        await connection.ended()
        self.ended += 1

    async def tell(self, serial: int, *changes: Any) -> None:
        await self.streams[-1].send({"event": "lock-changes", "serial": serial, "changes": list(changes)})


def test_locks_are_followed_only_for_those_who_ask(tmp_path, monkeypatch):
    monkeypatch.setattr(event_stream, "_LINGER_S", 0.05)

    async def scenario(bed: Bed):
        locks = LocksOfWConfD()
        wconfd = await serve(bed.wconfd, locks.serve)
        try:
            other, before = await bed.subscribe(["job"])
            assert locks.followed == 0
            connection, answer = await bed.subscribe(["lock"])
            second, _ = await bed.subscribe(["lock"], None, {"snapshot": True})
            assert (await second.receive())["lock"]["held"] == [["cluster/BGL", [[OWNER, "shared"]]]]
            assert locks.followed == 1
            await locks.tell(4, ["freed", OWNER, {"cluster/BGL": "shared"}])
            assert [(await each.receive())["what"] for each in (connection, second)] == ["freed", "freed"]
            third, _ = await bed.subscribe(["lock"], before["position"])
            assert (await third.receive())["lock"]["held"] == []  # nobody followed the locks at that position
            for each in (connection, second, third):
                await each.close()
            await until(lambda: locks.ended == 1)
            bed.change(1, "queued")
            assert (await other.receive())["id"] == 1
            again, _ = await bed.subscribe(["lock"], answer["position"])
            assert (await again.receive())["event"] == "snapshot" and locks.followed == 2
        finally:
            await wconfd.close()

    run(tmp_path, scenario)


def test_wconfd_beginning_anew_is_an_event_of_its_own(tmp_path):
    async def scenario(bed: Bed):
        locks = LocksOfWConfD()
        wconfd = await serve(bed.wconfd, locks.serve)
        try:
            connection, _ = await bed.subscribe(["lock"])
            locks.streams[0].abort()
            event = await connection.receive()
            assert event["what"] == "table" and event["held"] == [["cluster/BGL", [[OWNER, "shared"]]]]
        finally:
            await wconfd.close()

    run(tmp_path, scenario)


def test_without_wconfd_locks_cannot_be_followed_and_the_rest_can(tmp_path, monkeypatch):
    monkeypatch.setattr(lock_feed, "_READY_S", 0.1)

    async def scenario(bed: Bed):
        with pytest.raises(AssertionError, match="is ganeti-wconfd running"):
            await bed.subscribe(["lock"])
        connection, _ = await bed.subscribe(["job"])
        bed.change(1, "queued")
        assert (await connection.receive())["id"] == 1

    run(tmp_path, scenario)


def test_a_damaged_event_of_wconfd_is_left_to_the_one_who_takes_it_in(tmp_path):
    async def scenario(bed: Bed):
        await bed.subscribe(["config"])
        bed.hub.config_coming({"event": "commit", "position": [1, 6], "put": [["nodes"]]})()
        assert bed.hub.log.number == 0

    run(tmp_path, scenario)
