# SPDX-License-Identifier: BSD-2-Clause
"""What an operation is handed in a job process: the ports of `ganeti.ports.context`, backed by the job's world."""

import asyncio
import os
import socket
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from ganeti.base.errors import RESOLVER_ERROR, ResolverError
from ganeti.base.names import NO_HOST_NAME, shown
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.locks.owners import Owner
from ganeti.model.traits import Catalogue
from ganeti.ports.config import ConfigPort
from ganeti.ports.context import (
    AllocatorPort,
    ClockPort,
    EntropyPort,
    JobIdentity,
    JobLogPort,
    NamesPort,
    StatePort,
    Switches,
    UndoPort,
)
from ganeti.ports.nodes import NodesPort

if TYPE_CHECKING:
    from ganeti.job.world import JobWorld


class Clock:
    def now_s(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Entropy:
    def uuid(self) -> str:
        return str(uuid.uuid4())

    def token(self, size_bytes: int) -> bytes:
        return os.urandom(size_bytes)


class Names:
    async def resolve(self, name: str, family: int = 2) -> tuple[str, str]:
        """Give (full name, address); raises `ResolverError`."""
        kind = socket.AddressFamily.AF_INET6 if family == socket.AF_INET6 else socket.AddressFamily.AF_INET
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                name, None, family=kind, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME
            )
        except (OSError, UnicodeError) as err:
            reason = getattr(err, "strerror", None) or NO_HOST_NAME
            raise ResolverError(
                f"The name '{shown(name)}' has no address ({reason}): enter it into the DNS or /etc/hosts",
                RESOLVER_ERROR,
            ) from err
        return found[0][3] or name, str(found[0][4][0])


class LockCalls:
    """Implements `LocksPort`."""

    def __init__(self, client: WConfdClient, owner: Owner) -> None:
        self._client = client
        self._owner = owner

    async def release(self, locks: list[str]) -> None:
        await self._client.release_locks(self._owner, locks)

    async def downgrade(self, level: str) -> None:
        await self._client.downgrade_level(self._owner, level)


class JobContext:
    """Implements `OperationContext`: parts of the world are made when first asked for."""

    def __init__(
        self,
        world: "JobWorld",
        *,
        config: ConfigPort,
        locks: LockCalls,
        log: JobLogPort,
        undo: UndoPort,
        job: JobIdentity,
    ) -> None:
        self._world = world
        self.config = config
        self.locks = locks
        self.log = log
        self.undo = undo
        self._job = job

    @property
    def job(self) -> JobIdentity:
        """The priority is the one it has now (S1.89)."""
        return replace(self._job, priority=self._world.priority(self._job.opcode_index))

    @property
    def nodes(self) -> NodesPort:
        return self._world.nodes

    @property
    def clock(self) -> ClockPort:
        return self._world.clock

    @property
    def entropy(self) -> EntropyPort:
        return self._world.entropy

    @property
    def names(self) -> NamesPort:
        return self._world.names

    @property
    def allocator(self) -> AllocatorPort:
        return self._world.allocator

    @property
    def state(self) -> StatePort:
        return self._world.state

    @property
    def catalogue(self) -> Catalogue:
        return self._world.catalogue

    def outstanding_undo(self) -> list[tuple[int, str, str]]:
        return self._world.outstanding_undo()

    def damaged_jobs(self) -> list[tuple[int, str]]:
        return self._world.damaged_jobs()

    def switches(self) -> Switches:
        return self._world.switches()
