# SPDX-License-Identifier: BSD-2-Clause
"""One node as the getters of its fields see it: stored, filled, and as it answers itself."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import QueryWorld
from ganeti.model import inheritance
from ganeti.model.copies import Copies
from ganeti.model.node_calls.node import NodeFacts
from ganeti.model.objects import Node

MASTER, CANDIDATE, REGULAR, DRAINED, OFFLINE_ROLE = "M", "C", "R", "D", "O"


@dataclass
class NodeRow:
    node: Node
    world: QueryWorld
    live: NodeFacts | None = None
    """The node's answer to `node_info`; None where there is none."""
    copies: Copies | None = None
    """Who has copies of the configuration; None where WConfD did not say."""

    @property
    def is_master(self) -> bool:
        return self.node.uuid == self.world.view.cluster.master_node

    @property
    def role(self) -> str:
        if self.is_master:
            return MASTER
        if self.node.master_candidate:
            return CANDIDATE
        if self.node.drained:
            return DRAINED
        return OFFLINE_ROLE if self.node.offline else REGULAR

    @cached_property
    def parameters(self) -> dict[str, Any]:
        return inheritance.node_nd(self.world.view, self.node)

    @cached_property
    def primaries(self) -> list[str]:
        return _instances_by_node(self.world)[0].get(self.node.uuid, [])

    @cached_property
    def secondaries(self) -> list[str]:
        return _instances_by_node(self.world)[1].get(self.node.uuid, [])


def _instances_by_node(world: QueryWorld) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Names of instances by primary and by secondary node; gone through once per query."""
    found = world.extra.get("instances by node")
    if found is None:
        primary: dict[str, list[str]] = {}
        secondary: dict[str, list[str]] = {}
        for instance in sorted(world.view.instances(), key=lambda item: natural_key(item.name)):
            primary.setdefault(instance.primary_node, []).append(instance.name)
            for uuid in world.view.secondary_nodes(instance):
                secondary.setdefault(uuid, []).append(instance.name)
        found = world.extra["instances by node"] = (primary, secondary)
    by_primary, by_secondary = found
    return by_primary, by_secondary
