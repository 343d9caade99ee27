# SPDX-License-Identifier: BSD-2-Clause
"""Chains of backups served to QEMU by a process of their own, `backup-chain`, which outlives this daemon.

``run/ganeti/backup-chains/NAME/`` holds its task until it has read it (the task has the key), its lock file, its
process id, its socket and what it says.
"""

import os
import re
import shutil
import signal
from contextlib import suppress

import msgspec

from ganeti.base.errors import BlockDeviceError
from ganeti.base.names import shown
from ganeti.base.paths import Paths
from ganeti.model.node_calls.backups import ChainLink
from ganeti.ports.node_world import NodeWorld
from ganeti.system.files import write_atomically
from ganeti.system.livelock import is_alive

LOCK, PID, SOCKET, TASK = "lock", "pid", "socket", "task"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
_BEGINS_S, _ENDS_S, _POLL_S = 30.0, 20.0, 0.02


class ServedChain(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is to serve."""

    instance_uuid: str
    chain: list[ChainLink]
    sizes: list[int]
    key: bytes


async def serve(world: NodeWorld, name: str, task: ServedChain) -> None:
    """Start the process, and wait until it listens; raises `BlockDeviceError`."""
    directory = _directory(world.paths, name)
    await end(world, name)
    os.makedirs(directory, mode=0o700)
    write_atomically(f"{directory}/{TASK}", msgspec.json.encode(task), mode=0o600, durable=False)
    pid = await world.spawn([world.paths.backup_chain, directory], log_path=f"{directory}/log")
    waited_s = 0.0
    while not os.path.exists(f"{directory}/{SOCKET}"):
        if waited_s > _BEGINS_S or not os.path.exists(f"/proc/{pid}"):
            said = last_words(world.paths, name)
            await end(world, name)
            raise BlockDeviceError(f"The backup cannot be read on node {world.node_name}: {said}")
        await world.sleep(_POLL_S)
        waited_s += _POLL_S


async def end(world: NodeWorld, name: str) -> None:
    """End the process and remove its directory; without them there is nothing to do."""
    directory = _directory(world.paths, name)
    waited_s = 0.0
    while is_alive(f"{directory}/{LOCK}"):
        with suppress(OSError, ValueError), open(f"{directory}/{PID}", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGTERM)  # the number is its own as long as it holds the lock
        if waited_s > _ENDS_S:
            raise BlockDeviceError(f"The process that serves {directory} does not end: end it on this node")
        await world.sleep(_POLL_S)
        waited_s += _POLL_S
    shutil.rmtree(directory, ignore_errors=True)


def disk_node(paths: Paths, name: str, disk: int) -> dict[str, object]:
    """A disk of a served chain, as QEMU's ``-blockdev`` takes it."""
    server = {"type": "unix", "path": f"{_directory(paths, name)}/{SOCKET}"}
    return {"driver": "nbd", "server": server, "export": str(disk), "read-only": True}


def last_words(paths: Paths, name: str) -> str:
    """What the process has said last."""
    try:
        with open(f"{_directory(paths, name)}/log", encoding="utf-8", errors="replace") as file:
            return file.read()[-400:].strip() or "it has said nothing"
    except OSError:
        return "it has said nothing"


def checked(name: str) -> str:
    """A name that may be a part of a path; raises `BlockDeviceError`."""
    if not _NAME.fullmatch(name):
        raise BlockDeviceError(f"'{shown(name)}' cannot name a backup that is read")
    return name


def _directory(paths: Paths, name: str) -> str:
    return f"{paths.backup_chains_dir}/{checked(name)}"
