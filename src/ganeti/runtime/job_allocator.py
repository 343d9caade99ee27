# SPDX-License-Identifier: BSD-2-Clause
"""Asking an allocator from a job: the built-in one by LuxiD's placement worker, others as programs on the master."""

from collections.abc import Callable
from typing import Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, ParameterError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodesPort
from ganeti.runtime.luxi_client import LuxiClient
from ganeti.wire.iallocator import decode_response, encode_message

BUILT_IN = "hail"
PLACEMENT_CALL = "AnswerPlacement"
_PATIENCE_S = 60.0


class Allocator:
    """Implements `AllocatorPort`."""

    def __init__(self, paths: Paths, nodes: NodesPort, view: Callable[[], ConfigView]) -> None:
        self._paths = paths
        self._nodes = nodes
        self._view = view

    async def allocate(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        """Give the response, whether it is a success or not; the built-in one adds ``reasons``, node by node."""
        return await (self._built_in(request) if name == BUILT_IN else self._program(name, request))

    async def _built_in(self, request: dict[str, Any]) -> dict[str, Any]:
        client = LuxiClient(self._paths)
        answer: dict[str, Any] = await client.call(PLACEMENT_CALL, request, patience_s=_PATIENCE_S, only_asks=True)
        return answer

    async def _program(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        view = self._view()
        parameters = view.cluster.default_iallocator_params
        try:
            text = await self._nodes.call(
                view.cluster.master_node,
                "iallocator_runner",
                name=name,
                idata=encode_message(request).decode(),
                default_iallocator_params=parameters,
            )
            response = decode_response(str(text).encode())
        except ParameterError as err:
            raise PrerequisiteError(f"The iallocator '{name}' gave an answer that breaks the protocol: {err}") from err
        except GanetiError as err:
            raise PrerequisiteError(f"The iallocator '{name}' could not be run: {err}", WRONG_INPUT) from err
        return {"success": response.success, "info": response.info, "result": response.result}
