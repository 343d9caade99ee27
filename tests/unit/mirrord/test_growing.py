# SPDX-License-Identifier: BSD-2-Clause
"""A disk whose growing is broken off is shown again, and never while a copy that is parted from it counts as equal."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.equal_copies import EQUAL, EqualDaemon, EqualPeers, FullAtFirst

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.mirrord import record, storage_daemon
from ganeti.mirrord.commands import RefusedError, SilentError
from ganeti.mirrord.copying import Copying
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.storage_daemon import ALONE, COPYING, Status
from ganeti.node.storage.mirror.places import Places, read_kept, write_kept
from ganeti.node.storage.mirror.requests import PRIMARY, Opened

SIZE = 4096


class _Daemon(EqualDaemon):
    """Knows whether it is shown and joined, and with which generation it was shown."""

    export, runs, state = "disk-0", True, storage_daemon.EQUAL
    parted = 0

    def __init__(self, places: Places, uuid: str, image: str) -> None:
        super().__init__(places, uuid, image)
        self.shown: list[tuple[str, int]] = []

    def process_id(self) -> int | None:
        return 1 if self.runs else None

    async def ended(self) -> str:
        while self.runs:  # noqa: ASYNC110 (of a test)
            await asyncio.sleep(0.001)
        return "has ended"

    async def prepare(self) -> None:
        if not self.runs:
            self.runs, self.state = True, ALONE

    async def stop(self) -> None:
        self.runs, self.export = False, ""

    async def show_export(self, export: str) -> None:
        self.export = export
        self.shown.append((self.state, read_kept(self._image).generation))

    async def withdraw_export(self) -> None:
        self.export = ""

    async def status(self) -> Status:
        return Status(self.state, export=self.export)

    async def attach(self, disk: Opened, generation: int, export: str, copy: str) -> None:
        self.state = storage_daemon.EQUAL

    async def detach(self) -> bool:
        self.state, self.parted = ALONE, self.parted + 1
        return True

    async def resize(self, size: int) -> None:
        return


class _Primary:
    """A disk in use here whose other copy is equal."""

    def __init__(self, root: Path) -> None:
        places = Places(Paths(str(root)))
        os.makedirs(places.directory)
        self.image = str(root / "image")
        Path(self.image).touch()
        write_kept(self.image, EQUAL)
        opened = Opened(
            uuid="disk", image=self.image, role=PRIMARY, peer="node2", address="here", export=_Daemon.export
        )
        self.disk = Disk(Surroundings(places, EqualPeers(), _Daemon), opened)
        assert isinstance(self.disk._daemon, _Daemon)
        self.daemon = self.disk._daemon

    async def begin(self) -> None:
        await self.disk._copying.mark_equal(EQUAL)
        self.disk._upkeep.start()

    async def end(self) -> None:
        await self.disk._upkeep.stop()
        await self.disk._copying.stop()


def play(root: Path, story: Callable[[_Primary], Awaitable[None]]) -> None:
    async def played() -> None:
        primary = _Primary(root)
        await primary.begin()
        await story(primary)
        await primary.end()

    asyncio.run(asyncio.wait_for(played(), 60))


def _raising(error: Exception) -> Callable[..., Any]:
    async def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (_Daemon, "resize", RefusedError("it cannot grow")),
        (Copying, "attach", OSError(errno.ENOSPC, "No space left on device")),
        (_Daemon, "detach", SilentError("The storage daemon does not answer")),
    ],
)
def test_the_guest_writes_alone_only_once_the_other_copy_counts_as_behind(
    owner: type, name: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(primary: _Primary) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, _raising(error))
            with pytest.raises(type(error)):
                await primary.disk.resize(SIZE)
        assert [generation for _, generation in primary.daemon.shown] == [EQUAL.generation + 1]
        assert primary.disk._copying._task is not None

    play(tmp_path, story)


def test_one_whose_loss_cannot_be_noted_is_shown_once_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(primary: _Primary) -> None:
        monkeypatch.setattr(record, "write_kept", FullAtFirst(2))
        with monkeypatch.context() as patch:
            patch.setattr(_Daemon, "resize", _raising(RefusedError("it cannot grow")))
            with pytest.raises(OSError, match="No space left"):
                await primary.disk.resize(SIZE)
        assert not primary.daemon.shown
        async with asyncio.timeout(60):
            while not primary.daemon.shown:  # noqa: ASYNC110 (of a test)
                await asyncio.sleep(0.001)
        assert primary.daemon.shown[0] == (ALONE, EQUAL.generation + 1)

    play(tmp_path, story)


def test_one_that_does_not_answer_when_it_is_hidden_is_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(daemon: _Daemon) -> None:
        daemon.export = ""
        raise SilentError("The storage daemon does not answer 'hide' within 30 s")

    async def story(primary: _Primary) -> None:
        monkeypatch.setattr(_Daemon, "withdraw_export", silent)
        with pytest.raises(SilentError, match="hide"):
            await primary.disk.resize(SIZE)
        assert primary.daemon.export == primary.disk.opened.export
        assert primary.daemon.shown == [(storage_daemon.EQUAL, EQUAL.generation)], "nothing was parted"

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("state", "generation"), [(storage_daemon.EQUAL, EQUAL.generation), (ALONE, EQUAL.generation + 1)]
)
def test_a_disk_that_was_left_hidden_is_shown_by_opening_it_again(state: str, generation: int, tmp_path: Path) -> None:
    async def story(primary: _Primary) -> None:
        primary.daemon.export, primary.daemon.state = "", state
        await primary.disk.open(primary.disk.opened)
        assert primary.daemon.shown == [(state, generation)]
        await primary.disk.open(primary.disk.opened)
        assert len(primary.daemon.shown) == 1

    play(tmp_path, story)


def test_a_copy_that_is_made_equal_again_is_not_handed_over(tmp_path: Path) -> None:
    """It was equal at the last look, and was lost and joined since then."""

    async def story(primary: _Primary) -> None:
        primary.daemon.state = COPYING
        with pytest.raises(BlockDeviceError, match="is not up to date"):
            await primary.disk.hand_over()
        assert not primary.daemon.parted

    play(tmp_path, story)
