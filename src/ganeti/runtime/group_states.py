# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of `OP_UPDATE_NODE_GROUP_CACHE` (S1.54): forget a node group's state, ask its nodes, keep what they say.

The job holds the locks and LuxiD asks: so nobody feeds the cache from outside (S1.43), and whoever else makes the call
has only had nodes asked. Each node gets one call, all at once, with the question of lists, which the answers serve.
"""

from typing import Any

from ganeti.base.errors import ExecutionError
from ganeti.master.cache.group_state import group_state
from ganeti.master.query.collecting import place_guests
from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.instance_rows import InstanceRow
from ganeti.master.query.nodes import NODES, NodeRow
from ganeti.master.query.resources import config_rows
from ganeti.runtime.config_follower import ConfigFollower
from ganeti.runtime.query_sources import QuerySources
from ganeti.runtime.wconfd_client import WConfdClient

_FOLLOW_S = 10.0
_ASKED = frozenset({"bootid"})
"""Nodes are asked for all they know whichever live field is wanted."""


class GroupStates:
    """Answers jobs."""

    def __init__(self, follower: ConfigFollower, wconfd: WConfdClient, sources: QuerySources) -> None:
        self._follower = follower
        self._wconfd = wconfd
        self._sources = sources

    async def renew(self, uuid: str) -> dict[str, Any]:
        """Give the state of a group, of now; raises `GanetiError` for one that does not exist, or without WConfD.

        A node that does not answer is as good as unknown, and all that was kept of it is void.
        """
        await self._follow()
        view, cache = self._follower.configuration, self._sources.cache
        group, world = view.group(uuid), QueryWorld(view, self._sources.catalogue)
        nodes: list[NodeRow] = [row for row in config_rows("node", world) if row.node.group == uuid]
        members = {row.node.uuid for row in nodes}
        instances: list[InstanceRow] = [
            row for row in config_rows("instance", world) if row.instance.primary_node in members
        ]
        cache.void_group(uuid)
        await self._sources.collector(NODES, cached=False)(nodes, _ASKED)
        place_guests(instances, {row.node.uuid: row.live["guests"] or [] for row in nodes if row.live is not None})
        return group_state(group, nodes, instances, NODES, self._sources.resource("instance"))

    async def _follow(self) -> None:
        """Know what the job knows, and of all locks given up so far: news of them would make void what is asked now."""
        if not await self._follower.reached(await self._wconfd.position(), _FOLLOW_S):
            raise ExecutionError("ganeti-luxid does not get the configuration from ganeti-wconfd: is that running?")
        await self._sources.cache.settled()
