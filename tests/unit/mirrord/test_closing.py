# SPDX-License-Identifier: BSD-2-Clause
"""A disk is closed on a full file system, too; one that cannot be closed is still known, and can be opened again."""

import asyncio
import errno
import os
from pathlib import Path

import msgspec
import pytest
from tests.fakes.equal_copies import EQUAL, EqualPeers, RunningDaemon

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.mirrord import record
from ganeti.mirrord.commands import GoneError
from ganeti.mirrord.disk import Surroundings
from ganeti.mirrord.server import Server
from ganeti.mirrord.storage_daemon import StorageDaemon
from ganeti.node.storage.mirror import places
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.mirror.requests import (
    CLOSED,
    PRIMARY,
    Close,
    Inspect,
    Kept,
    Open,
    Opened,
    Refusal,
    Resize,
    State,
)


class _Daemon(RunningDaemon):
    """Runs, and ends when it may."""

    made = 0
    may_end = True
    runs = False

    def __init__(self, places: Places, uuid: str, image: str) -> None:
        super().__init__(places, uuid, image)
        _Daemon.made += 1

    async def stop(self) -> None:
        if not self.may_end:
            raise BlockDeviceError("The storage daemon 1 does not end")
        await super().stop()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    places = Places(Paths(str(tmp_path)))
    os.makedirs(places.directory)
    (tmp_path / "image").touch()
    write_kept(str(tmp_path / "image"), EQUAL)
    monkeypatch.setattr(_Daemon, "made", 0)
    monkeypatch.setattr(_Daemon, "may_end", True)
    return Server(Surroundings(places, EqualPeers(), _Daemon))


def opened(root: Path) -> Opened:
    return Opened(uuid="disk", image=str(root / "image"), role=PRIMARY, owner="web1", peer="node2", address="here")


async def role(server: Server, root: Path) -> str:
    found = await server.carry_out(Inspect(uuid="disk", image=str(root / "image")))
    assert isinstance(found, State)
    return found.role


def test_a_full_file_system_keeps_no_disk_open(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        await server.carry_out(Open(disk=opened(tmp_path)))

        def full(image: str, kept: Kept) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(record, "write_kept", full)
        await server.carry_out(Close(uuid="disk"))
        assert await role(server, tmp_path) == CLOSED
        assert not read_kept(str(tmp_path / "image")).clean, "the copies count as unequal at the next opening"

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_full_file_system_is_named(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said "[Errno 28] No space left on device"."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(places, "write_atomically", full)
    with pytest.raises(BlockDeviceError) as error:
        write_kept(str(tmp_path / "image"), EQUAL)
    assert str(error.value) == (
        f"{tmp_path}/image.mirror cannot be written: No space left on device; see that its file system has room and "
        "takes writes"
    )


def test_a_storage_daemon_that_ends_in_the_midst_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(daemon: StorageDaemon, size: int) -> None:
        raise GoneError("The storage daemon has ended the connection")

    monkeypatch.setattr(_Daemon, "resize", gone)

    async def play() -> None:
        await server.carry_out(Open(disk=opened(tmp_path)))
        answer = await server._answered(msgspec.json.encode(Resize(uuid="disk", size=8)))
        assert msgspec.json.decode(answer, type=Refusal).error == (
            "The storage daemon has ended and is started again: try again (The storage daemon has ended the connection)"
        )

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_disk_that_cannot_be_closed_is_opened_again_by_the_same_storage_daemon(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second object for it would take the connection away from the first one, whose commands wait for answers."""

    async def play() -> None:
        await server.carry_out(Open(disk=opened(tmp_path)))
        monkeypatch.setattr(_Daemon, "may_end", False)
        with pytest.raises(BlockDeviceError, match="does not end"):
            await server.carry_out(Close(uuid="disk"))
        assert await role(server, tmp_path) == PRIMARY
        await server.carry_out(Open(disk=opened(tmp_path)))
        assert _Daemon.made == 1
        disk = server._disks["disk"]
        assert disk._copying._task is not None, "writes go to both copies again"
        monkeypatch.setattr(_Daemon, "may_end", True)
        await server.carry_out(Close(uuid="disk"))
        assert await role(server, tmp_path) == CLOSED

    asyncio.run(asyncio.wait_for(play(), 60))
