# SPDX-License-Identifier: BSD-2-Clause
"""Moving an instance that exists: the best target of a hop, and its texts (spec: htools, 4 and 10).

"Forced" skips the soft limits; an instance that leaves an offline node is always forced. Migration tags bind failovers
and moves to any node, and cannot be forced.
"""

from ganeti.placement.cluster.failure import FailMode
from ganeti.placement.kernel.searches import Hop
from ganeti.placement.kernel.state import ClusterState


def online_targets(state: ClusterState, group: int) -> list[int]:
    """Nodes of a group that can take instances, ascending."""
    return [node for node in state.group_members(group) if state.online[node]]


def describe_failures(state: ClusterState, hop: Hop) -> str:
    """The words of 3.1 when no target passed."""
    parts = [
        f" Node {state.nodes[target].name} failed: {FailMode(failure).name};"
        for target, failure in hop.failures.items()
        if failure
    ]
    return "Can't find any good node: " + "".join(parts)
