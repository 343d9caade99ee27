# SPDX-License-Identifier: BSD-2-Clause
"""What an operation is handed in a job process: the ports of `ganeti.ports.context`, backed by the job's world."""

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from ganeti.base.errors import RESOLVER_ERROR, PrerequisiteError, ResolverError
from ganeti.base.names import NO_HOST_NAME, shown
from ganeti.base.paths import Paths
from ganeti.calls.luxi_client import LuxiClient
from ganeti.calls.reservation_calls import list_reservations, reserve_room
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.job.bell import opened_bell
from ganeti.master.locks.owners import Owner
from ganeti.model import reservations as model_reservations
from ganeti.model.node_calls.programs import Phase
from ganeti.model.traits import Catalogue
from ganeti.node import local_hooks
from ganeti.ports.config import ConfigPort
from ganeti.ports.context import Bell, JobIdentity, JobLogPort, Switches, UndoPort
from ganeti.ports.luxid import Client
from ganeti.ports.nodes import NodesPort
from ganeti.stores import undo_files
from ganeti.stores.job_files import JobFiles
from ganeti.stores.watcher_pause import watcher_pause
from ganeti.system.files import plain_file
from ganeti.wire.job_file import JobFile


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
            version = 6 if kind == socket.AF_INET6 else 4
            raise ResolverError(
                f"The name '{shown(name)}' has no IPv{version} address ({reason}): enter it into the DNS or /etc/hosts",
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


class Reservations:
    """Implements `ReservationsPort`."""

    def __init__(self, client: WConfdClient, owner: Owner) -> None:
        self._client = client
        self._owner = owner

    async def current(self) -> model_reservations.Reservations:
        return await list_reservations(self._client)

    async def reserve(self, reservations: Sequence[model_reservations.Reservation], seen: int) -> str | None:
        return await reserve_room(self._client, self._owner, reservations, seen)


class MasterFiles:
    """Implements `MasterFilesPort`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def outstanding_undo(self) -> list[tuple[int, str, str]]:
        return [(item.job_id, item.sentence, item.reason) for item in undo_files.outstanding_undo(self._paths)]

    def damaged_jobs(self) -> list[tuple[int, str]]:
        return undo_files.damaged_jobs(self._paths)

    def bell(self, job: JobIdentity) -> AbstractAsyncContextManager[Bell]:
        return opened_bell(f"{self._paths.socket_dir}/job-{job.job_id}-{job.opcode_index}")

    def domain_secret(self) -> str:
        try:
            with open(self._paths.cluster_domain_secret, encoding="utf-8", opener=plain_file) as file:
                return file.read().strip()
        except OSError as err:
            raise PrerequisiteError(
                f"The cluster domain secret {self._paths.cluster_domain_secret} cannot be read ({err.strerror}): make "
                "one with gnt-cluster renew-crypto --new-cluster-domain-secret"
            ) from err

    def hook_phases(self, path: str) -> list[Phase]:
        return local_hooks.phases_present(self._paths, path)

    def switches(self) -> Switches:
        return Switches(JobFiles(self._paths).drained(), watcher_pause(self._paths))


class JobContext:
    """Implements `OperationContext` for one opcode of *file*; the way to the nodes is made when first asked for."""

    clock = Clock()
    entropy = Entropy()
    names = Names()

    def __init__(
        self,
        file: JobFile,
        identity: JobIdentity,
        paths: Paths,
        wconfd: WConfdClient,
        owner: Owner,
        *,
        config: ConfigPort,
        nodes: Callable[[], NodesPort],
        catalogue: Catalogue,
        log: JobLogPort,
        undo: UndoPort,
        stop_if_cancelled: Callable[[], None],
    ) -> None:
        self._file = file
        self.stop_if_cancelled = stop_if_cancelled
        self._identity = identity
        self._nodes = nodes
        self._owner = owner
        self.config = config
        self.catalogue = catalogue
        self.log = log
        self.undo = undo
        self.locks = LockCalls(wconfd, owner)
        self.reservations = Reservations(wconfd, owner)
        self.luxid = LuxiClient(paths)
        self.master = MasterFiles(paths)

    @property
    def job(self) -> JobIdentity:
        """The priority is the one it has now (S1.89)."""
        return replace(self._identity, priority=self._file.ops[self._identity.opcode_index].priority)

    @property
    def client(self) -> Client:
        return self._owner.name, self._owner.lock_file, self._owner.pid

    @property
    def nodes(self) -> NodesPort:
        return self._nodes()
