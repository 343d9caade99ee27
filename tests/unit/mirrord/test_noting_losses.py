# SPDX-License-Identifier: BSD-2-Clause
"""A loss of the other copy is written down before the guest goes on, whatever else happens at that moment."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes.equal_copies import EQUAL, EqualDaemon

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.mirrord import disk as disks
from ganeti.mirrord import record
from ganeti.mirrord.commands import SilentError
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.storage_daemon import ALONE, LOSING, LOST, Status, StorageDaemon
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.mirror.requests import PRIMARY, SECONDARY, Kept, Opened, State


class _Daemon(EqualDaemon):
    async def prepare(self) -> None:
        return

    def process_id(self) -> int:
        return 1

    async def ended(self) -> str:
        await asyncio.Event().wait()
        return ""

    async def detach(self) -> bool:
        self.at_the_end = read_kept(self._image).generation
        return True


class _Peers(Peers):
    """The other node hears of *told*, and answers when it may."""

    def __init__(self) -> None:
        self.told: list[Kept] = []
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def mark(self, disk: Opened, kept: Kept) -> None:
        self.told.append(kept)
        self.is_asked.set()
        await self.may_answer.wait()


class _Primary:
    """A disk in use here whose other copy is equal, and was told so."""

    def __init__(self, root: Path) -> None:
        places = Places(Paths(str(root)))
        os.makedirs(places.directory)
        self.image = str(root / "image")
        Path(self.image).touch()
        write_kept(self.image, EQUAL)
        self.peers = _Peers()
        opened = Opened(uuid="disk", image=self.image, role=PRIMARY, owner="web1", peer="node2", address="here")
        self.disk = Disk(Surroundings(places, self.peers, _Daemon), opened)

    async def begin(self) -> None:
        self.peers.may_answer.set()
        await self.disk._copying.mark_equal(EQUAL)
        assert self.disk.state().in_sync
        self.peers.may_answer.clear()
        self.peers.is_asked.clear()

    @property
    def generation(self) -> int:
        return read_kept(self.image).generation


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("no thread")])
def test_the_guest_waits_until_a_loss_can_be_written_down(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def full(image: str, kept: Kept) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise fault
        write_kept(image, kept)

    monkeypatch.setattr(record, "write_kept", full)
    monkeypatch.setattr(disks, "_AGAIN_S", 0.01)

    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.begin()
        await primary.disk.note_loss()
        assert tries == 3
        assert primary.generation == EQUAL.generation + 1
        assert not primary.disk.state().in_sync

    asyncio.run(asyncio.wait_for(play(), 60))


def test_others_go_on_while_a_loss_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second connection waits for the same write; one whose user has gone is not overtaken by a later one."""
    may_end, has_begun, written = threading.Event(), threading.Event(), []

    def slow(image: str, kept: Kept) -> None:
        has_begun.set()
        assert may_end.wait(60)
        written.append(kept.generation)
        write_kept(image, kept)

    monkeypatch.setattr(record, "write_kept", slow)

    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.begin()
        losses = [asyncio.ensure_future(primary.disk.note_loss()) for _ in range(2)]
        assert await asyncio.to_thread(has_begun.wait, 60)
        assert not any(loss.done() for loss in losses)
        losses[0].cancel()
        later = asyncio.ensure_future(primary.disk._record.keep(Kept(generation=9, valid=True)))
        await asyncio.wait(losses[:1])
        may_end.set()
        await asyncio.gather(losses[1], later)
        assert written == [6, 9]
        assert primary.generation == 9

    try:
        asyncio.run(asyncio.wait_for(play(), 60))
    finally:
        may_end.set()


def test_a_copy_that_is_lost_while_it_is_told_that_it_is_equal_is_not(tmp_path: Path) -> None:
    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.begin()
        raising = asyncio.ensure_future(primary.disk._next_generation())
        await primary.peers.is_asked.wait()
        await primary.disk.note_loss()
        primary.peers.may_answer.set()
        await raising
        assert not primary.disk.state().in_sync
        assert primary.generation == primary.peers.told[-1].generation + 1

    asyncio.run(asyncio.wait_for(play(), 60))


def test_the_copy_of_a_former_second_node_is_older_before_it_is_left(tmp_path: Path) -> None:
    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.begin()
        wanted = replace(primary.disk.opened, peer="node3", address="there")
        await primary.disk.open(wanted)
        await primary.disk._copying.stop()
        assert isinstance(primary.disk._daemon, _Daemon)
        assert primary.disk._daemon.at_the_end > EQUAL.generation
        assert primary.disk.opened.peer == "node3"

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("wanted", ["another second node", "handing over"])
def test_the_copies_are_looked_after_where_they_cannot_be_parted(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(daemon: StorageDaemon) -> bool:
        raise SilentError("The storage daemon does not answer")

    monkeypatch.setattr(_Daemon, "detach", endless)

    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.begin()
        with pytest.raises(SilentError):
            if wanted == "handing over":
                await primary.disk.hand_over()
            else:
                await primary.disk.open(replace(primary.disk.opened, peer="node3", address="there"))
        assert primary.disk._copying._task is not None
        await primary.disk._copying.stop()

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_loss_that_was_not_noted_before_a_restart_is_noted_before_it_is_said_to_be(tmp_path: Path) -> None:
    """The storage daemon tells of it as soon as it is connected to, before anybody has looked at the disk."""

    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.disk._hear_of_loss("node2 does not answer")
        assert primary.generation == EQUAL.generation + 1

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("state", [ALONE, LOST, LOSING])
def test_a_restarted_one_notes_the_loss_before_a_new_storage_daemon_serves(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []

    async def found(daemon: StorageDaemon) -> Status:
        return Status(state)

    async def show(daemon: StorageDaemon, export: str) -> None:
        shown.append(read_kept(daemon._image).generation)

    monkeypatch.setattr(_Daemon, "status", found)
    monkeypatch.setattr(_Daemon, "show_export", show)

    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.disk.go_on()
        await primary.disk._copying.stop()
        await primary.disk._upkeep.stop()
        assert shown == [EQUAL.generation + 1]

    asyncio.run(asyncio.wait_for(play(), 60))


def test_one_whose_loss_cannot_be_noted_after_a_restart_serves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    def full(image: str, kept: Kept) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def alone(daemon: StorageDaemon) -> Status:
        return Status(ALONE)

    async def stop(daemon: StorageDaemon) -> None:
        ended.append(daemon)

    monkeypatch.setattr(record, "write_kept", full)
    monkeypatch.setattr(_Daemon, "status", alone)
    monkeypatch.setattr(_Daemon, "stop", stop)

    async def play() -> None:
        primary = _Primary(tmp_path)
        with pytest.raises(OSError, match="No space left"):
            await primary.disk.go_on()
        await primary.disk._copying.stop()
        await primary.disk._upkeep.stop()
        assert ended

    asyncio.run(asyncio.wait_for(play(), 60))


def test_copies_are_not_called_equal_that_were_parted_since_they_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest has gone on with one copy when the other node answers."""

    async def play() -> None:
        primary = _Primary(tmp_path)
        primary.disk._copying._trusted = False  # while it was copied to

        async def state(disk: Opened) -> State:
            await primary.disk.note_loss()
            return State(role=SECONDARY, kept=Kept(generation=5), session=disk.marked_session)

        monkeypatch.setattr(primary.peers, "state", state)
        primary.disk._record.note_marked(5, "session")
        await primary.disk._copying.look_now()
        assert not primary.peers.told and not primary.disk.state().in_sync

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_primary_whose_opening_failed_notes_that_the_other_copy_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not write down that it goes on alone; what is opened once more has a guest that writes."""

    async def unreachable(disk: Opened) -> State:
        raise BlockDeviceError("Node node2 does not answer")

    def full(image: str, kept: Kept) -> None:
        if kept.generation > EQUAL.generation:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_kept(image, kept)

    async def alone(daemon: StorageDaemon) -> Status:
        return Status(ALONE)

    monkeypatch.setattr(_Daemon, "status", alone)

    async def play() -> None:
        primary = _Primary(tmp_path)
        monkeypatch.setattr(primary.peers, "state", unreachable)
        wanted, primary.disk._record.opened = primary.disk.opened, replace(primary.disk.opened, role=SECONDARY)
        primary.disk._copying._trusted = False
        with monkeypatch.context() as patch:
            patch.setattr(record, "write_kept", full)
            with pytest.raises(OSError, match="No space left"):
                await primary.disk.open(wanted)
        await primary.disk.open(wanted)
        await primary.disk._copying.stop()
        await primary.disk._upkeep.stop()
        assert primary.generation == EQUAL.generation + 1

    asyncio.run(asyncio.wait_for(play(), 60))
