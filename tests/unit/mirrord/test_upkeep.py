# SPDX-License-Identifier: BSD-2-Clause
"""A storage daemon that ended by itself is started again while its disk is open; ever later where it ends at once."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.fakes.equal_copies import EQUAL, EqualDaemon, EqualPeers, FullAtFirst

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.mirrord import record, upkeep
from ganeti.mirrord.commands import GoneError, SilentError
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.questions import Question
from ganeti.mirrord.storage_daemon import StorageDaemon
from ganeti.mirrord.upkeep import LONGEST_PAUSE_S, STEADY_S, Pauses
from ganeti.model.node_calls.disks import DiskStatus
from ganeti.model.node_requests import DiskSpec
from ganeti.model.objects import TERM
from ganeti.node.actions.verify import _disk_fault
from ganeti.node.storage.image_files import ImageFileTemplate
from ganeti.node.storage.mirror.driver import MirroredDisks
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.mirror.requests import PRIMARY, SECONDARY, Connect, Kept, Opened, State
from ganeti.noded.world import RealNodeWorld
from ganeti.system.boot import process_start


class _Daemon(EqualDaemon):
    """Lives until it is killed; *starts* has the names that it showed its disk under."""

    def __init__(self, places: Places, uuid: str, image: str) -> None:
        super().__init__(places, uuid, image)
        self.starts: list[str] = []
        self.failure, self.failures = "", 0
        self._gone = asyncio.Event()
        self._gone.set()

    def process_id(self) -> int | None:
        return None if self._gone.is_set() else 1

    def kill(self) -> None:
        self._gone.set()

    async def ended(self) -> str:
        await self._gone.wait()
        return "was ended by signal 9"

    async def prepare(self) -> None:
        if self.failure:
            self.failures += 1
            raise BlockDeviceError(self.failure)
        self._gone.clear()

    async def show_export(self, export: str) -> None:
        self.starts.append(export)

    async def stop(self) -> None:
        self._gone.set()


class _Node:
    def __init__(self, root: Path) -> None:
        places = Places(Paths(str(root)))
        os.makedirs(places.directory)
        self.image = str(root / "image")
        Path(self.image).touch()
        write_kept(self.image, EQUAL)
        self.peers = EqualPeers()
        self.said: list[str] = []
        self.disk = Disk(Surroundings(places, self.peers, _Daemon), self.opened(""))
        self.disk._record.say = self.said.append  # type: ignore[method-assign,assignment]

    def opened(self, role: str) -> Opened:
        return Opened(uuid="disk", image=self.image, role=role or "closed", peer="node2", address="here", generation=5)

    @property
    def daemon(self) -> _Daemon:
        assert isinstance(self.disk._daemon, _Daemon)
        return self.disk._daemon

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not done():  # noqa: ASYNC110 (what is waited for is another's)
                await asyncio.sleep(0.001)


def _has_started(node: _Node, count: int) -> bool:
    return len(node.daemon.starts) == count


@pytest.fixture
def played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[_Node], Coroutine[Any, Any, None]]], None]:
    monkeypatch.setattr(upkeep, "_FIRST_PAUSE_S", 0.002)

    def play(story: Callable[[_Node], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            await story(_Node(tmp_path))

        asyncio.run(asyncio.wait_for(run(), 60))

    return play


def test_pauses_grow_while_it_ends_soon_and_are_forgotten_when_it_has_lived() -> None:
    pauses, now_s, waited = Pauses(), 1000.0, []
    for _ in range(7):
        waited.append(pauses.ended(now_s))
        now_s += waited[-1]
        pauses.started(now_s)
        now_s += STEADY_S - 0.1
    assert waited == [0.0, 1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert pauses.ended(now_s + 0.1) == 0.0


@pytest.mark.parametrize("role", [PRIMARY, SECONDARY])
def test_one_that_is_killed_shows_the_disk_under_its_name_again(played: Any, role: str) -> None:
    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(role))
        session = node.disk.opened.session
        for kills in range(1, 4):
            node.daemon.kill()
            await node.until(partial(_has_started, node, kills + 1))
        assert set(node.daemon.starts) == {"disk-0"}
        assert (node.disk.opened.role, node.disk.opened.session) == (role, session)
        assert node.disk.state().serves
        assert [said for said in node.said if "it is started again" in said] == [
            "its storage daemon was ended by signal 9: it is started again at once",
            "its storage daemon was ended by signal 9: it is started again in 0.002 s",
            "its storage daemon was ended by signal 9: it is started again in 0.004 s",
        ]

    played(story)


def test_the_loss_is_noted_before_that_of_the_primary_serves_again(played: Any) -> None:
    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(PRIMARY))
        await node.disk._copying.mark_equal(EQUAL)
        generation = read_kept(node.image).generation
        node.daemon.kill()
        assert not node.disk.state().in_sync and not node.disk.state().serves
        await node.until(lambda: len(node.daemon.starts) == 2)
        assert read_kept(node.image).generation == generation + 1

    played(story)


def test_a_primary_whose_loss_cannot_be_noted_stays_down_and_is_not_tried_hotly(
    played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = FullAtFirst(3)

    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(PRIMARY))
        await node.disk._copying.stop()
        await node.disk._copying.mark_equal(EQUAL)
        monkeypatch.setattr(record, "write_kept", full)
        node.daemon.kill()
        await node.until(lambda: len(node.daemon.starts) == 2)
        assert full.tries == 4
        assert "[Errno 28] No space left on device: it is started again in 0.004 s" in node.said

    played(story)


def test_one_that_cannot_be_started_is_tried_again_and_in_the_end_seldom(
    played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LONGEST_PAUSE_S", 0.008)

    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(SECONDARY))
        node.daemon.failure = "Disk image cannot be opened: it is missing"
        node.daemon.kill()
        await node.until(lambda: node.daemon.failures == 7)
        last = node.said[-1]
        assert last == f"{node.daemon.failure}, again and again: it is started every 0.008 s"
        assert node.said[-2] == last, "told once by Record"
        assert not node.disk.state().serves
        node.daemon.failure = ""
        await node.until(lambda: node.disk.state().serves)

    played(story)


@pytest.mark.parametrize("fails", [False, True], ids=["closed", "closing fails"])
def test_what_is_closed_is_not_started(played: Any, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(daemon: _Daemon) -> None:
        raise BlockDeviceError("The storage daemon 1 does not end")

    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(SECONDARY))
        if fails:
            with monkeypatch.context() as patch:
                patch.setattr(_Daemon, "stop", refuse)
                with pytest.raises(BlockDeviceError):
                    await node.disk.close()
        else:
            node.daemon.kill()  # at the moment at which somebody closes it
            await node.disk.close()
        node.daemon.kill()
        await asyncio.sleep(0.05)
        assert node.daemon.starts == ["disk-0"]
        if fails:
            await node.disk.open(node.opened(SECONDARY))
            assert node.daemon.starts == ["disk-0"] * 2, "somebody wants it again"
            node.daemon.kill()
            await node.until(lambda: len(node.daemon.starts) == 3)

    played(story)


def test_that_of_a_former_primary_comes_back_under_another_name(played: Any) -> None:
    """A guest that was left behind there writes nothing, also where the storage daemon cannot be started at first."""

    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(PRIMARY))
        node.daemon.failure = "Disk image cannot be opened: Cannot allocate memory"
        with pytest.raises(BlockDeviceError, match="Cannot allocate memory"):
            await node.disk.open(replace(node.opened(SECONDARY), generation=TERM))
        node.daemon.failure = ""
        await node.until(lambda: len(node.daemon.starts) == 2)
        assert node.daemon.starts == ["disk-0", "disk-1"]
        assert (node.disk.opened.role, node.disk.opened.lost_to) == (SECONDARY, "node2")

    played(story)


def test_a_primary_that_steps_down_is_no_primary_when_it_comes_back(played: Any) -> None:
    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(PRIMARY))
        node.peers.told = Kept(generation=TERM + 1, valid=True)
        node.daemon.kill()
        await node.until(lambda: node.disk.opened.role == SECONDARY and node.disk.state().serves)
        assert node.daemon.starts[-1] == "disk-1"
        assert not read_kept(node.image).valid

    played(story)


def test_opening_a_disk_starts_one_that_waits_for_its_next_try(played: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_FIRST_PAUSE_S", LONGEST_PAUSE_S)

    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(PRIMARY))
        for _ in range(2):
            node.daemon.kill()
            await asyncio.sleep(0.01)
        assert len(node.daemon.starts) == 2
        await node.disk.open(node.opened(PRIMARY))
        assert len(node.daemon.starts) == 3 and node.disk.state().serves

    played(story)


def test_the_primary_calls_no_copy_equal_that_is_not_served(played: Any) -> None:
    """The guest is idle, so that no write meets the loss."""

    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(PRIMARY))
        await node.disk._copying.mark_equal(EQUAL)
        await node.disk._copying.stop()
        node.peers.serves = False
        await node.disk._copying.look_now()
        assert not node.disk.state().in_sync
        assert node.disk.state().percent is None, "a job that waits for the copy would wait for ever"
        assert "The storage daemon of node node2 has ended: that node starts it again" in node.said
        node.peers.serves = True
        await node.disk._copying.look_now()
        assert node.disk.state().in_sync and node.peers.told.generation == read_kept(node.image).generation

    played(story)


@pytest.mark.parametrize("is_child", [True, False])
def test_the_end_of_a_process_is_seen_whoever_started_it(is_child: bool, tmp_path: Path) -> None:
    places = Places(Paths(str(tmp_path)))
    os.makedirs(places.directory)
    words = [sys.executable, "-c", "input()"]

    async def story() -> None:
        daemon = StorageDaemon(places, "disk", "image")
        assert await daemon.ended() == "has ended", "there is none"
        other = subprocess.Popen(words, stdin=subprocess.PIPE)
        own = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE)
        process = own if is_child else other
        Path(places.file("disk", "pid")).write_text(f"{process.pid} {process_start(process.pid)}\n")
        daemon._process = own if is_child else None
        waiting = asyncio.ensure_future(daemon.ended())
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        begun_s = time.monotonic()
        process.kill()
        assert await waiting == ("was ended by signal 9" if is_child else "has ended")
        assert time.monotonic() - begun_s < 20
        for each in (own, other):
            if each is not process:
                each.kill()
        other.wait()
        await own.wait()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_node_says_of_a_copy_that_it_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gnt-cluster verify` shows it, of the secondary, too."""
    state = State(role=SECONDARY, kept=EQUAL, serves=False)

    async def find(template: ImageFileTemplate, disk: DiskSpec) -> DiskStatus:
        return DiskStatus(dev_path="/disk", size_mib=8)

    async def look(driver: MirroredDisks, disk: DiskSpec, path: str) -> State:
        return state

    monkeypatch.setattr(ImageFileTemplate, "find", find)
    monkeypatch.setattr(MirroredDisks, "_look", look)
    driver = MirroredDisks(RealNodeWorld(Paths(str(tmp_path)), "node2"))
    disk = DiskSpec(
        uuid="disk", template="mirror", logical_id=[], size_mib=8, index=0, copies={"node1": "", "node2": ""}
    )
    found = asyncio.run(driver.find(disk))
    assert found is not None and found.is_degraded
    assert _disk_fault(found, 8).startswith("/disk is not served: its storage daemon has ended")
    state = replace(state, serves=True)
    found = asyncio.run(driver.find(disk))
    assert found is not None and not found.is_degraded and not _disk_fault(found, 8)


class _Question(Question):
    """Of the primary, with the generation and the session that the copy has here."""

    def __init__(self, node: _Node) -> None:
        self.names = {"node2"}
        wanted = Connect(uuid="disk", generation=5, session=node.disk.opened.session)
        self.line = msgspec.json.encode(wanted).decode()
        self.answer = ""

    async def serve(self) -> None:
        self.answer = "served"

    async def refuse(self, sentence: str) -> None:
        self.answer = sentence


def test_one_that_hangs_on_the_secondary_is_replaced_when_the_primary_comes_back(played: Any) -> None:
    """It may yet write what came over an earlier connection."""

    async def story(node: _Node) -> None:
        async def hang(*_: object) -> None:
            raise SilentError("The storage daemon does not answer")

        await node.disk.open(node.opened(SECONDARY))
        session, question = node.disk.opened.session, _Question(node)
        await node.disk.admission.admit(question)
        assert question.answer == "served" and node.daemon.starts == ["disk-0"]
        node.daemon.cut = hang  # type: ignore[method-assign]
        await node.disk.admission.admit(question)
        assert node.daemon.starts == ["disk-0", "disk-0"]
        node.daemon.take = hang  # type: ignore[method-assign]
        with socket.socket() as client:
            await node.disk.admission.take(client)
        assert node.daemon.starts == ["disk-0"] * 3
        assert node.disk.opened.session == session and node.disk.state().serves
        await node.disk.close()

    played(story)


def test_one_that_hangs_is_replaced_although_the_connection_is_given_up(played: Any) -> None:
    """The primary tries again every few seconds, and of connections without a certificate the oldest are let go."""

    async def story(node: _Node) -> None:
        is_silent, taken = asyncio.Event(), []

        async def hang(client: socket.socket) -> None:
            taken.append(client)
            await is_silent.wait()
            assert client.fileno() >= 0
            raise SilentError("The storage daemon does not answer")

        await node.disk.open(node.opened(SECONDARY))
        node.daemon.take = hang  # type: ignore[method-assign]
        with socket.socket() as client:
            taking = asyncio.create_task(node.disk.admission.take(client))
            await node.until(lambda: bool(taken))
            with pytest.raises(BlockDeviceError, match="another connection just now"):
                await node.disk.admission.take(client)
            taking.cancel()
            await asyncio.wait([taking])
        is_silent.set()
        await node.until(partial(_has_started, node, 2))
        assert len(taken) == 1
        await node.until(lambda: taken[0].fileno() < 0)
        with socket.socket() as client:
            await node.disk.admission.take(client)
        assert len(taken) == 2, "the next one gets its turn"
        await node.disk.close()

    played(story)


def test_one_of_the_primary_that_takes_no_connection_goes_on(played: Any) -> None:
    """Strangers can send connections; the guest is served."""

    async def story(node: _Node) -> None:
        async def hang(*_: object) -> None:
            raise SilentError("The storage daemon does not answer")

        await node.disk.open(node.opened(PRIMARY))
        node.daemon.take = hang  # type: ignore[method-assign]
        with socket.socket() as client:
            await node.disk.admission.take(client)
        assert node.daemon.starts == ["disk-0"]
        await node.disk.close()

    played(story)


def test_one_that_has_ended_is_not_started_by_the_primary_that_comes_back(
    played: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started at its pace, ever later; the primary asks every few seconds."""
    monkeypatch.setattr(upkeep, "_FIRST_PAUSE_S", LONGEST_PAUSE_S)

    async def story(node: _Node) -> None:
        async def has_ended() -> None:
            node.daemon.kill()
            raise GoneError("The storage daemon has ended the connection")

        await node.disk.open(node.opened(SECONDARY))
        node.daemon.kill()
        await node.until(partial(_has_started, node, 2))
        node.daemon.cut = has_ended  # type: ignore[method-assign]
        question = _Question(node)
        await node.disk.admission.admit(question)
        assert "has ended: it will be started again" in question.answer
        assert node.daemon.starts == ["disk-0", "disk-0"]
        await node.disk.close()

    played(story)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"generation": 4}, "is secondary on this node with generation 5: writes of generation 4 are refused"),
        ({"session": "former"}, "was opened anew on this node"),
        ({"uuid": "other"}, "Disk other is served elsewhere"),
    ],
)
def test_what_is_older_or_of_another_disk_is_refused(played: Any, change: dict[str, Any], why: str) -> None:
    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(SECONDARY))
        question = _Question(node)
        wanted = msgspec.json.decode(question.line, type=Connect)
        question.line = msgspec.json.encode(replace(wanted, **change)).decode()
        await node.disk.admission.admit(question)
        assert why in question.answer

    played(story)


def test_who_has_no_copy_or_speaks_nonsense_is_refused(played: Any) -> None:
    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(SECONDARY))
        question = _Question(node)
        question.names = {"node3", "cluster"}
        await node.disk.admission.admit(question)
        assert question.answer == "Disk disk has no copy on cluster, node3"
        question.names, question.line = {"node2"}, "GET / HTTP/1.1"
        await node.disk.admission.admit(question)
        assert "cannot be understood" in question.answer

    played(story)


def test_a_primary_admits_nobody(played: Any) -> None:
    async def story(node: _Node) -> None:
        await node.disk.open(node.opened(PRIMARY))
        question = _Question(node)
        await node.disk.admission.admit(question)
        assert "is primary on this node" in question.answer

    played(story)
