# SPDX-License-Identifier: BSD-2-Clause
"""A master gets its own candidates back, after they have promised themselves to somebody who then did not begin.

Such a candidate takes nothing of the master's epoch ever again. So the master asks for the promises of a new one, by
the rules by which any node takes over (`master/mastership`): where somebody has begun after all, it is refused.
"""

import logging
import time
from typing import Any

from ganeti.base.errors import NodeCallError
from ganeti.base.version import RELEASE
from ganeti.master.mastership.conduct import take_over
from ganeti.master.mastership.messages import Begin, Claim
from ganeti.model.configuration import Configuration
from ganeti.model.membership import Membership
from ganeti.model.node_calls.replica import CopyAnswer, Promise, ReplicaMembers
from ganeti.ports.nodes import NodesPort, ask

_log = logging.getLogger(__name__)
_ANSWER_WITHIN_S = 2.0


async def reclaim(config: Configuration, nodes: NodesPort) -> Begin:
    """Get what is needed to begin a new epoch here, on the master; raises `PrerequisiteError` where it may not."""
    me = config.cluster.master_node
    serving = [node for node in config.nodes() if not node.offline]
    claim = Claim(
        me=me,
        names={node.uuid: node.name for node in serving},
        candidates=tuple(node.uuid for node in serving if node.master_candidate),
        old_master=me,
        position=config.position,
        reclaims=True,
    )
    return await take_over(claim, _Nodes(config, nodes, me))


class _Nodes:
    """`TakeOverWorld` over the master's own node calls."""

    def __init__(self, config: Configuration, nodes: NodesPort, me: str) -> None:
        self._config = config
        self._nodes = nodes
        self._me = me

    async def promise(self, node: str, epoch: int, *, ask_only: bool) -> CopyAnswer:
        request = Promise(**self._caller(epoch), ask_only=ask_only, position=self._config.position)
        return await ask(self._nodes, node, request, deadline_s=_ANSWER_WITHIN_S)

    async def write_members(self, node: str, membership: Membership) -> None:
        request = ReplicaMembers(**self._caller(membership.version[0]), membership=membership)
        answer = await ask(self._nodes, node, request, deadline_s=_ANSWER_WITHIN_S)
        if answer.refused:
            raise NodeCallError(answer.sentence or answer.refused)

    async def stop_master(self, node: str) -> int:
        """It is this very daemon, which goes on in the new epoch."""
        return 0

    def say(self, sentence: str) -> None:
        _log.info("%s", sentence)

    def _caller(self, epoch: int) -> dict[str, Any]:
        return {
            "cluster": self._config.cluster.uuid,
            "software": RELEASE,
            "epoch": epoch,
            "master": self._me,
            "time_s": time.time(),
        }
