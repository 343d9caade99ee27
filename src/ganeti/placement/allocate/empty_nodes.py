# SPDX-License-Identifier: BSD-2-Clause
"""Whether whole nodes can be emptied one after the other, and where their instances go (S4.41).

A node counts as emptied only if all its instances find a place and the nodes that stay could lose any one of them
afterwards (N+1): one that cannot leaves the room to the next. What cannot leave its node in any case, since its disks
are there alone, is told and in nobody's way.
"""

from collections.abc import Sequence

from ganeti.model.placement_requests import NodeRoom
from ganeti.model.templates import UNSHARED, traits_of
from ganeti.placement.allocate.evacuate import Stuck, move_instance, require_movable
from ganeti.placement.allocate.moves import Opcode, online_targets, unasked
from ganeti.placement.cluster.picture import Instance
from ganeti.placement.kernel.searches import nodes_failing
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.known_names import unknown_element
from ganeti.placement.request.terms import EmptyNodes, EvacuationMode, NodeRooms, Options

_MOST_NAMED = 5
_STOPPER = "(leaving node) "


def empty_nodes(state: ClusterState, request: EmptyNodes, options: Options) -> NodeRooms:
    """Answer for each node in turn. Those of *begun* leave whatever comes of it. Raises `RequestError`."""
    for name in (*request.begun, *request.nodes):
        if name not in state.node_number:
            raise unknown_element(name)
    leaving = {state.node_number[name] for name in request.begun}
    rooms = [_emptied(state, state.node_number[name], leaving, options) for name in request.begun]
    for node in range(len(state.nodes)):
        if node in leaving or not state.online[node]:
            _fill(state, node)
    for name in request.nodes:
        number, mark = state.node_number[name], state.mark()
        room = _emptied(state, number, leaving | {number}, options)
        _fill(state, number)
        refused = _refusal(state, number, leaving | {number}, room, request.keep_redundancy)
        if refused:
            state.rollback(mark)
            rooms.append(NodeRoom(name, refused=refused))
        else:
            state.settle(mark)
            leaving.add(number)
            rooms.append(room)
    return NodeRooms(rooms)


def _emptied(state: ClusterState, node: int, leaving: set[int], options: Options) -> NodeRoom:
    """Move everything off *node* as far as that goes."""
    group = state.group_of[node]
    targets = [each for each in online_targets(state, group) if each not in leaving]
    jobs, stuck, bound = [], [], []
    for number in [*state.listed(node), *state.listed(node, secondary=True)]:
        name = state.instances[number].name
        try:
            require_movable(state, number)
        except Stuck as reason:
            bound.append((name, str(reason)))
            continue
        mark = state.mark()
        try:
            opcodes = _moved_off(state, number, node, targets, options)
            jobs.append((name, [unasked(opcode, state.instances[number]) for opcode in opcodes]))
            state.settle(mark)
        except Stuck as reason:
            state.rollback(mark)
            stuck.append((name, str(reason)))
    return NodeRoom(state.name_of(node), jobs, stuck, bound)


def _fill(state: ClusterState, node: int) -> None:
    """Leave no room on a node that is not in service: nothing can be taken over there when another fails."""
    free_mib = max(0, state.view(node).free_memory_mib)
    stopper = Instance(name=f"{_STOPPER}{node}", memory_mib=free_mib, disk_mib=0, vcpus=0, template=UNSHARED)
    state.add_instance(stopper, node)


def _moved_off(
    state: ClusterState, number: int, node: int, targets: Sequence[int], options: Options
) -> tuple[Opcode, ...]:
    """First the instance leaves a node that may fail at any moment, then the copy of its disks."""
    members = state.group_members(state.group_of[node])
    traits = traits_of(state.instances[number].template)
    if traits is None or not traits.has_secondary:
        return move_instance(state, number, targets, members, EvacuationMode.PRIMARY_ONLY, options)
    first: tuple[Opcode, ...] = ()
    if state.primary_of[number] == node:
        first = move_instance(state, number, targets, members, EvacuationMode.PRIMARY_ONLY, options)
    return first + move_instance(state, number, targets, members, EvacuationMode.SECONDARY_ONLY, options)


def _refusal(state: ClusterState, node: int, leaving: set[int], room: NodeRoom, keep_redundancy: bool) -> str:
    if room.stuck:
        words = "; ".join(f"{name}: {reason}" for name, reason in room.stuck[:_MOST_NAMED])
        return f"not all of its instances find a place on other nodes: {words}"
    staying = [each for each in online_targets(state, state.group_of[node]) if each not in leaving]
    failing = nodes_failing(state, staying) if keep_redundancy else []
    if not failing:
        return ""
    names = ", ".join(state.name_of(each) for each in failing[:_MOST_NAMED])
    return (
        f"without it, the others could not take over the instances of {names} if that fails (N+1): free room, or "
        "run gnt-cluster modify --maintenance-keep-redundancy no"
    )
