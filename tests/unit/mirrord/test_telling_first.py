# SPDX-License-Identifier: BSD-2-Clause
"""A guest goes on with one copy once the master knows of it, however the other copy was lost: a failover is refused."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.equal_copies import EQUAL, EqualPeers, RunningDaemon

from ganeti.base.errors import BlockDeviceError
from ganeti.base.paths import Paths
from ganeti.mirrord import storage_daemon
from ganeti.mirrord.commands import RefusedError
from ganeti.mirrord.copying import Copying
from ganeti.mirrord.disk import Disk, Surroundings
from ganeti.mirrord.loss_reports import LossReporter
from ganeti.mirrord.storage_daemon import ALONE, Status, StorageDaemon
from ganeti.node.storage.mirror.places import Places, write_kept
from ganeti.node.storage.mirror.requests import PRIMARY, SECONDARY, Opened


class _Reporter(LossReporter):
    """The master knows what it was told when it may."""

    def __init__(self) -> None:
        self.noted: list[int] = []
        self.is_asked, self.may_know = asyncio.Event(), asyncio.Event()

    def note(self, disk: Opened, generation: int) -> None:
        self.noted.append(generation)

    async def wait(self, disk: Opened) -> None:
        self.is_asked.set()
        await self.may_know.wait()


class _Daemon(RunningDaemon):
    """What was *done* lets a guest write to this copy alone."""

    found = Status(storage_daemon.EQUAL, export="disk-0")

    def __init__(self, places: Places, uuid: str, image: str) -> None:
        super().__init__(places, uuid, image)
        self.done: list[str] = []

    async def status(self) -> Status:
        return self.found

    async def show_export(self, export: str) -> None:
        self.done.append("show")

    async def detach(self) -> bool:
        self.done.append("detach")
        return True

    async def resize(self, size: int) -> None:
        raise RefusedError("it cannot grow")


class _Node:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        places = Places(Paths(str(root)))
        os.makedirs(places.directory)
        image = str(root / "image")
        Path(image).touch()
        write_kept(image, EQUAL)
        self.opened = Opened(
            uuid="disk", image=image, role=PRIMARY, peer="node2", address="here", export="disk-0", generation=5
        )
        self.reporter, self.monkeypatch = _Reporter(), monkeypatch
        self.disk = Disk(Surroundings(places, EqualPeers(), _Daemon, self.reporter), self.opened)
        assert isinstance(self.disk._daemon, _Daemon)
        self.daemon = self.disk._daemon

    async def end(self) -> None:
        await self.disk._upkeep.stop()
        await self.disk._copying.stop()


async def _storage_daemon_is_killed(node: _Node) -> None:
    node.daemon.runs = False
    async with node.disk._lock:
        await node.disk._upkeep.bring_back()


async def _another_second_node(node: _Node) -> None:
    await node.disk.open(replace(node.opened, peer="node3", address="there"))


async def _the_other_copy_was_opened_anew(node: _Node) -> None:
    node.disk._record.note_marked(EQUAL.generation, "former session")
    async with node.disk._lock:
        await node.disk._copying.look_now()


async def _opened_without_the_other_node(node: _Node) -> None:
    async def unreachable(copying: Copying, *, equal: bool) -> None:
        raise BlockDeviceError("Node node2 does not answer")

    node.disk._record.opened = replace(node.opened, role=SECONDARY)
    node.daemon.found = Status(ALONE)
    node.monkeypatch.setattr(Copying, "attach", unreachable)
    await node.disk.open(node.opened)


async def _growing_is_refused(node: _Node) -> None:
    async def parted(daemon: StorageDaemon) -> bool:
        return True

    node.monkeypatch.setattr(_Daemon, "detach", parted)
    with pytest.raises(RefusedError):
        await node.disk.resize(8192)


@pytest.mark.parametrize(
    ("lose", "done"),
    [
        (_storage_daemon_is_killed, "show"),
        (_another_second_node, "detach"),
        (_the_other_copy_was_opened_anew, "detach"),
        (_opened_without_the_other_node, "show"),
        (_growing_is_refused, "show"),
    ],
)
def test_the_master_is_told_first(
    lose: Callable[[_Node], Coroutine[Any, Any, None]], done: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        node = _Node(tmp_path, monkeypatch)
        losing = asyncio.ensure_future(lose(node))
        asking = asyncio.ensure_future(node.reporter.is_asked.wait())
        await asyncio.wait([losing, asking], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.01)
        assert node.reporter.noted == [EQUAL.generation + 1]
        assert not node.daemon.done and not losing.done()
        node.reporter.may_know.set()
        await losing
        asking.cancel()
        assert node.daemon.done == [done]
        await node.end()

    asyncio.run(asyncio.wait_for(play(), 60))
