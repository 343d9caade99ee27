# SPDX-License-Identifier: BSD-2-Clause
"""Answers this node's MonD, which has a user of its own, what only root may look at. Nothing here changes anything."""

from collections.abc import Sequence
from typing import Any

import msgspec

import ganeti.node.hypervisors
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.base.registry import import_all
from ganeti.calls.serving import RequestServer, handlers_of, serves
from ganeti.node.collectors.local_probes import LocalProbes
from ganeti.node.collectors.probes import (
    DIAGNOSED,
    KEY,
    SEEN,
    STATES,
    STORAGE,
    VOLUMES,
    Probes,
    socket_path,
)
from ganeti.node.collectors.report import UnreadableError
from ganeti.node.hypervisors.interface import Hypervisor
from ganeti.noded.world import RealNodeWorld
from ganeti.system import accounts
from ganeti.system.files import plain_file
from ganeti.system.unix_socket import UnixServer
from ganeti.system.unix_socket import serve as serve_socket


class Answers:
    """The calls of `ganeti.node.collectors.probes`."""

    def __init__(self, probes: Probes, paths: Paths) -> None:
        self._probes, self._paths = probes, paths

    @serves(SEEN)
    async def seen(self, hypervisor: Any) -> Any:
        return msgspec.to_builtins(list(await self._probes.seen(_word(hypervisor))))

    @serves(STATES)
    async def states(self, hypervisor: Any) -> Any:
        return dict(await self._probes.states(_word(hypervisor)))

    @serves(VOLUMES)
    async def volumes(self) -> Any:
        try:
            return await self._probes.volumes()
        except UnreadableError as err:
            raise PrerequisiteError(str(err)) from err

    @serves(STORAGE)
    async def storage(self) -> Any:
        return await self._probes.storage()

    @serves(DIAGNOSED)
    async def diagnosed(self, command: Any) -> Any:
        return await self._probes.diagnosed(_word(command))

    @serves(KEY)
    async def key(self) -> Any:
        """The cluster's key: MonD asks ConfD with it, and signs what a diagnose command says."""
        with open(self._paths.hmac_key, encoding="ascii", opener=plain_file) as file:
            return file.read()


class ProbeServer(RequestServer):
    """The door: one message a request, as at the other sockets of a node."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(handlers_of(answers))


async def serve_probes(paths: Paths, node_name: str, ssconf: Any) -> UnixServer | None:
    """Answer MonD until closed; nothing where it is root itself."""
    if not accounts.are_used(paths.root):
        return None
    import_all(ganeti.node.hypervisors)
    world = RealNodeWorld(paths, node_name)
    drivers: Sequence[Hypervisor] = [driver(world) for _, driver in sorted(Hypervisor.registry.items())]
    answers = Answers(LocalProbes(paths, drivers, ssconf), paths)
    path = socket_path(paths)
    return await serve_socket(path, ProbeServer(answers).serve, mode=0o660, group=accounts.MONITORING)


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise PrerequisiteError(f"A text is expected, not {type(value).__name__}", WRONG_INPUT)
    return value
