# SPDX-License-Identifier: BSD-2-Clause
"""Global N+1: could every instance of any one node be started elsewhere (spec: htools, 9)."""

from collections.abc import Sequence

from ganeti.placement.kernel.searches import failing_nodes
from ganeti.placement.kernel.state import ClusterState


def nodes_failing(state: ClusterState, members: Sequence[int]) -> list[int]:
    """Those of *members* (ascending) whose failure the others could not absorb; offline nodes are asked too."""
    return failing_nodes(state, members, members)


def redundant(state: ClusterState, members: Sequence[int]) -> bool:
    """Whether the failure of any one of *members* can be absorbed."""
    return not nodes_failing(state, members)
