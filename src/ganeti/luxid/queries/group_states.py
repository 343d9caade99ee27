# SPDX-License-Identifier: BSD-2-Clause
"""LuxiD's side of `OP_UPDATE_NODE_GROUP_CACHE` (S1.54): forget a node group's state, ask its nodes, keep what they say.

The job holds the locks and LuxiD asks: so nobody feeds the cache from outside (S1.43), and any other caller
has only had nodes asked. Each node gets one call, all at once, with the question of lists, which the answers serve.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti.calls.config_follower import ConfigFollower
from ganeti.calls.serving import serves
from ganeti.calls.wconfd_client import WConfdClient
from ganeti.luxid.queries.sources import QuerySources
from ganeti.master.cache.group_state import INSTANCE_FIELDS, NODE_FIELDS, values
from ganeti.master.query.collecting import FoundGuests
from ganeti.master.query.fields import QueryWorld
from ganeti.master.query.instance_rows import InstanceRow
from ganeti.master.query.node_rows import NodeRow
from ganeti.master.query.nodes import NODES
from ganeti.model.node_calls.instances import FoundInstance
from ganeti.ports.luxid import RenewGroupState

_SLICE_S = 0.003
"""How long many instances are looked at before others have a turn."""
_ASKED = [NODES.fields["bootid"]]
"""Nodes are asked for all they know whichever live field is wanted."""


class GroupStates:
    """Answers jobs."""

    def __init__(self, follower: ConfigFollower, wconfd: WConfdClient, sources: QuerySources) -> None:
        self._follower = follower
        self._wconfd = wconfd
        self._sources = sources

    @serves(RenewGroupState)
    async def renew(self, asked: RenewGroupState) -> dict[str, Any]:
        """Give the state of a group, of now, in no order; a node that does not answer has no values, and had none kept.

        Raises `GanetiError` for a group that does not exist, or without WConfD.
        """
        await self._follow()
        uuid = asked.uuid
        view, cache = self._follower.configuration, self._sources.cache
        group, world = view.group(uuid), QueryWorld(view, self._sources.catalogue)
        nodes = [NodeRow(node, world) for node in view.group_nodes(uuid)]
        instances = [InstanceRow(each, world) for each in view.primary_instances(*(row.node.uuid for row in nodes))]
        cache.void_group(uuid)
        await self._sources.collector(cached=False)(nodes, _ASKED)
        guests = {row.node.uuid: row.live.guests or [] for row in nodes if row.live is not None}
        return {
            "group": {"name": group.name, "uuid": group.uuid},
            "nodes": {row.node.name: values(NODES, NODE_FIELDS, row) for row in nodes},
            "instances": await self._told_of(instances, guests),
        }

    async def _told_of(
        self, instances: Sequence[InstanceRow], guests: Mapping[str, Sequence[FoundInstance]]
    ) -> dict[str, dict[str, Any]]:
        """What the nodes said of each instance; *guests* by the uuid of the nodes that answered."""
        resource, found = self._sources.resource("instance"), FoundGuests(guests)
        told: dict[str, dict[str, Any]] = {}
        began_s = time.monotonic()
        for row in instances:
            row.live = found.of(row)
            told[row.instance.name] = values(resource, INSTANCE_FIELDS, row)
            if time.monotonic() - began_s > _SLICE_S:
                await asyncio.sleep(0)
                began_s = time.monotonic()
        return told

    async def _follow(self) -> None:
        """Know what the job knows, and of all locks given up so far: news of them would make void what is asked now."""
        await self._follower.follow(await self._wconfd.position())
        await self._sources.cache.settled()
