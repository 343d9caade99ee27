# SPDX-License-Identifier: BSD-2-Clause
"""Lock plans as operations make them: everything but the few that stop the cluster shares the big lock."""

from collections.abc import Iterable, Sequence

from ganeti.model.locks import (
    ALL_NODE_RES,
    ALL_NODES,
    BGL,
    LockPlan,
    group_lock,
    instance_lock,
    node_lock,
    node_res_lock,
)
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView


def plan(*, shared: Iterable[str] = (), exclusive: Iterable[str] = ()) -> LockPlan:
    """A plan that also shares the big lock (protocols, section 3.1: operations that do not require it)."""
    wanted = frozenset(exclusive)
    return LockPlan(shared=(frozenset(shared) | {BGL}) - wanted, exclusive=wanted)


def whole_cluster() -> LockPlan:
    """The plan of operations that must be alone."""
    return LockPlan(shared=frozenset(), exclusive=frozenset({BGL}))


def allocation_plan(view: ConfigView, instance: Instance) -> LockPlan:
    """While an allocator finds another node for *instance*, only jobs of its node group are kept off (S1.52).

    A node that takes no instances is no candidate, and its jobs go on (S1.76).
    """
    nodes, places = candidate_locks(view, instance)
    groups = {view.node(uuid).group for uuid in view.instance_nodes(instance)}
    return plan(shared=[*map(group_lock, groups), *nodes], exclusive=[instance_lock(instance.name), *places])


def candidate_locks(view: ConfigView, instance: Instance) -> tuple[list[str], list[str]]:
    """The locks of nodes, and those of their room, in the plan above."""
    own = view.instance_nodes(instance)
    groups = {view.node(uuid).group for uuid in own}
    return locks_of(view, list(dict.fromkeys([*own, *placeable(view, groups)])))


def locks_of(view: ConfigView, nodes: Sequence[str]) -> tuple[list[str], list[str]]:
    """The locks of *nodes*, and those of their room; all nodes together have one."""
    if len(nodes) == len(view.nodes()):
        return [ALL_NODES], [ALL_NODE_RES]
    return [*map(node_lock, nodes)], [*map(node_res_lock, nodes)]


def placeable(view: ConfigView, groups: Iterable[str] = ()) -> list[str]:
    """UUIDs of the nodes of *groups*, or of all, that may have instances."""
    wanted = set(groups)
    return [node.uuid for node in view.nodes() if node.vm_capable and (not wanted or node.group in wanted)]
