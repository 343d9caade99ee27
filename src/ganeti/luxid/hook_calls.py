# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's answer to jobs that ask which nodes have hooks: over connections that it keeps for its queries.

Most nodes have none of the kind that is asked for. A job that calls them all the same makes a TLS connection to each,
which costs more than a small job itself.
"""

from typing import Final

from ganeti.calls.serving import serves
from ganeti.model.node_calls.programs import HooksPresent
from ganeti.ports.luxid import NodesWithHooks
from ganeti.ports.nodes import NodesPort, ask_many

NODE_S: Final = 3.0
"""A node that takes longer is called by the job itself, which has more patience.

Such a node costs an operation this time once more; it is hung, or busier than any node should be.
"""


class HookCalls:
    """Handlers of questions."""

    def __init__(self, nodes: NodesPort) -> None:
        self._nodes = nodes

    @serves(NodesWithHooks)
    async def nodes_with_hooks(self, asked: NodesWithHooks) -> dict[str, list[str]]:
        """Nodes that do not answer, or are not known here yet, are left out."""
        answers = await ask_many(self._nodes, asked.nodes, HooksPresent(path=asked.path), deadline_s=NODE_S)
        return {answer.node_uuid: answer.value for answer in answers if answer.error is None}
