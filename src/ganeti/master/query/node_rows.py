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
        return sorted(self.world.primaries.get(self.node.uuid, ()), key=natural_key)

    @cached_property
    def secondaries(self) -> list[str]:
        return sorted(self.world.secondaries.get(self.node.uuid, ()), key=natural_key)
