# SPDX-License-Identifier: BSD-2-Clause
"""A disk that only QEMU reaches, shown as a file to programs that know nothing else (OS scripts, copies).

``run/ganeti/shown/UUID`` is the file while a storage daemon of QEMU's serves it by FUSE; its process id lies beside it.
"""

import asyncio
import contextlib
import errno
import json
import os
import signal
from typing import Any

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.base.paths import Paths
from ganeti.ports.node_world import NodeWorld

PROGRAM = "qemu-storage-daemon"
_START_S, _STOP_S, _POLL_S = 20.0, 20.0, 0.02


async def show(world: NodeWorld, uuid: str, blockdev: dict[str, Any], *, reader: int | None = None) -> str:
    """Give the path of the file; one that is there already is used. Raises `BlockDeviceError`.

    With a *reader* (user id), that user alone owns the file, and nobody can write it.
    """
    path = _file(world.paths, uuid)
    if _process(world.paths, uuid) is not None and _is_served(path):
        return path
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if _process(world.paths, uuid) is None:
        await hide(world, uuid)  # what a killed daemon has left
    with open(path, "ab"):
        pass
    node = json.dumps(blockdev | {"node-name": "disk"})
    use = "writable=on,growable=off,allow-other=off" if reader is None else "writable=off,growable=off,allow-other=on"
    export = f"type=fuse,id=show,node-name=disk,mountpoint={path},{use}"
    words = [PROGRAM, "--blockdev", node, "--export", export]
    pid = await world.spawn(words, log_path=f"{path}.log")
    _write(f"{path}.pid", str(pid))
    for _ in range(int(_START_S / _POLL_S)):
        if _is_served(path):
            if reader is not None:
                os.chown(path, reader, -1)
            return path
        if _has_ended(pid):
            break
        await asyncio.sleep(_POLL_S)
    said = _read(f"{path}.log").strip().splitlines()
    await hide(world, uuid)
    raise BlockDeviceError(
        f"The disk cannot be shown as a file: {said[-1] if said else PROGRAM + ' does not serve it'}; see that this "
        "node has /dev/fuse"
    )


async def hide(world: NodeWorld, uuid: str) -> None:
    """End what `show` began; without it there is nothing to do."""
    path = _file(world.paths, uuid)
    if not os.path.exists(f"{path}.pid"):
        return
    for step in range(int(_STOP_S / _POLL_S)):
        pid = _process(world.paths, uuid)
        if pid is None:
            break
        if step == 0:
            os.kill(pid, signal.SIGTERM)
        await asyncio.sleep(_POLL_S)
    else:
        raise BlockDeviceError(f"{PROGRAM} does not end: something still uses {path}")
    try:
        _remove(path)
    except OSError as err:  # killed a moment ago: the mount answers still, or no more
        if err.errno not in (errno.EBUSY, errno.ENOTCONN):
            raise
        await _unmount(world, path)
        _remove(path)
    for name in (f"{path}.log", f"{path}.pid"):
        _remove(name)


async def _unmount(world: NodeWorld, path: str) -> None:
    """Remove the mount that a killed storage daemon has left; raises `BlockDeviceError`."""
    try:
        await world.run(["umount", "--lazy", path], timeout_s=_STOP_S)
    except CommandError as failure:
        raise BlockDeviceError(f"What is left at {path} cannot be unmounted: {failure}") from failure


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _file(paths: Paths, uuid: str) -> str:
    return f"{paths.run_dir}/shown/{uuid}"


def _process(paths: Paths, uuid: str) -> int | None:
    """The storage daemon, if the process of that number still is one for this file."""
    path = _file(paths, uuid)
    text = _read(f"{path}.pid").strip()
    if not text.isdecimal():
        return None
    try:
        with open(f"/proc/{text}/cmdline", "rb") as file:
            return int(text) if f"mountpoint={path},".encode() in file.read() else None
    except OSError:
        return None


def _has_ended(pid: int) -> bool:
    """Whether a process that was just started, and may not have its command line yet, is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _is_served(path: str) -> bool:
    try:
        return os.stat(path).st_dev != os.stat(os.path.dirname(path)).st_dev
    except OSError:
        return False


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
