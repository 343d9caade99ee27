# SPDX-License-Identifier: BSD-2-Clause
"""A loss of the other copy is written down before the guest goes on, whatever else happens at that moment."""

import asyncio
import errno
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.mirrord import disk as disks
from ganeti.mirrord import record, relay
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.link import Link
from ganeti.mirrord.peers import Peers
from ganeti.mirrord.storage_daemon import Job, StorageDaemon
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.mirror.requests import PRIMARY, Kept, Opened

EQUAL = Kept(generation=5, valid=True)


class _Daemon(StorageDaemon):
    def process_id(self) -> int:
        return 1

    async def ended(self) -> str:
        await asyncio.Event().wait()
        return ""

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


@pytest.mark.parametrize("wanted", ["another second node", "handing over"])
def test_the_copies_are_looked_after_where_the_job_does_not_end(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(daemon: StorageDaemon) -> bool:
        raise HypervisorError("The mirror job does not end")

    async def ready(daemon: StorageDaemon) -> Job:
        return Job("ready", ready=True)

    monkeypatch.setattr(_Daemon, "detach", endless)
    monkeypatch.setattr(_Daemon, "job", ready)

    async def play() -> None:
        primary = _Primary(tmp_path)
        await primary.begin()
        with pytest.raises(HypervisorError):
            if wanted == "handing over":
                await primary.disk.hand_over()
            else:
                await primary.disk.open(replace(primary.disk.opened, peer="node3", address="there"))
        assert primary.disk._copying._task is not None
        await primary.disk._copying.stop()

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.parametrize("fault", ["no descriptor", "no thread", "the relay fails", "silence"])
def test_a_loss_is_noted_before_the_storage_daemon_sees_the_end(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU connects again at once: where the node hangs, it is refused by then."""
    noted = []

    class _Connecting(_Peers):
        async def connect(self, disk: Opened, generation: int) -> Any:
            far, self.node = socket.socketpair()
            return SimpleNamespace(sock=far)

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files") if fault == "no descriptor" else RuntimeError(fault)

    if fault == "no descriptor":
        monkeypatch.setattr(relay.os, "eventfd", fail)
    elif fault == "no thread":
        monkeypatch.setattr(relay.threading.Thread, "start", fail)
    elif fault == "the relay fails":
        monkeypatch.setattr(relay._Carrier, "_carry", fail)
    else:
        monkeypatch.setattr(relay, "SILENCE_S", 0.1)

    async def play() -> None:
        primary, loop = _Primary(tmp_path), asyncio.get_running_loop()
        peers = _Connecting()

        async def lost() -> None:
            with pytest.raises(BlockingIOError):
                daemon.recv(1)
            noted.append(fault)

        link = Link(primary.disk._record, peers, lost)
        near, daemon = socket.socketpair()
        daemon.setblocking(False)
        near.setblocking(False)
        entering = asyncio.create_task(link._enter(near))
        assert await loop.sock_recv(daemon, 1) == b""
        assert noted == [fault]
        if fault == "silence":
            assert link._refused_until_s > loop.time()
        await asyncio.wait([entering])
        if error := entering.exception():
            assert isinstance(error, RuntimeError)
        with peers.node, daemon:
            assert peers.node.recv(1) == b""

    asyncio.run(asyncio.wait_for(play(), 60))
