# SPDX-License-Identifier: BSD-2-Clause
"""A loss of the other copy is written down before the guest goes on, whatever else happens at that moment."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from ganeti.base.paths import Paths
from ganeti.mirrord import disk as disks
from ganeti.mirrord import record
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.storage_daemon import Job, StorageDaemon
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.mirror.requests import PRIMARY, Kept, Opened

EQUAL = Kept(generation=5, valid=True)


class _Daemon(StorageDaemon):
    async def job(self) -> Job:
        return Job("standby", ready=True, is_paused=True)

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


def test_the_guest_waits_until_a_loss_can_be_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def full(image: str, kept: Kept) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
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


def test_the_copy_of_a_former_second_node_is_older_before_the_job_to_it_ends(tmp_path: Path) -> None:
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
