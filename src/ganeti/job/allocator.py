# SPDX-License-Identifier: BSD-2-Clause
"""Asking an allocator from a job: the built-in one in LuxiD, others as programs on the master."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, ParameterError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.calls.luxi_client import LuxiClient
from ganeti.calls.luxid_questions import INPUT_CALL, KEEP_CAPACITY_CALL, KNOWN_CAPACITY_CALL, PLACEMENT_CALL
from ganeti.calls.promise_calls import list_promises, promise_room
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.master.allocation import BUILT_IN
from ganeti.master.locks.owners import Owner
from ganeti.model.capacity import Capacity
from ganeti.model.promises import Promise, Promises
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodesPort
from ganeti.wire.iallocator import decode_response, encode_message

_SHOWN_CHARACTERS = 200
_PATIENCE_S = 60.0


class Allocator:
    """Implements `AllocatorPort` for the job that is *owner*."""

    def __init__(
        self,
        paths: Paths,
        nodes: NodesPort,
        view: Callable[[], ConfigView],
        wconfd: WConfdClient,
        owner: Owner,
    ) -> None:
        self._paths = paths
        self._nodes = nodes
        self._view = view
        self._wconfd = wconfd
        self._owner = owner

    async def allocate(
        self, name: str, request: dict[str, Any], *, promise: bool = True, why: bool = False
    ) -> dict[str, Any]:
        if name == BUILT_IN:
            client = self._owner.to_wire() if promise else None
            return dict(await self._ask_luxid(PLACEMENT_CALL, request, client, why))
        serial, message = await self.describe(request)
        answer = await self.run(name, message)
        try:
            response = decode_response(answer.encode())
        except ParameterError as err:
            raise PrerequisiteError(
                f"The iallocator '{name}' gave an answer that breaks the protocol: {err}{_beginning(answer)}"
            ) from err
        return {
            "success": response.success,
            "info": response.info,
            "result": response.result,
            "serial": serial,
        }

    async def describe(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        found = await self._ask_luxid(INPUT_CALL, request)
        return found["serial"], found["input"] | {"request": request}

    async def run(self, name: str, message: dict[str, Any]) -> str:
        view = self._view()
        try:
            answer: str = await self._nodes.call(
                view.cluster.master_node,
                "iallocator_runner",
                name=name,
                idata=encode_message(message).decode(),
                default_iallocator_params=view.cluster.default_iallocator_params,
            )
        except GanetiError as err:
            raise PrerequisiteError(f"The iallocator '{name}' could not be run: {err}", WRONG_INPUT) from err
        return answer

    async def promised(self) -> Promises:
        return await list_promises(self._wconfd)

    async def promise(self, promises: Sequence[Promise], seen: int) -> str | None:
        return await promise_room(self._wconfd, self._owner, promises, seen)

    async def known_capacity(self, questions: Mapping[str, dict[str, Any]], *, cached: bool) -> dict[str, Capacity]:
        found = await self._ask_luxid(KNOWN_CAPACITY_CALL, self._owner.to_wire(), questions, cached)
        return {group: Capacity(*capacity) for group, capacity in found.items()}

    async def keep_capacity(self, counted: Mapping[str, Capacity]) -> None:
        await self._ask_luxid(KEEP_CAPACITY_CALL, self._owner.to_wire(), counted)

    async def _ask_luxid(self, call: str, *arguments: Any) -> Any:
        return await LuxiClient(self._paths).call(call, *arguments, patience_s=_PATIENCE_S, only_asks=True)


def _beginning(answer: str) -> str:
    if not answer.strip():
        return "; it printed nothing"
    return f"; it printed: {answer.strip()[:_SHOWN_CHARACTERS]}{'…' if len(answer.strip()) > _SHOWN_CHARACTERS else ''}"
