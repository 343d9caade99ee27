# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `mirror`: a raw image on each of two nodes, written to both; ganeti-mirrord does the writing.

The logical id is ``["mirror", PATH]``: the same path on both nodes. A guest reaches its disk by the socket of the
disk's storage daemon; a program that needs a file gets one that leads there.
"""

import contextlib
import os
from dataclasses import replace

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_calls.disks import FAULTY, DiskStatus
from ganeti.model.node_requests import AttachedDisk, DiskSpec
from ganeti.model.parameters import Parameter
from ganeti.node.actions.daemons import daemon_util
from ganeti.node.storage import image_io
from ganeti.node.storage.held_images import LostImage, LostImages
from ganeti.node.storage.image_files import MIRROR, ImageFileTemplate, of_image_files, place_if_there
from ganeti.node.storage.image_io import MIB, in_thread
from ganeti.node.storage.interface import GivesBack, Snapshots, Supersedes
from ganeti.node.storage.mirror.client import T, ask
from ganeti.node.storage.mirror.places import Places, kept_file, read_kept
from ganeti.node.storage.mirror.requests import (
    CLOSED,
    PRIMARY,
    SECONDARY,
    AsFile,
    Close,
    Done,
    HandOver,
    Inspect,
    Open,
    Opened,
    OwnRequest,
    Resize,
    State,
    Steal,
    TakeBack,
    TakeOver,
)
from ganeti.node.storage.mirror.snapshots import CopySnapshots
from ganeti.ports.node_world import NodeWorld
from ganeti.system.files import read_if_there, write_atomically

_RECONNECT_S = 30
"""How long a guest's writes wait for its storage daemon to be started again."""
_UNSERVED = (
    "is not served: its storage daemon has ended and is started again and again; mirror-daemon.log of the node says why"
)
_IMAGES = of_image_files(MIRROR)
PARAMETERS = (
    Parameter(
        "resync-rate",
        "int",
        0,
        "KiB in a second that making a copy equal may take from disks and network; 0 is without a limit",
        minimum=0,
        maximum=2**32,
    ),
)


class MirroredDisks(ImageFileTemplate, GivesBack, Supersedes):
    traits = replace(
        _IMAGES,
        formats=(),
        logical_id_driver=MIRROR,
        counts_generations=True,
        served=True,
        parameters=(*_IMAGES.parameters, *PARAMETERS),
    )

    def __init__(self, world: NodeWorld) -> None:
        super().__init__(world)
        self._places = Places(world.paths)

    async def remove(self, disk: DiskSpec) -> None:
        await self.deactivate(disk)
        path = await place_if_there(self.allowed, disk)
        if path is not None:
            await in_thread(_unlink, kept_file(path))
        await super().remove(disk)

    async def activate(self, disk: DiskSpec, owner: str, *, for_migration: bool = False) -> AttachedDisk:
        path = await self.stored_path(disk)
        state = await self._look(disk, path)
        if not for_migration or state.role == CLOSED:
            role = SECONDARY if for_migration else PRIMARY
            export = (await self._ask(Open(disk=self._opened(disk, path, role, owner)), Done)).export
        else:
            export = state.export
        server = {"type": "unix", "path": self._places.socket(disk.uuid)}
        reached = {"driver": "nbd", "server": server, "export": export, "reconnect-delay": _RECONNECT_S}
        return AttachedDisk(spec=disk, path="", blockdev=reached)

    async def as_file(self, attached: AttachedDisk) -> AttachedDisk:
        found = await self._ask(AsFile(uuid=attached.spec.uuid), Done)
        return AttachedDisk(spec=attached.spec, path=found.path)

    async def deactivate(self, disk: DiskSpec) -> None:
        if self._places.is_open(disk.uuid):
            await self._ask(Close(uuid=disk.uuid), Done)

    async def become_secondary(self, disk: DiskSpec) -> None:
        path = await self._path_if_there(disk)
        if path is not None and self.world.node_name in disk.copies:
            await self._ask(Open(disk=self._opened(disk, path, SECONDARY, "")), Done)

    async def hand_over(self, disk: DiskSpec) -> None:
        await self._ask(HandOver(uuid=disk.uuid), Done)

    async def take_over(self, disk: DiskSpec, owner: str) -> None:
        await self._ask(TakeOver(uuid=disk.uuid), Done)

    async def take_back(self, disk: DiskSpec) -> None:
        if self._places.is_open(disk.uuid):
            await self._ask(TakeBack(uuid=disk.uuid), Done)

    async def settle_migration(self, disk: DiskSpec, owner: str, *, arrived: bool) -> None:
        if arrived:
            await self.activate(disk, owner)
        elif self._places.is_open(disk.uuid):
            await self.become_secondary(disk)

    async def steal(self, disk: DiskSpec, owner: str, reason: str) -> None:
        path = await self.stored_path(disk)
        await self._ask(Steal(uuid=disk.uuid, image=path, generation=disk.generation or 0), Done)
        self.world.log(f"disk {path} taken for {owner}: {reason}")

    async def find(self, disk: DiskSpec) -> DiskStatus | None:
        found = await super().find(disk)
        if found is None:
            return None
        state = await self._look(disk, found.dev_path)
        alone = len(disk.copies) < 2
        return DiskStatus(
            dev_path=found.dev_path,
            size_mib=found.size_mib,
            sync_percent=state.percent,
            estimated_time_s=state.seconds_left,
            is_degraded=alone or not (state.serves and (state.in_sync if state.role == PRIMARY else state.kept.valid)),
            ldisk_status=1 if state.kept.valid else FAULTY,
            sync_speed_kib=state.speed_kib,
            generation=state.kept.generation,
            fault="" if state.serves else _UNSERVED,
        )

    async def grow(self, disk: DiskSpec, amount_mib: int, *, in_use: bool = False) -> None:
        await super().grow(disk, amount_mib, in_use=in_use)
        if not self._places.is_open(disk.uuid):
            return
        try:
            await self._ask(Resize(uuid=disk.uuid, size=(disk.size_mib + amount_mib) * MIB), Done)
        except BlockDeviceError:
            await self._give_back(disk)
            raise

    async def _give_back(self, disk: DiskSpec) -> None:
        """The other copy gives back what it has grown by: copies of different sizes would never be equal again.

        The guest has not been told of more space. A storage daemon that has ended opens the image as it is now.
        """
        await in_thread(os.truncate, await self.stored_path(disk), disk.size_mib * MIB)
        with contextlib.suppress(BlockDeviceError):
            await self._ask(Resize(uuid=disk.uuid, size=disk.size_mib * MIB), Done)

    async def ungrow(self, disk: DiskSpec) -> None:
        path, size = await self.stored_path(disk), disk.size_mib * MIB
        if (await self._look(disk, path)).role not in (SECONDARY, CLOSED):
            raise BlockDeviceError(f"Disk {disk.index} is in use here: it is not made smaller")
        if self._places.is_open(disk.uuid):
            await self._ask(Resize(uuid=disk.uuid, size=size), Done)
        else:
            await in_thread(os.truncate, path, size)

    def snapshots(self) -> Snapshots:
        return CopySnapshots(self._place, self.world.node_name, self._places)

    async def lost(self) -> LostImages:
        return LostImages(
            [
                LostImage(disk.owner, f"node {disk.lost_to} was made primary of {disk.image}")
                for disk in await in_thread(self._places.opened)
                if disk.lost_to and disk.role == SECONDARY
            ]
        )

    def owns(self, name: str) -> bool:
        return not super().owns(name)

    def _rename(self, old_path: str, path: str) -> None:
        """The record is at both places while the image changes its own: no interruption parts them."""
        self._make_directory(path)
        record = read_if_there(kept_file(old_path))
        if record is not None:
            write_atomically(kept_file(path), record, mode=0o600)
        super()._rename(old_path, path)

    def _remove_directory(self, path: str) -> None:
        """A record alone, whose image has another name now or was never complete, keeps no directory."""
        if not os.path.exists(path):
            _unlink(kept_file(path))
        super()._remove_directory(path)

    async def _look(self, disk: DiskSpec, path: str) -> State:
        if not self._places.is_open(disk.uuid):
            return State(role=CLOSED, kept=await in_thread(read_kept, path))
        return await self._ask(Inspect(uuid=disk.uuid, image=path), State)

    async def _ask(self, request: OwnRequest, answer: type[T]) -> T:
        return await ask(self.world, daemon_util(), request, answer)

    async def _path_if_there(self, disk: DiskSpec) -> str | None:
        """None where no copy is kept, or was ever allowed to be."""
        path = await place_if_there(self.allowed, disk)
        return path if path is not None and await self._size(path, disk) is not None else None

    def _opened(self, disk: DiskSpec, path: str, role: str, owner: str) -> Opened:
        others = {name: address for name, address in disk.copies.items() if name != self.world.node_name}
        peer, address = next(iter(others.items()), ("", ""))
        return Opened(
            uuid=disk.uuid,
            image=path,
            role=role,
            owner=owner,
            generation=disk.generation or 0,
            rate_kib=int(disk.params.get("resync-rate", 0)),
            peer=peer,
            address=address,
        )


def _unlink(path: str) -> None:
    try:
        image_io.unlink(path)
    except FileNotFoundError:
        return
