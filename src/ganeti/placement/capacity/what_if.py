# SPDX-License-Identifier: BSD-2-Clause
"""A cluster as it would be: with new empty nodes, and without nodes and groups whose instances have moved away. Pure.

An instance of a lost node starts on its secondary and gets another one, or moves to another node of its group where its
disks are reached from there; one of a lost group moves to another group. What cannot move stays where it was, down.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ganeti.placement.allocate.change_group import change_group
from ganeti.placement.allocate.evacuate import Stuck, move_instance, require_movable
from ganeti.placement.allocate.moves import online_targets
from ganeti.placement.cluster.picture import Cluster, Group, Node
from ganeti.placement.kernel.state import NOWHERE, ClusterState
from ganeti.placement.request.terms import ChangeGroup, EvacuationMode, Options, RequestError
from ganeti.placement.request.what_if import Added, WhatIf

_LOST = "offline"
_SHOWN = 5


@dataclass(frozen=True)
class Supposed:
    """*cluster* has the new nodes, and the lost ones as offline; *moves* are to be made on each state of it."""

    cluster: Cluster
    moves: tuple[tuple[str, str, str], ...] = ()
    """Instance, primary and secondary node; the last is empty for none."""
    down: tuple[str, ...] = ()
    """Instances that find no place."""

    def make_moves(self, state: ClusterState) -> None:
        numbers = {instance.name: number for number, instance in enumerate(state.instances)}
        for name, primary, secondary in self.moves:
            other = state.node_number[secondary] if secondary else NOWHERE
            state.move(numbers[name], state.node_number[primary], other)

    @property
    def sentence(self) -> str:
        """What becomes of instances; empty where nothing is lost."""
        if not self.moves and not self.down:
            return ""
        told = f"{len(self.moves)} instance{'' if len(self.moves) == 1 else 's'} would move"
        if not self.down:
            return f"{told}, none would stay down"
        more = f" and {len(self.down) - _SHOWN} more" if len(self.down) > _SHOWN else ""
        return f"{told}, {len(self.down)} would find no place: {', '.join(self.down[:_SHOWN])}{more}"


def suppose(cluster: Cluster, what: WhatIf) -> Supposed:
    """Give the cluster as it would be; raises `RequestError` for nodes and groups that there are not."""
    added = [node for kind, one in enumerate(what.added, 1) for node in _new_nodes(cluster, one, kind)]
    groups = {group.uuid for group in cluster.groups for name in what.lost if name in (group.name, group.uuid)}
    nodes = {node.name for node in cluster.nodes if node.name in what.lost or node.group in groups}
    for name in what.lost:
        if name not in nodes and all(name not in (group.name, group.uuid) for group in cluster.groups):
            raise RequestError(f"There is no node or node group {name} that could be lost")
    there = [replace(node, unavailable=_LOST) if node.name in nodes else node for node in cluster.nodes]
    supposed = replace(cluster, nodes=[*there, *added])
    return _moved_away(supposed, nodes, groups) if nodes else Supposed(supposed)


def _new_nodes(cluster: Cluster, asked: Added, kind: int) -> list[Node]:
    model = next((node for node in cluster.nodes if node.name == asked.like), None)
    if asked.like and model is None:
        raise RequestError(f"There is no node {asked.like} that new nodes could be like")
    group = _group(cluster, asked, model)
    if model is not None:
        memory_mib, disk_mib = int(model.total_memory_mib), int(model.total_disk_mib)
        made = replace(model, unavailable="", tags=(), cpu_load=None)
    else:
        memory_mib, disk_mib = asked.memory_mib, asked.disk_mib
        made = Node(name="", group="", total_cpus=asked.cpus, node_cpus=1)
    own = [node.node_memory_mib for node in cluster.nodes if node.group == group.uuid] or [0]
    node_mib = min(max(own), memory_mib)
    made = replace(
        made,
        group=group.uuid,
        total_memory_mib=float(memory_mib),
        node_memory_mib=node_mib,
        free_memory_mib=memory_mib - node_mib,
        total_disk_mib=float(disk_mib),
        free_disk_mib=disk_mib,
        free_spindles=made.spindles,
    )
    return [replace(made, name=f"new-{kind}-{number}") for number in range(1, asked.count + 1)]


def _group(cluster: Cluster, asked: Added, model: Node | None) -> Group:
    named = asked.group or (model.group if model is not None else "")
    found = [group for group in cluster.groups if not named or named in (group.name, group.uuid)]
    if not found:
        raise RequestError(f"There is no node group {named} that new nodes could be in")
    if len(found) > 1:
        names = ", ".join(group.name for group in found)
        raise RequestError(f"Say which node group the new nodes are in: add group=GROUP, one of {names}")
    return found[0]


def _moved_away(cluster: Cluster, nodes: set[str], groups: set[str]) -> Supposed:
    state = ClusterState(cluster)
    lost = {number for number, node in enumerate(state.nodes) if node.name in nodes}
    down = []
    for number in range(len(state.instances)):
        if state.primary_of[number] in lost or state.secondary_of[number] in lost:
            whole = state.groups[state.group_of[state.primary_of[number]]].uuid in groups
            if not (_leave_group(state, number) if whole else _leave_nodes(state, number, lost)):
                down.append(state.instances[number].name)
    moves = [
        (instance.name, *_names(state, number))
        for number, instance in enumerate(cluster.instances)
        if _names(state, number) != (instance.primary, instance.secondary)
    ]
    return Supposed(cluster, tuple(moves), tuple(down))


def _names(state: ClusterState, number: int) -> tuple[str, str]:
    other = state.secondary_of[number]
    return state.name_of(state.primary_of[number]), state.name_of(other) if other != NOWHERE else ""


def _leave_group(state: ClusterState, number: int) -> bool:
    request = ChangeGroup((state.instances[number].name,))
    return not change_group(state, request, Options(capacity_checks=False)).failed


def _leave_nodes(state: ClusterState, number: int, lost: set[int]) -> bool:
    """Whether it goes on; one that finds no other secondary does, without."""
    group = state.group_of[state.primary_of[number]]
    targets = [node for node in online_targets(state, group) if node not in lost]
    try:
        traits = require_movable(state, number)
        if not traits.has_secondary:
            _move(state, number, targets, EvacuationMode.PRIMARY_ONLY)
            return True
        if {state.primary_of[number], state.secondary_of[number]} <= lost:
            return False
        if state.primary_of[number] in lost:
            _move(state, number, targets, EvacuationMode.PRIMARY_ONLY)
    except Stuck:
        return False
    try:
        _move(state, number, targets, EvacuationMode.SECONDARY_ONLY)
    except Stuck:
        return True
    return True


def _move(state: ClusterState, number: int, targets: Sequence[int], mode: EvacuationMode) -> None:
    members = state.group_members(state.group_of[state.primary_of[number]])
    move_instance(state, number, targets, members, mode, Options(ignore_soft_errors=True))
