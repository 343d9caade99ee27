# SPDX-License-Identifier: BSD-2-Clause
"""The disks of a running guest as they were at one moment, to be read while it writes on.

QEMU gets a filter above each disk that saves a block into a scratch file before the guest overwrites it, shows the
disk without these changes by NBD, and counts changes in dirty bitmaps named after backups. Where a block cannot be
saved the moment is given up, never the guest's write. Nodes, exports and bitmaps have names of their own, so the
successor of a killed daemon finds and ends them. In a qcow2 image a bitmap is kept when the guest ends.
"""

import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.model.node_requests import InstanceSpec
from ganeti.node.backups import nbd
from ganeti.node.backups.nbd import NbdSource
from ganeti.node.backups.room import require_scratch
from ganeti.node.hypervisors.interface import FrozenViews
from ganeti.node.hypervisors.kvm import plugging, sockets
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError
from ganeti.node.hypervisors.kvm.record import DiskPlace, RuntimeRecord
from ganeti.ports.node_world import NodeWorld
from ganeti.wire.sealing import CHUNK_BYTES

_FIRST_SET = 1500
_SAVED, _FILTER, _SHOWN, _EXPORT = "moment-saved", "moment-filter", "moment-shown", "moment-export"
_BITMAP = "ganeti-backup-"
_MERGED = "ganeti-moment"
_SAVE_S = 30
"""How long a write of the guest waits for a block to be saved before the moment is given up."""
_MAP_S = 600.0
_SOCKET = "nbd"
_PAUSED_NOTE = "paused"


class KvmFrozenViews(FrozenViews):
    """*running* gives a guest's process and record; raises `HypervisorError` for one that does not run."""

    def __init__(
        self, world: NodeWorld, places: Places, running: Callable[[str], tuple[GuestProcess, RuntimeRecord]]
    ) -> None:
        self._world, self._places, self._running = world, places, running

    async def open(self, spec: InstanceSpec, *, mark: str, since: str) -> list[bool]:
        known = self._known(spec)
        await self.close(spec.name, kept=since)
        require_scratch(self._places.paths.backup_scratch_dir, f"The backup of {spec.name}")
        async with Qmp(self._places.socket(spec.name, "qmp")) as qmp:
            disks = list(enumerate(known.disks))
            counted = [await self._prepare(qmp, spec.name, *disk, mark, since) for disk in disks]
            async with self._at_one_moment(qmp, spec.name, len(disks)):
                for number, place in disks:
                    await _set_drive(qmp, place, f"{_FILTER}{number}")
            for number, place in disks:
                await self._show(qmp, number, place, since if counted[number] else "")
            await self._serve(qmp, spec.name)
            for number, place in disks:
                await _export(qmp, number, place, merged=counted[number])
        return counted

    async def close(self, name: str, *, kept: str) -> None:
        try:
            _, known = self._running(name)
        except HypervisorError:
            self._forget_files(name)
            return
        async with Qmp(self._places.socket(name, "qmp")) as qmp:
            if os.path.exists(self._note(name)):
                await qmp.execute("cont")
            for export in await qmp.execute("query-block-exports"):
                if export["id"].startswith(_EXPORT):
                    await _tolerating(qmp, "block-export-del", {"id": export["id"], "mode": "hard"})
            await _tolerating(qmp, "nbd-server-stop", {})
            nodes = {str(node.get("node-name", "")) for node in await _nodes(qmp)}
            for number, place in enumerate(known.disks):
                if f"{_SHOWN}{number}" in nodes:
                    await _tolerating(qmp, "blockdev-del", {"node-name": f"{_SHOWN}{number}"})
                if f"{_FILTER}{number}" in nodes:
                    await _set_drive(qmp, place, place.node_name)
                    await qmp.execute("blockdev-del", {"node-name": f"{_FILTER}{number}"})
                if f"{_SAVED}{number}" in nodes:
                    await qmp.execute("blockdev-del", {"node-name": f"{_SAVED}{number}"})
            for entry in await qmp.execute("query-fdsets"):
                if _FIRST_SET <= entry["fdset-id"] < _FIRST_SET + len(known.disks):
                    await _tolerating(qmp, "remove-fd", {"fdset-id": entry["fdset-id"]})
            own = {place.node_name for place in known.disks}
            for node in await _nodes(qmp):
                for bitmap in node.get("dirty-bitmaps", ()) if node.get("node-name") in own else ():
                    if _is_ours(bitmap.get("name", "")) and bitmap["name"] != f"{_BITMAP}{kept}":
                        where = {"node": node["node-name"], "name": bitmap["name"]}
                        await qmp.execute("block-dirty-bitmap-remove", where)
        self._forget_files(name)

    @contextlib.asynccontextmanager
    async def reading(self, name: str, disk: int) -> AsyncIterator[NbdSource]:
        require_scratch(self._places.paths.backup_scratch_dir, f"The backup of {name}")
        try:
            connection = await sockets.connect(self._places.socket(name, _SOCKET))
        except OSError as err:
            raise HypervisorError(
                f"There is no frozen view of the disks of {name}: {err.strerror}. Begin the backup again"
            ) from err
        async with nbd.opened(connection, f"{_EXPORT}{disk}") as source:
            yield source

    def _known(self, spec: InstanceSpec) -> RuntimeRecord:
        _, known = self._running(spec.name)
        if [place.uuid for place in known.disks] != [disk.uuid for disk in spec.disks]:
            raise HypervisorError(f"{spec.name} runs with other disks than it has in the configuration: start it again")
        return known

    async def _prepare(self, qmp: Qmp, name: str, number: int, place: DiskPlace, mark: str, since: str) -> bool:
        """Begin to count, and make the filter; says whether changes since *since* have been counted."""
        node = next(each for each in await _nodes(qmp) if each.get("node-name") == place.node_name)
        there = {bitmap["name"]: bitmap for bitmap in node.get("dirty-bitmaps", ())}
        bitmap = {"node": place.node_name, "name": f"{_BITMAP}{mark}", "granularity": CHUNK_BYTES}
        await qmp.execute("block-dirty-bitmap-add", bitmap | {"persistent": node["drv"] == "qcow2"})
        await self._save_into(qmp, name, number, node["image"]["virtual-size"])
        wanted = {"driver": "copy-before-write", "node-name": f"{_FILTER}{number}", "file": place.node_name}
        wanted |= {"target": f"{_SAVED}{number}", "on-cbw-error": "break-snapshot"}
        await qmp.execute("blockdev-add", wanted | {"cbw-timeout": _SAVE_S})
        former = there.get(f"{_BITMAP}{since}") if since else None
        return former is not None and not former.get("inconsistent", False)

    async def _save_into(self, qmp: Qmp, name: str, number: int, size: int) -> None:
        path = self._scratch(name, number)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            os.truncate(path, size)
        except OSError as err:
            raise HypervisorError(f"The scratch file {path} cannot be made: {err.strerror}") from err
        what = f"The scratch file of disk {number}"
        shown = await plugging.hand_over(qmp, _FIRST_SET + number, path, what, [os.O_RDONLY, os.O_RDWR])
        file = {"driver": "file", "filename": shown, "locking": "off"}
        await qmp.execute("blockdev-add", {"driver": "raw", "node-name": f"{_SAVED}{number}", "file": file})

    @contextlib.asynccontextmanager
    async def _at_one_moment(self, qmp: Qmp, name: str, disks: int) -> AsyncIterator[None]:
        """Hold a guest with several disks for as long as that takes; a note has it go on whatever happens."""
        if disks < 2 or not (await qmp.execute("query-status"))["running"]:
            yield
            return
        with open(self._note(name), "wb"):
            pass
        await qmp.execute("stop")
        try:
            yield
        finally:
            await qmp.execute("cont")
            os.unlink(self._note(name))

    async def _show(self, qmp: Qmp, number: int, place: DiskPlace, since: str) -> None:
        """What has changed up to the moment is in the former bitmap, which counts on: more than that does no harm."""
        shown = {"driver": "snapshot-access", "node-name": f"{_SHOWN}{number}", "file": f"{_FILTER}{number}"}
        await qmp.execute("blockdev-add", shown)
        if since:
            merged = {"node": place.node_name, "name": _MERGED, "granularity": CHUNK_BYTES, "disabled": True}
            await qmp.execute("block-dirty-bitmap-add", merged)
            both = {"node": place.node_name, "target": _MERGED, "bitmaps": [f"{_BITMAP}{since}"]}
            await qmp.execute("block-dirty-bitmap-merge", both)

    async def _serve(self, qmp: Qmp, name: str) -> None:
        with sockets.listen(self._places.socket(name, _SOCKET)) as listening:
            await qmp.execute("getfd", {"fdname": _SOCKET}, descriptor=listening.fileno())
            address = {"type": "fd", "data": {"str": _SOCKET}}
            await qmp.execute("nbd-server-start", {"addr": address, "max-connections": 8})

    async def changed(self, name: str, disk: int) -> list[tuple[int, int]] | None:
        """The chunks that the merged bitmap of a disk names, in their order."""
        bitmap = f"qemu:dirty-bitmap:{_MERGED}"
        with sockets.short_path(self._places.socket(name, _SOCKET)) as path:
            if path.startswith("/proc/self/"):
                return None  # qemu-img takes no such name: the disk is compared instead
            options = f"driver=nbd,server.type=unix,server.path={path.replace(',', ',,')},"
            options += f"export={_EXPORT}{disk},x-dirty-bitmap={bitmap}"
            words = ["qemu-img", "map", "--output=json", "--image-opts", options]
            try:
                told = json.loads((await self._world.run(words, timeout_s=_MAP_S)).stdout)
            except (CommandError, ValueError) as err:
                self._world.log(f"the changes of disk {disk} of {name} cannot be read, so all of it is: {err}")
                return None
        found = list[tuple[int, int]]()
        for extent in told:
            if not extent["data"]:
                first = extent["start"] // CHUNK_BYTES
                found.append((first, -(-(extent["start"] + extent["length"]) // CHUNK_BYTES) - first))
        return found

    def _scratch(self, name: str, number: int) -> str:
        return f"{self._places.paths.backup_scratch_dir}/{name}.{number}"

    def _note(self, name: str) -> str:
        return f"{self._places.socket(name, _SOCKET)}.{_PAUSED_NOTE}"

    def _forget_files(self, name: str) -> None:
        directory = self._places.paths.backup_scratch_dir
        with contextlib.suppress(FileNotFoundError):
            for entry in os.listdir(directory):
                if entry.rpartition(".")[0] == name:
                    os.unlink(f"{directory}/{entry}")
        for path in (self._note(name), self._places.socket(name, _SOCKET)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


async def _export(qmp: Qmp, number: int, place: DiskPlace, *, merged: bool) -> None:
    name = f"{_EXPORT}{number}"
    wanted: dict[str, Any] = {"type": "nbd", "id": name, "name": name, "node-name": f"{_SHOWN}{number}"}
    if merged:
        wanted["bitmaps"] = [{"node": place.node_name, "name": _MERGED}]
    await qmp.execute("block-export-add", wanted)


async def _set_drive(qmp: Qmp, place: DiskPlace, node: str) -> None:
    """Have the device of a disk use another block node."""
    device = {"path": f"/machine/peripheral/{place.identity}", "property": "drive", "value": node}
    await qmp.execute("qom-set", device)


async def _nodes(qmp: Qmp) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await qmp.execute("query-named-block-nodes", {"flat": True})
    return found


def _is_ours(bitmap: str) -> bool:
    return bitmap.startswith(_BITMAP) or bitmap == _MERGED


async def _tolerating(qmp: Qmp, command: str, arguments: dict[str, Any]) -> None:
    """What has ended meanwhile is no error."""
    with contextlib.suppress(QmpError):
        await qmp.execute(command, arguments)
