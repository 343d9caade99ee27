# SPDX-License-Identifier: BSD-2-Clause
"""Snapshots of a running guest's disks: QEMU's agent in the guest, where there is one, freezes its file systems."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

from ganeti.base.errors import HypervisorError
from ganeti.model.node_requests import DiskSpec
from ganeti.node.hypervisors.interface import GuestSnapshots
from ganeti.node.hypervisors.kvm import sockets
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.process import GuestProcess
from ganeti.node.hypervisors.kvm.qmp import Qmp
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

AGENT_S = 10.0
"""How long the agent may take; a guest without one never answers."""
_LINES_MAX, _LINE_BYTES = 1000, 64 * 1024
"""Of an agent's answer, with what is left of earlier questions: more would keep the daemon from its work."""
_NO_ANSWER = (OSError, TimeoutError, ValueError, RecursionError)
"""What asking raises where the agent is silent, has gone, or sends what is no JSON: the guest decides what it sends."""


class KvmSnapshots(GuestSnapshots):
    """*running* gives a guest's process and record; raises `HypervisorError` for one that does not run."""

    def __init__(self, places: Places, running: Callable[[str], tuple[GuestProcess, RuntimeRecord]]) -> None:
        self._places, self._running = places, running

    async def freeze(self, name: str) -> bool:
        _, known = self._running(name)
        if not known.hvparams.get("use_guest_agent"):
            return False
        try:
            return await self._ask_agent(name, "guest-fsfreeze-freeze") is not None
        except _NO_ANSWER:
            return False

    async def answers(self, name: str) -> bool:
        """Whether the guest has an agent that answers."""
        _, known = self._running(name)
        if not known.hvparams.get("use_guest_agent"):
            return False
        try:
            return await self._ask_agent(name, "guest-ping") is not None
        except _NO_ANSWER:
            return False

    async def thaw(self, name: str) -> None:
        _, known = self._running(name)
        if not known.hvparams.get("use_guest_agent"):
            return
        with contextlib.suppress(*_NO_ANSWER):
            await self._ask_agent(name, "guest-fsfreeze-thaw")

    async def take(self, name: str, disk: DiskSpec, snapshot: str) -> None:
        await self._change(name, disk, "blockdev-snapshot-internal-sync", snapshot)

    async def remove(self, name: str, disk: DiskSpec, snapshot: str) -> None:
        await self._change(name, disk, "blockdev-snapshot-delete-internal-sync", snapshot)

    async def _change(self, name: str, disk: DiskSpec, command: str, snapshot: str) -> None:
        guest, known = self._running(name)
        node = next((place.identity for place in known.disks if place.uuid == disk.uuid), None)
        if node is None:
            raise HypervisorError(f"Disk {disk.index} of {name} is not in the running guest: start it again first")
        async with Qmp(self._places.socket(guest.name, "qmp")) as qmp:
            await qmp.execute(command, {"device": node, "name": snapshot})

    async def _ask_agent(self, name: str, command: str) -> Any:
        """The agent's answer; what is left of an earlier question is passed over. Raises one of `_NO_ANSWER`."""
        async with asyncio.timeout(AGENT_S):
            reader, writer = await sockets.connect(self._places.socket(name, "qga"))
            try:
                mark = secrets.randbelow(2**31)
                for question in ({"execute": "guest-sync", "arguments": {"id": mark}}, {"execute": command}):
                    writer.write(json.dumps(question).encode() + b"\n")
                await writer.drain()
                answers = _answers(reader)
                while (await anext(answers)).get("return") != mark:
                    pass
                answer = await anext(answers)
            finally:
                writer.close()
        return None if "error" in answer else answer.get("return")


async def _answers(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The objects that the agent sends; ends by raising one of `_NO_ANSWER`."""
    for _ in range(_LINES_MAX):
        line = await reader.readline()
        if not line:
            raise ConnectionResetError("The agent has closed the connection")
        if len(line) > _LINE_BYTES:
            raise ValueError("The agent sends lines that are too long")
        answer = json.loads(line)
        if isinstance(answer, dict):
            yield answer
    raise ValueError("The agent sends no answer")
