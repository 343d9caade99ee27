# SPDX-License-Identifier: BSD-2-Clause
"""One disk's storage daemon: QEMU's own, which serves the image by NBD and mirrors it to the other node.

It outlives ganeti-mirrord, as a guest's QEMU does: a later one finds it by its process id and goes on.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ganeti.base.errors import BlockDeviceError, HypervisorError
from ganeti.mirrord.processes import STOP_S, end, end_of, living
from ganeti.node.hypervisors.kvm.qmp import COMMAND_S, Qmp, QmpError, QmpGoneError, QmpTimeoutError
from ganeti.node.storage.mirror.places import Places
from ganeti.system.boot import process_start
from ganeti.system.files import write_atomically

PROGRAM = "qemu-storage-daemon"
_DISK, _PEER, _JOB, _EXPORT = "disk", "peer", "copies", "disk"
_FILE, _BOTH = "file", "both"
"""Below the disk its image; above it, while a mirror job runs, what sends each write to both copies."""
_START_S = 10.0
_FIRST_ANSWER_S = 5.0
"""Then a storage daemon that was just started is replaced by another: QEMU's monitor can miss its first client."""
_SERVES_WITHIN_S = 15.0
"""So is one that does not answer later commands: such a monitor was seen silent for 30 s, and then given up."""
_JOB_END_S = 5.0
_FLUSH_S = 4.0
"""For the last flush of a job whose copies are equal; the other node counts as lost after that."""
_POLL_S = 0.02
_FIRST_POLL_S = 0.001
"""A job that is asked to end has ended after a few milliseconds, and a guest that moves stands meanwhile."""
_PARTS_MAX = 2**24
"""Of a disk, each of which has a bit in two bitmaps of its storage daemon: 2 MiB each."""
_SMALLEST_PART_BYTES, _LARGEST_PART_BYTES = 4096, 65536
_BUFFER_BYTES = 2**20
"""So much is copied at once, before QEMU looks at the rate."""
_LOG = "mirrord-disks.log"
_RECONNECT_S = 1
"""How long writes wait for a connection to the other node that was lost; NBD takes whole seconds."""
_log = logging.getLogger(__name__)


class Job(msgspec.Struct, frozen=True):
    """The mirror job, as QEMU tells it."""

    status: str
    ready: bool
    io_status: str = msgspec.field(name="io-status", default="ok")
    done: int = msgspec.field(name="offset", default=0)
    total: int = msgspec.field(name="len", default=0)
    is_paused: bool = msgspec.field(name="paused", default=False)

    @property
    def works(self) -> bool:
        """Whether writes go to both copies. QEMU says *ready* on and on once everything was copied, also of a job that
        lost the other node and has parts to copy since.
        """
        return self.io_status == "ok" and self.status in ("running", "ready", "created", "standby")

    @property
    def is_held(self) -> bool:
        """Whether `StorageDaemon.hold` has come into effect, and no write to the other copy has failed since."""
        return self.io_status == "ok" and self.status == "standby" and self.is_paused

    @property
    def has_ended(self) -> bool:
        return self.status in ("concluded", "aborting", "null")

    @property
    def percent(self) -> float:
        if self.ready and not self.total:
            return 100.0
        return 100.0 * self.done / max(self.total, 1)


class StorageDaemon:
    """Commands one after another: the caller holds its disk's lock."""

    def __init__(self, places: Places, uuid: str, image: str) -> None:
        self._places = places
        self._uuid = uuid
        self._image = image
        self._process: asyncio.subprocess.Process | None = None
        self._qmp: Qmp | None = None
        self._client: tuple[int, int] | None = None
        """User and group that the socket of an earlier storage daemon was given to."""

    async def start(self, export: str) -> None:
        """Serve the image under the name *export*; one that runs is taken as it is. Raises `BlockDeviceError`."""
        may_be_replaced = True
        while True:
            is_found = self.process_id() is not None
            try:
                if not is_found:
                    await self._spawn_answering()
                async with asyncio.timeout(None if is_found else _SERVES_WITHIN_S):
                    await self._serve(export)
                return
            except (HypervisorError, TimeoutError) as err:
                how = "" if self.process_id() is not None else await self.ended()
                what = str(err) or f"it does not serve its image within {_SERVES_WITHIN_S:g} s"
                await self.stop()
                # ganeti-mirrord may have been killed while it started that one, and QEMU's monitor can miss a command
                may_be_replaced &= is_found or isinstance(err, TimeoutError)
                if not may_be_replaced:
                    log = f"{self._places.paths.log_dir}/{_LOG}"
                    why = f"its storage daemon {how}; {log} may say why" if how else what
                    raise BlockDeviceError(f"Disk {self._image} cannot be opened: {why}") from err
                _log.warning("the storage daemon of disk %s is replaced by another: %s", self._image, what)
                may_be_replaced = False

    async def _serve(self, export: str) -> None:
        """Do what is not yet done of opening the image and showing it."""
        qmp = await self._connection()
        if await qmp.execute("query-block-exports"):
            return
        if not await _has_node(qmp, _DISK):  # otherwise ganeti-mirrord ended after `withdraw_export`
            await add_image(self._add, self._image)
            await self._add({"driver": "raw", "node-name": _DISK, "file": _FILE})
            address = {"type": "unix", "data": {"path": self._places.name(self._uuid, "nbd")}}
            await qmp.execute("nbd-server-start", {"addr": address, "max-connections": 16})
            if self._client is not None:  # a guest that runs as another user than root connects again, too
                os.chown(self._places.file(self._uuid, "nbd"), *self._client)
        await self.show_export(export)

    async def show_export(self, export: str) -> None:
        """Let clients that know its name connect."""
        qmp = await self._connection()
        node = _BOTH if await _has_node(qmp, _BOTH) else _DISK
        wanted = {"type": "nbd", "id": _EXPORT, "node-name": node, "name": export, "writable": True}
        await qmp.execute("block-export-add", wanted)

    async def withdraw_export(self) -> None:
        """End all connections of clients; what they wrote and were not told of, they send again."""
        qmp = await self._connection()
        if await qmp.execute("query-block-exports"):
            await qmp.execute("block-export-del", {"id": _EXPORT, "mode": "hard"})
        deadline = asyncio.get_running_loop().time() + STOP_S
        while await qmp.execute("query-block-exports"):
            if asyncio.get_running_loop().time() > deadline:
                raise HypervisorError(f"Disk {self._image} is not closed within {STOP_S:g} s")
            await asyncio.sleep(_POLL_S)

    async def resize(self, size: int) -> None:
        """Of an image that nobody is connected to, and nothing is copied from."""
        await (await self._connection()).execute("block_resize", {"node-name": _DISK, "size": size})

    async def limit(self, rate_kib: int) -> None:
        """How much making the other copy equal may take from now on; 0 is without a limit."""
        if await self.job() is not None:
            arguments = {"device": _JOB, "speed": rate_kib * 1024}
            await (await self._connection()).execute("block-job-set-speed", arguments)

    async def stop(self) -> None:
        """End it; what was written is on disk."""
        self._drop()
        process_id = self.process_id()
        if process_id is not None:
            await end(process_id, lambda: self.process_id() is None)

    def process_id(self) -> int | None:
        """Of the living storage daemon of this disk."""
        return living(self._places.file(self._uuid, "pid"))

    async def ended(self) -> str:
        """Wait until it has ended, or does not run; says how that was."""
        return await end_of(self._places.file(self._uuid, "pid"), lambda: self._process)

    async def job(self) -> Job | None:
        """The mirror job; raises `HypervisorError`."""
        try:
            found = await (await self._connection()).execute("query-block-jobs")
        except (QmpGoneError, QmpTimeoutError):
            self._drop()  # the next command connects again
            raise
        return next((msgspec.convert(job, Job) for job in found if job.get("device") == _JOB), None)

    async def attach(self, export: str, *, whole: bool, rate_kib: int) -> None:
        """Begin to write to both copies, the other one shown as *export*; with *whole*, that is first made equal."""
        qmp = await self._connection()
        server = {"type": "unix", "path": self._places.name(self._uuid, "peer")}
        await self._add(
            {
                "driver": "nbd",
                "node-name": _PEER,
                "server": server,
                "export": export,
                "reconnect-delay": _RECONNECT_S,
                "open-timeout": _RECONNECT_S,
            }
        )
        try:
            await qmp.execute(
                "blockdev-mirror",
                {
                    "job-id": _JOB,
                    "device": _DISK,
                    "target": _PEER,
                    "filter-node-name": _BOTH,
                    "sync": "full" if whole else "none",
                    "copy-mode": "write-blocking",
                    "granularity": part_bytes(os.path.getsize(self._image)),
                    "on-target-error": "stop",
                    "on-source-error": "report",
                    "auto-dismiss": False,
                    "speed": rate_kib * 1024,
                    "buf-size": _BUFFER_BYTES if rate_kib else 16 * _BUFFER_BYTES,
                },
            )
        except HypervisorError:
            await self._remove_peer()
            raise

    async def hold(self) -> None:
        """Let a job that is ready copy nothing in the background: `Job.is_held` as soon as nothing is on its way.

        Writes still go to both copies. One that fails shows in the job until it is resumed, so a held job without
        parts to copy (`lacks_parts`) has two equal copies.
        """
        await (await self._connection()).execute("block-job-pause", {"device": _JOB})

    async def lacks_parts(self) -> bool:
        """Whether there are parts that the other copy lacks, other than those on their way to it just now."""
        nodes = await (await self._connection()).execute("query-named-block-nodes", {"flat": True})
        bitmaps = [bitmap for node in nodes if node["node-name"] == _DISK for bitmap in node.get("dirty-bitmaps", ())]
        return not bitmaps or any(bitmap["count"] for bitmap in bitmaps)

    async def resume(self) -> None:
        """Let a job that lost the other node try again: it copies what has changed since."""
        await (await self._connection()).execute("block-job-resume", {"device": _JOB})

    async def detach(self) -> bool:
        """End the mirror job; true where both copies were equal at that moment."""
        job = await self.job()
        equal = job is not None and job.ready and job.works
        if job is not None:
            if job.is_paused:  # QEMU completes no job that is held
                with contextlib.suppress(QmpError):
                    await self.resume()
            await self._cancel(force=not equal)
            ended = await self._wait_concluded(_FLUSH_S if equal else _JOB_END_S)
            if ended is None:  # a job without writes looks equal until its flush finds that the other node is gone
                equal = False
                await self._cancel(force=True)
                ended = await self._wait_concluded(_JOB_END_S)
            if ended is None:
                raise HypervisorError(f"The mirror job of disk {self._image} does not end within {_JOB_END_S:g} s")
            equal = equal and not ended.get("error")
        await self._remove_peer()
        return equal

    async def _cancel(self, *, force: bool) -> None:
        with contextlib.suppress(QmpError):
            await (await self._connection()).execute("block-job-cancel", {"device": _JOB, "force": force})

    async def _wait_concluded(self, within_s: float) -> dict[str, Any] | None:
        """The job as it ended, with an ``error`` where it failed or is not known any more; None if it goes on."""
        qmp = await self._connection()
        deadline = asyncio.get_running_loop().time() + within_s
        pause_s = _FIRST_POLL_S
        while asyncio.get_running_loop().time() < deadline:
            jobs = {job["id"]: job for job in await qmp.execute("query-jobs")}
            if _JOB not in jobs:
                return {"error": "it has ended before"}
            if jobs[_JOB]["status"] == "concluded":
                await qmp.execute("job-dismiss", {"id": _JOB})
                return dict(jobs[_JOB])
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        return None

    async def _remove_peer(self) -> None:
        qmp = await self._connection()
        if await _has_node(qmp, _PEER):
            await qmp.execute("blockdev-del", {"node-name": _PEER})

    async def _add(self, options: dict[str, Any]) -> None:
        await (await self._connection()).execute("blockdev-add", options)

    async def show(self, export: str) -> str:
        """Show the disk as a file, by a process beside it that speaks NBD; gives the file's path."""
        path, pid_file = self._places.file(self._uuid, "file"), self._places.file(self._uuid, "show")
        if living(pid_file) is not None:
            return path
        await _unmount(path)
        with open(path, "wb"):
            pass
        node = {
            "driver": "nbd",
            "node-name": _DISK,
            "server": {"type": "unix", "path": self._places.name(self._uuid, "nbd")},
            "export": export,
        }
        file = f"type=fuse,id=show,node-name={_DISK},mountpoint={path},writable=on,growable=off,allow-other=off"
        shown = await _run(self._places, ["--blockdev", json.dumps(node), "--export", file], pid_file)
        deadline = asyncio.get_running_loop().time() + _START_S
        while os.stat(path).st_size == 0:
            if shown.returncode is not None or asyncio.get_running_loop().time() > deadline:
                raise BlockDeviceError(
                    f"Disk {self._image} cannot be shown as a file: see that this node has /dev/fuse and fusermount3"
                )
            await asyncio.sleep(_POLL_S)
        return path

    async def hide(self) -> None:
        """End what `show` began."""
        path, pid_file = self._places.file(self._uuid, "file"), self._places.file(self._uuid, "show")
        process_id = living(pid_file)
        if process_id is not None:
            await end(process_id, lambda: living(pid_file) is None)
        await _unmount(path)

    async def _spawn_answering(self) -> None:
        self._drop()  # of the one before, which may have been killed
        await self._spawn()
        try:
            await self._connection(_FIRST_ANSWER_S)
        except QmpTimeoutError:
            await self.stop()
            await self._spawn()

    async def _spawn(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            before = os.stat(self._places.file(self._uuid, "nbd"))
            self._client = before.st_uid, before.st_gid
        for kind in ("qmp", "nbd"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._places.file(self._uuid, kind))
        chardev = f"socket,id=qmp,path={self._places.name(self._uuid, 'qmp')},server=on,wait=off"
        self._process = await _run(
            self._places, ["--chardev", chardev, "--monitor", "chardev=qmp"], self._places.file(self._uuid, "pid")
        )

    async def _connection(self, first_s: float = COMMAND_S) -> Qmp:
        if self._qmp is not None:
            return self._qmp
        deadline = asyncio.get_running_loop().time() + _START_S
        while True:
            qmp = Qmp(self._places.file(self._uuid, "qmp"), first_s=first_s)
            try:
                self._qmp = await qmp.__aenter__()
                return self._qmp
            except QmpGoneError:
                if self.process_id() is None or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_POLL_S)

    def _drop(self) -> None:
        if self._qmp is not None:
            self._qmp.close()
            self._qmp = None


async def _run(places: Places, options: list[str], pid_file: str) -> asyncio.subprocess.Process:
    log = f"{places.paths.log_dir}/{_LOG}"
    with open(log, "ab", opener=_private) as said:
        try:
            process = await asyncio.create_subprocess_exec(
                PROGRAM,
                *options,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=places.directory,
                start_new_session=True,
            )
        except OSError as err:
            raise BlockDeviceError(
                f"{PROGRAM} cannot be started: {err.strerror}; install the package qemu-system-common"
            ) from err
    text = f"{process.pid} {process_start(process.pid)}\n"
    write_atomically(pid_file, text.encode(), mode=0o600, durable=False)
    return process


async def _has_node(qmp: Qmp, name: str) -> bool:
    return any(node["node-name"] == name for node in await qmp.execute("query-named-block-nodes", {"flat": True}))


async def add_image(add: Callable[[dict[str, Any]], Awaitable[None]], image: str) -> None:
    """By io_uring, which spares a write the way to another thread and back; kernels may have it switched off."""
    node = {"driver": "file", "node-name": _FILE, "filename": image, "cache": {"direct": True}}
    try:
        await add({**node, "aio": "io_uring"})
    except QmpError as err:
        await add(node)
        _log.warning("image %s is opened without io_uring: %s", image, err)


def part_bytes(size: int) -> int:
    """Of what length QEMU notes changes. It has writes to the same part wait for each other, so parts are small."""
    length = _SMALLEST_PART_BYTES
    while length < _LARGEST_PART_BYTES and size > length * _PARTS_MAX:
        length *= 2
    return length


async def _unmount(path: str) -> None:
    """Free a file's name of the mount that a killed process leaves there: `os.unlink` would find it busy."""
    if await asyncio.to_thread(_is_mounted, path):  # a mount that nobody serves cannot even be looked at
        words = ["umount", "--lazy", path]
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL)
        if await process.wait() and _is_mounted(path):
            raise BlockDeviceError(f"{path} is still mounted, although nothing serves it: run {' '.join(words)}")


def _is_mounted(path: str) -> bool:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return any(line.split()[4] == path for line in table)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o640)
