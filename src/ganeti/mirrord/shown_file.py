# SPDX-License-Identifier: BSD-2-Clause
"""A mirrored disk as a file, for programs that know nothing else: QEMU's storage daemon shows it by FUSE.

That one is a client of the disk's own storage daemon, as a guest is.
"""

import asyncio
import json
import os

from ganeti.base.errors import BlockDeviceError
from ganeti.mirrord.processes import end, living, spawn
from ganeti.node.storage.mirror.places import Places

PROGRAM = "qemu-storage-daemon"
_START_S = 10.0
_POLL_S = 0.02


class ShownFile:
    """Of one disk."""

    def __init__(self, places: Places, uuid: str, image: str) -> None:
        self._places, self._uuid, self._image = places, uuid, image
        self._path, self._pid_file = places.file(uuid, "file"), places.file(uuid, "show")

    async def show(self, export: str) -> str:
        """Gives the file's path. *export* is the name that the disk is served under. Raises `BlockDeviceError`."""
        if living(self._pid_file) is not None:
            return self._path
        await _unmount(self._path)
        with open(self._path, "wb"):
            pass
        node = {
            "driver": "nbd",
            "node-name": "disk",
            "server": {"type": "unix", "path": self._places.name(self._uuid, "nbd")},
            "export": export,
        }
        file = f"type=fuse,id=show,node-name=disk,mountpoint={self._path},writable=on,growable=off,allow-other=off"
        words = [PROGRAM, "--blockdev", json.dumps(node), "--export", file]
        shown = await spawn(self._places, words, self._pid_file, "install the package qemu-system-common")
        deadline = asyncio.get_running_loop().time() + _START_S
        while os.stat(self._path).st_size == 0:
            if shown.returncode is not None or asyncio.get_running_loop().time() > deadline:
                raise BlockDeviceError(
                    f"Disk {self._image} cannot be shown as a file: see that this node has /dev/fuse and fusermount3"
                )
            await asyncio.sleep(_POLL_S)
        return self._path

    async def hide(self) -> None:
        """End what `show` began."""
        process_id = living(self._pid_file)
        if process_id is not None:
            await end(process_id, lambda: living(self._pid_file) is None)
        await _unmount(self._path)


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
