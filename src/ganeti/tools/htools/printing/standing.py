# SPDX-License-Identifier: BSD-2-Clause
"""How a cluster or one of its groups stands: members, scores, nodes that fail a check (spec: htools, 3, 5, 12)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ganeti.placement.definition.score import METRICS, metrics_of, ratio

if TYPE_CHECKING:
    from ganeti.placement.definition.score import NodeView
    from ganeti.placement.kernel.state import ClusterState


def members_of(state: "ClusterState", group: int) -> list[int]:
    """Numbers of the nodes of a group, ascending."""
    return [int(node) for node in state.group_members(group)]


def groups_with_nodes(state: "ClusterState") -> list[int]:
    """Numbers of the groups that have nodes."""
    return [group for group in range(len(state.groups)) if members_of(state, group)]


def instances_of(state: "ClusterState", members: Sequence[int]) -> list[int]:
    """Numbers of the instances whose primary is one of *members*, ascending."""
    inside = set(members)
    return [number for number, node in enumerate(state.primary_of) if node in inside]


def score(state: "ClusterState", members: Sequence[int]) -> float:
    """The score of *members*; lower is better."""
    return state.score(members)


def components(state: "ClusterState", members: Sequence[int]) -> Mapping[str, float]:
    """The unweighted parts of the score; none when no node is online."""
    if all(state.nodes[node].unavailable for node in members):
        return {}
    return state.components(members)


def bad_nodes(state: "ClusterState", members: Sequence[int]) -> list[int]:
    """Online nodes that could not take over what they are secondary for."""
    return [node for node in members if not state.nodes[node].unavailable and state.view(node).fails_n1]


def good_nodes(state: "ClusterState", members: Sequence[int]) -> list[int]:
    """Those that are not among the bad. Like 3.1, which compares whole nodes, a bad one counts as good too where one of
    its ratios is no number, as of a node without memory.
    """
    bad = set(bad_nodes(state, members))
    return [node for node in members if node not in bad or _has_no_number(state.view(node))]


def _has_no_number(view: "NodeView") -> bool:
    values = dict(zip(METRICS, metrics_of(view), strict=True))
    return any(value != value for name, value in values.items() if "spindles" not in name)


def instances_on(state: "ClusterState", nodes: Sequence[int]) -> int:
    """How many instances have a node among *nodes*."""
    chosen = set(nodes)
    real = (number for number, instance in enumerate(state.instances) if not instance.forthcoming)
    return sum(1 for number in real if chosen & {state.primary_of[number], state.secondary_of[number]})


def broken_limit(view: "NodeView") -> str:
    """Which limit of its group's policy a node exceeds, as the failure mode of a check; empty if none."""
    if view.instance_spindles() > view.high_spindles:
        return "FailDisk"
    if ratio(view.used_cpus(), view.node.total_cpus) > view.vcpu_ratio:
        return "FailCPU"
    return ""
