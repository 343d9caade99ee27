# SPDX-License-Identifier: BSD-2-Clause
"""What ganeti-metad is told of the guests on this node; it is started where it does not run.

A guest runs without its metadata rather than not at all: what goes wrong is told in the log.
"""

import asyncio
import os
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.model.communication import nic_of
from ganeti.model.node_requests import InstanceSpec
from ganeti.ports.node_world import NodeWorld
from ganeti.wire.framing_sync import ask

DAEMON = "ganeti-metad"
PUBLIC, PRIVATE = "public", "private"
_ANSWER_S = 10.0
_START_S = 30.0


class Metadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one guest, known by the address of its NIC for communication."""

    name: str
    uuid: str
    address: str
    os: str
    parameters: dict[str, tuple[str, str]] = {}
    """OS parameters: value and `PUBLIC` or `PRIVATE`. Secret ones are not kept anywhere."""


def socket_path(paths: Paths) -> str:
    return f"{paths.socket_dir}/{DAEMON}"


def kept_file(paths: Paths) -> str:
    """What ganeti-metad knows, for the next one; gone when it knows of no guest."""
    return f"{paths.run_dir}/metad.json"


def metadata_of(spec: InstanceSpec) -> Metadata | None:
    """None for an instance without communication."""
    nic = nic_of(spec.nics)
    if nic is None or nic.ip is None:
        return None
    parameters = {name: (str(value), PUBLIC) for name, value in spec.osparams.items()}
    parameters |= {name: (str(value), PRIVATE) for name, value in spec.osparams_private.items()}
    return Metadata(name=spec.name, uuid=spec.uuid, address=nic.ip, os=spec.os, parameters=parameters)


async def tell(world: NodeWorld, daemon_util: str, spec: InstanceSpec) -> None:
    """Before a guest with communication runs here."""
    found = metadata_of(spec)
    if found is None:
        return
    try:
        if not os.path.exists(socket_path(world.paths)):
            await world.run([daemon_util, "start", DAEMON], timeout_s=_START_S)
        try:
            await _ask(world, "update_config", msgspec.to_builtins(found))
        except GanetiError:  # it has died
            await world.run([daemon_util, "start", DAEMON], timeout_s=_START_S)
            await _ask(world, "update_config", msgspec.to_builtins(found))
    except GanetiError as err:
        world.log(f"instance {spec.name} has no metadata: {err}")


async def forget(world: NodeWorld, name: str) -> None:
    """A guest does not run here any more."""
    if not os.path.exists(kept_file(world.paths)):
        return
    try:
        await _ask(world, "forget", name)
    except GanetiError as err:
        world.log(f"the metadata of instance {name} stays: {err}")


async def _ask(world: NodeWorld, method: str, *arguments: Any) -> Any:
    return await asyncio.to_thread(ask, socket_path(world.paths), _ANSWER_S, method, *arguments)
