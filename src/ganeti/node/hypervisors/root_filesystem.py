# SPDX-License-Identifier: BSD-2-Clause
"""The first disk of an instance as a directory of its node, for guests that share the node's kernel."""

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ganeti.base.errors import CommandError, HypervisorError
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.ports.node_world import NodeWorld

BLKID, MOUNT, UMOUNT = "/usr/sbin/blkid", "/usr/bin/mount", "/usr/bin/umount"
_EXT = "errors=remount-ro"
FILE_SYSTEMS = {"ext2": _EXT, "ext3": _EXT, "ext4": _EXT, "xfs": "nouuid"}
"""Kinds, and how each is mounted: no image says that an error stops the node, and two may be copies of each other.

One that spans several devices is none of them: it would name the disks of others.
"""
_SHUTDOWN = 0x8004587D
"""FS_IOC_SHUTDOWN, which ext4, xfs and f2fs have."""
_WITHOUT_FLUSHING = 2
_UNMOUNT_TRIES = 20
_ENDING_POLLS, _ENDING_POLL_S = 100, 0.05


def root_disk(spec: InstanceSpec, disks: Sequence[AttachedDisk]) -> AttachedDisk:
    """Give the disk that holds the root; raises `HypervisorError` for one that cannot."""
    if len(disks) != len(spec.disks):
        raise HypervisorError(f"{len(disks)} of the {len(spec.disks)} disks of {spec.name} are activated on this node")
    if not disks:
        raise HypervisorError(
            f"{spec.name} has no disk: a guest of the hypervisor {spec.hypervisor} has its files on its first one"
        )
    disk = disks[0]
    if not disk.path or disk.image_format != "raw":
        raise HypervisorError(
            f"Disk 0 of {spec.name} is no file or device in the format raw: the node cannot mount it for the "
            f"hypervisor {spec.hypervisor}; use another disk template or format=raw"
        )
    return disk


@dataclass(frozen=True)
class RootFilesystem:
    """A file system mounted at *place*, which is made for it. All methods may be repeated."""

    world: NodeWorld
    place: str
    has_devices: bool = False
    """Whether device files on it are devices."""

    @property
    def is_mounted(self) -> bool:
        return self.device is not None

    @property
    def device(self) -> str | None:
        """MAJOR:MINOR of what is mounted; as the kernel's table says, since XFS itself says nothing once abandoned."""
        directory, name = os.path.split(self.place)
        place = os.path.join(os.path.realpath(directory), name)
        found = [mount.device for mount in _mounts("self") if mount.place == place]
        return found[-1] if found else None

    async def mount(self, disk: AttachedDisk) -> None:
        """Raises `HypervisorError`; then nothing is mounted."""
        if self.is_mounted:
            return
        kind = await self._kind(disk)
        options = ["dev" if self.has_devices else "nodev", FILE_SYSTEMS[kind]]
        try:
            if not stat.S_ISBLK(os.stat(disk.path).st_mode):
                options.append("loop")
            if disk.spec.mode == "ro":
                options.append("ro")
            os.makedirs(self.place, mode=0o755, exist_ok=True)
            await self.world.run([MOUNT, "-t", kind, "-o", ",".join(options), "--", disk.path, self.place])
        except (OSError, CommandError) as err:
            await self.unmount()
            raise HypervisorError(f"Cannot mount disk {disk.spec.index}, {disk.path}: {err}") from err

    async def unmount(self) -> None:
        """Raises `HypervisorError` while somebody uses it."""
        try:
            for left in reversed(range(_UNMOUNT_TRIES)):
                if self.is_mounted:
                    await self.world.run([UMOUNT, "--recursive", "--", self.place], check=left == 0)
                if not self.is_mounted:
                    break
                await self.world.sleep(_ENDING_POLL_S)  # a process on its way out
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(self.place)
        except (CommandError, OSError) as err:
            raise HypervisorError(f"Cannot unmount {self.place}: {err}") from err

    def abandon(self) -> None:
        """Have nothing more written to the disk, not even what the kernel holds back: as when the power goes."""
        if not self.is_mounted:
            return
        try:
            descriptor = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING))
            finally:
                os.close(descriptor)
        except OSError as err:
            self.world.log(f"{self.place}: the kernel may still write what it holds back: {err.strerror}")

    def processes(self) -> list[int]:
        """Those whose root lies in this file system: nobody else has it as theirs."""
        device = self.device
        if device is None:
            return []
        return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and _root_device(entry) == device]

    async def end_processes(self) -> None:
        """Kill what runs in it; raises `HypervisorError` if the kernel cannot end a process."""
        for _ in range(_ENDING_POLLS):
            left = self.processes()
            if not left:
                return
            for pid in left:
                self._kill(pid)
            await self.world.sleep(_ENDING_POLL_S)
        raise HypervisorError(f"Processes in {self.place} do not end even when killed: {left}; its storage may hang")

    def _kill(self, pid: int) -> None:
        """The descriptor is opened before the check, so that no other process of the same number is meant."""
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if _root_device(str(pid)) == self.device:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)

    async def _kind(self, disk: AttachedDisk) -> str:
        """Ask for the kind first: mount(8) would run helpers for kinds that nobody has asked for."""
        found = await self.world.run([BLKID, "-p", "-o", "value", "-s", "TYPE", "--", disk.path], check=False)
        kind = found.stdout.strip()
        if kind not in FILE_SYSTEMS:
            raise HypervisorError(
                f"Disk {disk.spec.index} holds no file system of its own that can be the root of a guest (found: "
                f"{kind or 'nothing'}): install an OS that makes one of {', '.join(FILE_SYSTEMS)} without partitions"
            )
        return kind


class _Mount(NamedTuple):
    number: str
    device: str
    place: str


def _mounts(process: str) -> Iterator[_Mount]:
    """What a process sees mounted, later ones above earlier ones; nothing for one that has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/mountinfo", "rb") as source:
        for line in source.read().splitlines():
            number, _, device, _, place = line.split()[:5]
            whole = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), place)
            yield _Mount(number.decode(), device.decode(), os.fsdecode(whole))


def _root_device(process: str) -> str | None:
    """MAJOR:MINOR of what holds a process's root; None where there is none, as for a thread of the kernel."""
    try:
        number = os.stat(f"/proc/{process}/root").st_dev
    except OSError as err:
        return _abandoned_root_device(process) if err.errno == errno.EIO else None
    return f"{os.major(number)}:{os.minor(number)}"


def _abandoned_root_device(process: str) -> str | None:
    """By the number of its mount, for which the file system need not be asked."""
    try:
        descriptor = os.open(f"/proc/{process}/root", os.O_PATH | os.O_CLOEXEC)
        try:
            with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as source:
                number = dict(line.split() for line in source)["mnt_id:"]
        finally:
            os.close(descriptor)
    except (OSError, KeyError):
        return None
    return next((mount.device for who in (process, "self") for mount in _mounts(who) if mount.number == number), None)
