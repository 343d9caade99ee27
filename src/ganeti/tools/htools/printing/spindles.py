# SPDX-License-Identifier: BSD-2-Clause
"""Free spindles as the tools tell them: counted on exclusive storage alone (spec: htools, 2).

Elsewhere a node keeps what it reported until an instance comes to it or leaves it; then it has none, as in 3.1.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

from ganeti.placement.kernel.state import NOWHERE

if TYPE_CHECKING:
    from ganeti.placement.cluster.picture import Cluster
    from ganeti.placement.definition.score import NodeView
    from ganeti.placement.kernel.state import ClusterState


def touched_nodes(state: "ClusterState", cluster: "Cluster") -> set[int]:
    """Numbers of the nodes that a real instance has come to or left since *state* was made of *cluster*."""
    number_of = state.node_number | {"": NOWHERE}
    before = [(number_of[one.primary], number_of[one.secondary]) for one in cluster.instances]
    before += [(NOWHERE, NOWHERE)] * (len(state.instances) - len(before))
    now = zip(state.primary_of, state.secondary_of, strict=True)
    found = {
        node
        for instance, old, new in zip(state.instances, before, now, strict=True)
        if old != new and not instance.forthcoming
        for node in (*old, *new)
    }
    return found - {NOWHERE}


def free_spindles(view: "NodeView", number: int, touched: Container[int]) -> int:
    """What the node with this *number* has left."""
    return view.free_spindles if view.node.exclusive_storage or number not in touched else 0
