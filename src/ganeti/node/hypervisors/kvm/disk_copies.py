# SPDX-License-Identifier: BSD-2-Clause
"""Copies of a running guest's disks, all as of one moment, made by backup jobs of its QEMU.

QEMU gets a filter above each disk that saves a block into a scratch file before the guest overwrites it, and the job
reads the disk without these changes. A copy or a scratch file that cannot be written, or answers late, ends the copying
and never the guest's write. Jobs and block nodes have names of their own, so those that a killed daemon has left are
found and ended.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from glob import escape, glob
from typing import Any

import msgspec

from ganeti.base.errors import HypervisorError
from ganeti.node.backups.room import require_scratch
from ganeti.node.hypervisors.kvm import plugging
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.qmp import Qmp, QmpError, QmpGoneError
from ganeti.node.hypervisors.kvm.record import DiskPlace, RuntimeRecord
from ganeti.ports.node_world import NodeWorld
from ganeti.system.files import read_if_there, write_atomically

_NAME = "copy"
_FILTER, _SHOWN, _SAVED = f"{_NAME}-filter", f"{_NAME}-shown", f"{_NAME}-saved"
_FIRST_SET, _FIRST_SAVED_SET = 1000, 1250
"""Numbers of file sets that no disk and no CD has."""
_NODES, _PAUSED = "nodes", "paused"
_NOTES = (_NODES, _PAUSED)
"""Which block nodes the disks had, and that the guest is held."""
_SAVE_S = 30
"""How long a write of the guest waits for a block to be saved before the copying is given up."""
_POLL_S = 0.2
_END_S = 30.0


class DiskCopies:
    def __init__(self, world: NodeWorld, places: Places, known: RuntimeRecord) -> None:
        self._world = world
        self._places = places
        self._socket = places.socket(known.name, "qmp")
        self._scratch = places.paths.backup_scratch_dir
        self._known = known

    async def run(self, paths: Sequence[str]) -> None:
        """Copy each disk into its file; raises `HypervisorError`. On the way out nothing is left in QEMU."""
        name = self._known.name
        if len(paths) != len(self._known.disks):
            raise HypervisorError(
                f"{name} runs with {len(self._known.disks)} disks, and has {len(paths)} in the configuration: start it "
                "again first"
            )
        await self.end()
        require_scratch(self._scratch, f"The copying of the disks of {self._known.name}")
        try:
            async with Qmp(self._socket) as qmp:
                disks = await self._disks(qmp)
                _write(_note(self._places, name, _NODES), [node for node, _ in disks])
                for number, ((node, size), path) in enumerate(zip(disks, paths, strict=True)):
                    await self._open(qmp, f"{_NAME}{number}", path, size, _FIRST_SET + number)
                    await self._save(qmp, number, node, size)
                async with self._at_one_moment(qmp):
                    for number, place in enumerate(self._known.disks):
                        await _set_drive(qmp, place, f"{_FILTER}{number}")
                for number in range(len(disks)):
                    await self._begin(qmp, number)
            await self._wait(len(paths))
        finally:
            await asyncio.shield(self.end())

    async def end(self) -> None:
        """End all copying, of this daemon and of one before."""
        with contextlib.suppress(QmpGoneError):
            async with Qmp(self._socket) as qmp:
                if os.path.exists(_note(self._places, self._known.name, _PAUSED)):
                    await qmp.execute("cont")
                await self._end_jobs(qmp)
                for number, origin in enumerate(_read(_note(self._places, self._known.name, _NODES))):
                    await self._take_away(qmp, number, origin)
                for entry in await qmp.execute("query-fdsets"):
                    if entry["fdset-id"] >= _FIRST_SET:
                        await _tolerating(qmp, "remove-fd", {"fdset-id": entry["fdset-id"]})
        forget(self._places, self._known.name)

    async def _take_away(self, qmp: Qmp, number: int, origin: str) -> None:
        """The nodes of one disk's copy; its device uses the node *origin* again."""
        found = await qmp.execute("query-named-block-nodes", {"flat": True})
        there = {str(node.get("node-name", "")) for node in found}
        for node in (f"{_SHOWN}{number}", f"{_FILTER}{number}", f"{_SAVED}{number}", f"{_NAME}{number}"):
            if node in there:
                if node.startswith(_FILTER):
                    await _set_drive(qmp, self._known.disks[number], origin)
                await _tolerating(qmp, "blockdev-del", {"node-name": node})

    async def _end_jobs(self, qmp: Qmp) -> None:
        deadline_s = self._world.now_s() + _END_S
        while jobs := [job for job in await qmp.execute("query-jobs") if job["id"].startswith(_NAME)]:
            for job in jobs:
                if job["status"] == "concluded":
                    await qmp.execute("job-dismiss", {"id": job["id"]})
                elif job["status"] not in ("aborting", "null"):
                    await _tolerating(qmp, "job-cancel", {"id": job["id"]})
            if self._world.now_s() > deadline_s:
                raise HypervisorError(f"The copying of disks of {self._known.name} does not end: its storage may hang")
            await self._world.sleep(_POLL_S)

    async def _disks(self, qmp: Qmp) -> list[tuple[str, int]]:
        """The block node of each disk, and its bytes as the guest sees them; an adopted guest has a name for the drive
        alone."""
        found: dict[str, tuple[str, int]] = {}
        for block in await qmp.execute("query-block"):
            inserted = block.get("inserted")
            if inserted is not None:
                node = inserted.get("node-name", "")
                found[block.get("device") or ""] = found[node] = node, inserted["image"]["virtual-size"]
        try:
            return [found[place.node_name] for place in self._known.disks]
        except KeyError as err:
            raise HypervisorError(f"{self._known.name} runs without the disk {err}: start it again first") from err

    async def _open(self, qmp: Qmp, node: str, path: str, size: int, number: int) -> None:
        try:
            os.truncate(path, size)
        except OSError as err:
            raise HypervisorError(f"The copy {path} cannot be made: {err.strerror}") from err
        shown = await plugging.hand_over(qmp, number, path, f"The file of {node}", [os.O_RDONLY, os.O_RDWR])
        wanted: dict[str, Any] = {"driver": "raw", "node-name": node, "discard": "unmap", "detect-zeroes": "unmap"}
        await qmp.execute("blockdev-add", wanted | {"file": {"driver": "file", "filename": shown, "locking": "off"}})

    async def _save(self, qmp: Qmp, number: int, node: str, size: int) -> None:
        """Make the filter, which nothing uses yet, and what it saves blocks into."""
        path = f"{_scratch(self._places, self._known.name)}{number}"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        except OSError as err:
            raise HypervisorError(f"The scratch file {path} cannot be made: {err.strerror}") from err
        await self._open(qmp, f"{_SAVED}{number}", path, size, _FIRST_SAVED_SET + number)
        wanted = {"driver": "copy-before-write", "node-name": f"{_FILTER}{number}", "file": node}
        wanted |= {"target": f"{_SAVED}{number}", "on-cbw-error": "break-snapshot"}
        await qmp.execute("blockdev-add", wanted | {"cbw-timeout": _SAVE_S})

    async def _begin(self, qmp: Qmp, number: int) -> None:
        shown = {"driver": "snapshot-access", "node-name": f"{_SHOWN}{number}", "file": f"{_FILTER}{number}"}
        await qmp.execute("blockdev-add", shown)
        job = {"job-id": f"{_NAME}{number}", "device": f"{_SHOWN}{number}", "target": f"{_NAME}{number}"}
        await qmp.execute("blockdev-backup", job | {"sync": "full", "auto-dismiss": False})

    @contextlib.asynccontextmanager
    async def _at_one_moment(self, qmp: Qmp) -> AsyncIterator[None]:
        """Hold a guest with several disks for as long as that takes; a note has it go on whatever happens."""
        if len(self._known.disks) < 2 or not (await qmp.execute("query-status"))["running"]:
            yield
            return
        note = _note(self._places, self._known.name, _PAUSED)
        _write(note, [])
        await qmp.execute("stop")
        try:
            yield
        finally:
            await qmp.execute("cont")
            os.unlink(note)

    async def _wait(self, count: int) -> None:
        """Until all jobs have come to their end; the socket is free for others in between."""
        while True:
            async with Qmp(self._socket) as qmp:
                jobs = [job for job in await qmp.execute("query-jobs") if job["id"].startswith(_NAME)]
            failed = next((job["error"] for job in jobs if job.get("error")), None)
            if failed is not None or len(jobs) < count:
                reason = failed or "it was ended"
                raise HypervisorError(f"The disks of {self._known.name} could not be copied: {reason}")
            if all(job["status"] == "concluded" for job in jobs):
                return
            require_scratch(self._scratch, f"The copying of the disks of {self._known.name}")
            await self._world.sleep(_POLL_S)


def forget(places: Places, name: str) -> None:
    """Remove the files of a guest's copying that has ended, or that ended with the guest."""
    beginning = _scratch(places, name)
    saved = [path for path in glob(f"{escape(beginning)}*") if path.removeprefix(beginning).isdigit()]
    for path in (*saved, *(_note(places, name, word) for word in _NOTES)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _scratch(places: Places, name: str) -> str:
    """The beginning of the names of scratch files."""
    return f"{places.paths.backup_scratch_dir}/{name}.{_NAME}"


def _note(places: Places, name: str, word: str) -> str:
    return f"{places.socket(name, 'qmp')}.{_NAME}-{word}"


def _write(path: str, nodes: Sequence[str]) -> None:
    try:
        write_atomically(path, msgspec.json.encode(nodes), mode=0o600, durable=False)
    except OSError as err:
        raise HypervisorError(f"Cannot write {path}: {err.strerror}") from err


def _read(path: str) -> list[str]:
    data = read_if_there(path)
    return msgspec.json.decode(data, type=list[str]) if data else []


async def _set_drive(qmp: Qmp, place: DiskPlace, node: str) -> None:
    """Have the device of a disk use another block node."""
    device = {"path": f"/machine/peripheral/{place.identity}", "property": "drive", "value": node}
    await qmp.execute("qom-set", device)


async def _tolerating(qmp: Qmp, command: str, arguments: dict[str, Any]) -> None:
    """What has ended meanwhile is no error."""
    try:
        await qmp.execute(command, arguments)
    except QmpError:
        return
