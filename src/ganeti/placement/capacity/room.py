# SPDX-License-Identifier: BSD-2-Clause
"""Where new instances may go when it is asked how many fit (spec: htools, 11).

A group with nodes that fail N+1 takes none, unless these errors are accepted; nor does one whose nodes cannot all fail
without loss, where groups are looked at independently.
"""

from dataclasses import dataclass

from ganeti.placement.cluster.picture import AllocPolicy
from ganeti.placement.kernel.searches import failing_nodes
from ganeti.placement.kernel.state import ClusterState


@dataclass(frozen=True, slots=True)
class Site:
    """Nodes and groups by number, ascending.

    *bad* nodes are online and fail N+1; *failing* groups have nodes whose failure they could not absorb (None: not
    looked at). *candidates* may take instances; *checked* are to be asked for global N+1. *stuck*: errors
    keep everything out.
    """

    bad: tuple[int, ...]
    failing: tuple[int, ...] | None
    candidates: tuple[int, ...]
    checked: tuple[int, ...]
    stuck: bool


def survey(state: ClusterState, *, accept_existing_errors: bool, independent_groups: bool, whole: bool = False) -> Site:
    """Look at the cluster as it is; *whole* tells of failing groups even where they do not matter."""
    everyone = state.everyone()
    bad = tuple(node for node in everyone if state.online[node] and state.view(node).fails_n1)
    shut = set() if accept_existing_errors else {state.group_of[node] for node in bad}
    checked = [node for node in everyone if state.online[node] or not accept_existing_errors]
    failing = None
    if independent_groups or whole:
        failing = {state.group_of[node] for node in failing_nodes(state, checked, everyone)}
    if independent_groups and failing is not None:
        shut |= failing
        checked = [node for node in checked if state.group_of[node] not in shut]
    shut |= {n for n, group in enumerate(state.groups) if group.alloc_policy == AllocPolicy.UNALLOCABLE}
    anywhere = independent_groups and len(shut) < len(state.groups)
    return Site(
        bad=bad,
        failing=None if failing is None else tuple(sorted(failing)),
        candidates=tuple(node for node in everyone if state.online[node] and state.group_of[node] not in shut),
        checked=tuple(checked),
        stuck=bool(bad) and not anywhere and not accept_existing_errors,
    )
