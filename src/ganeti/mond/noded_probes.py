# SPDX-License-Identifier: BSD-2-Clause
"""`Probes` of a MonD with a user of its own: it asks the node daemon of this node."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError, PrerequisiteError, TransportError
from ganeti.base.paths import Paths
from ganeti.node.collectors import diagnose
from ganeti.node.collectors.probes import (
    DIAGNOSED,
    KEY,
    LVS_TIMEOUT_S,
    SEEN,
    STATES,
    STORAGE,
    VOLUMES,
    Diagnosed,
    socket_path,
)
from ganeti.node.hypervisors.interface import Sighting
from ganeti.wire.framing_sync import ask

_ANSWER_S = 15.0
_SLACK_S = 5.0
_PATIENCE_S = 20.0
"""As the node starts, the node daemon may begin a moment later."""
_AGAIN_S = 0.2


class NodedProbes:
    """Raises `GanetiError` where the node daemon does not answer; a diagnose command has then nothing to say."""

    def __init__(self, paths: Paths) -> None:
        self._path = socket_path(paths)

    async def seen(self, hypervisor: str) -> Sequence[Sighting]:
        return msgspec.convert(await self._ask(_ANSWER_S, SEEN, hypervisor), list[Sighting])

    async def states(self, hypervisor: str) -> Mapping[str, str]:
        return msgspec.convert(await self._ask(_ANSWER_S, STATES, hypervisor), dict[str, str])

    async def volumes(self) -> str:
        return str(await self._ask(LVS_TIMEOUT_S + _SLACK_S, VOLUMES))

    async def storage(self) -> list[dict[str, Any]]:
        return msgspec.convert(await self._ask(_ANSWER_S, STORAGE), list[dict[str, Any]])

    async def diagnosed(self, command: str) -> Diagnosed:
        try:
            return msgspec.convert(await self._ask(diagnose.TIMEOUT_S + _SLACK_S, DIAGNOSED, command), Diagnosed)
        except (GanetiError, msgspec.ValidationError) as err:
            return diagnose.refused(f"the node daemon does not run the command: {err}")

    async def _ask(self, within_s: float, call: str, *arguments: Any) -> Any:
        return await asyncio.to_thread(ask, self._path, within_s, call, *arguments)


def asked_key(paths: Paths) -> bytes:
    """The cluster's key, from the node daemon; raises `PrerequisiteError`."""
    end_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return str(ask(socket_path(paths), _ANSWER_S, KEY)).encode()
        except TransportError as err:
            if time.monotonic() > end_s:
                raise PrerequisiteError(f"The node daemon does not give the cluster's key: {err}") from err
            time.sleep(_AGAIN_S)
        except GanetiError as err:
            raise PrerequisiteError(f"The node daemon does not give the cluster's key: {err}") from err
