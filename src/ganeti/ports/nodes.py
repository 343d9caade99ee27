# SPDX-License-Identifier: BSD-2-Clause
"""Calls to node daemons, by name: declared with their handlers in `node/actions/`.

A test checks every call made from `master/` against the handlers' signatures.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from ganeti.base.errors import GanetiError


@dataclass(frozen=True)
class NodeAnswer:
    """One node's answer among many: either a value or an error."""

    node_uuid: str
    value: Any = None
    error: GanetiError | None = None


class NodesPort(Protocol):
    async def call(self, node_uuid: str, call: str, /, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        """Call one node and give the plain answer, within *deadline_s* (default: the call's declared time).

        Raises `NodeUnreachableError`, `NodeTimeoutError` (both: it may have happened), or the error the node
        gave, whose message names the node. Offline nodes are never called: `NodeUnreachableError` at once.
        Structs (`InstanceSpec`, …) may be passed as they are.
        """
        ...

    async def call_many(
        self, node_uuids: Iterable[str], call: str, /, *, deadline_s: float | None = None, **arguments: Any
    ) -> list[NodeAnswer]:
        """Call several nodes at once; answers in the order asked, errors as values."""
        ...
