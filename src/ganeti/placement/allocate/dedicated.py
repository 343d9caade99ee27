# SPDX-License-Identifier: BSD-2-Clause
"""Placement on nodes with exclusive storage: what is lost counts, not balance (spec: htools, 10).

For each node: how many instances of each smallest size of the policy would still fit before, and how many after. The
candidate that loses least wins, largest sizes first; of those the one that leaves the least disk free.
"""

from collections.abc import Sequence

from ganeti.placement.allocate.new_instance import Solution, solution_of
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.cluster.policy import Policy, Spec
from ganeti.placement.kernel.searches import NodeSearch, find_dedicated_nodes
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import Options


def applies(state: ClusterState, groups: Sequence[int]) -> bool:
    """Whether every node of *groups* has exclusive storage; so it is for no nodes at all."""
    return all(
        node.exclusive_storage for node, group in zip(state.nodes, state.group_of, strict=True) if group in groups
    )


def place_dedicated(
    state: ClusterState, instance: Instance, required: int, candidates: Sequence[int], options: Options
) -> Solution:
    """Find one node, or a pair, of one group by the least loss; global redundancy is not asked for."""
    group = state.groups[state.group_of[candidates[0]]]
    sizes = [(s.memory_mib, s.disk_mib, s.cpus, s.spindle_use) for s in smallest_sizes(group.policy)]
    mark = state.mark()
    try:
        number = state.add_instance(instance, NOWHERE)
        asked = NodeSearch(number, required, candidates, (), ignore_soft_errors=options.ignore_soft_errors)
        found = find_dedicated_nodes(state, asked, sizes)
    finally:
        state.rollback(mark)
    *lost, left = (int(number) for number in found.key or (0,))
    return solution_of(found, f"([{','.join(map(str, lost))}],{left})")


def smallest_sizes(policy: Policy) -> list[Spec]:
    """The lower ends of the policy's ranges, largest disk first."""
    return sorted((low for low, _ in policy.ranges), key=lambda spec: -spec.disk_mib)
