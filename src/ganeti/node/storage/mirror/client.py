# SPDX-License-Identifier: BSD-2-Clause
"""Asking this node's ganeti-mirrord; it is started where it does not run."""

import asyncio
import contextlib
from typing import TypeVar

import msgspec

from ganeti.base.errors import BlockDeviceError, CommandError
from ganeti.node.hypervisors.kvm import sockets
from ganeti.node.storage.mirror.places import Places
from ganeti.node.storage.mirror.requests import OwnRequest, Refusal
from ganeti.ports.node_world import NodeWorld

DAEMON = "ganeti-mirrord"
_ANSWER_S = 60.0
_START_S = 30.0
T = TypeVar("T")


async def ask(world: NodeWorld, daemon_util: str, request: OwnRequest, answer: type[T]) -> T:
    """Raises `BlockDeviceError` with the reason of a refusal."""
    path = Places(world.paths).control
    try:
        return await _exchange(path, request, answer)
    except (FileNotFoundError, ConnectionError):
        Places(world.paths).make_directory()
    try:
        await world.run([daemon_util, "start", DAEMON], timeout_s=_START_S)
        return await _exchange(path, request, answer)
    except (OSError, CommandError) as err:
        raise BlockDeviceError(f"{DAEMON} does not run on this node: {err}") from err


async def _exchange(path: str, request: OwnRequest, answer: type[T]) -> T:
    reader, writer = await sockets.connect(path)
    try:
        async with asyncio.timeout(_ANSWER_S):
            writer.write(msgspec.json.encode(request) + b"\n")
            line = await reader.readline()
    except TimeoutError as err:
        raise BlockDeviceError(f"{DAEMON} does not answer within {_ANSWER_S:g} s") from err
    finally:
        with contextlib.suppress(OSError):
            writer.close()
    if not line:
        raise ConnectionResetError(f"{DAEMON} ended the connection")
    found = msgspec.json.decode(line)
    if isinstance(found, dict) and "error" in found:
        raise BlockDeviceError(msgspec.convert(found, Refusal).error)
    return msgspec.convert(found, answer)
