# SPDX-License-Identifier: BSD-2-Clause
"""Each kind of request to the module that answers it (spec: htools, 10).

`place` answers one request over a cluster. Answers given but not yet visible in the node reports are passed as
*reservations*: they take memory, disk and processors as if their instances were there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from ganeti.placement.allocate.change_group import change_group
from ganeti.placement.allocate.choose_group import allocate_somewhere
from ganeti.placement.allocate.empty_nodes import empty_nodes
from ganeti.placement.allocate.evacuate import multi_evacuate, node_evacuate
from ganeti.placement.allocate.many import multi_allocate
from ganeti.placement.allocate.relocate import allocate_secondary, relocate
from ganeti.placement.balance.first_step import balance_step
from ganeti.placement.cluster.picture import Cluster, Instance
from ganeti.placement.kernel.state import ClusterState
from ganeti.placement.request.capacity import Capacity
from ganeti.placement.request.terms import (
    Allocate,
    AllocateSecondary,
    Answer,
    BalanceStep,
    ChangeGroup,
    EmptyNodes,
    MultiAllocate,
    MultiEvacuate,
    NodeEvacuate,
    Options,
    Question,
    Relocate,
    RequestError,
)


def with_reservations(cluster: Cluster, reservations: Sequence[Instance]) -> Cluster:
    """Count *reservations* (instances with nodes, promised but not in the node reports) in *cluster*.

    One whose name the cluster already has is counted as the promise says, once.
    """
    if not reservations:
        return cluster
    promised = {instance.name for instance in reservations}
    kept = [instance for instance in cluster.instances if instance.name not in promised]
    return replace(cluster, instances=kept, promised=[*cluster.promised, *reservations])


def place(
    cluster: Cluster, request: Question, *, reservations: Sequence[Instance] = (), options: Options | None = None
) -> Answer:
    """Answer *request*; raises `RequestError` for unknown names."""
    return answer_request(with_reservations(cluster, reservations), request, options or Options())


def answer_request(cluster: Cluster, request: Question, options: Options) -> Answer:
    """Answer *request* over *cluster*; raises `RequestError` for what cannot be asked."""
    if isinstance(request, Capacity):
        from ganeti.placement.capacity.request import answer  # few ask this

        return answer(cluster, request, options)
    return answer_over(ClusterState(cluster), request, options)


def answer_over(state: ClusterState, request: Question, options: Options) -> Answer:
    """The same over a state that is there already, and is the same again afterwards."""
    mark = state.mark()
    try:
        return _answer(state, request, options)
    finally:
        state.rollback(mark)


def _answer(state: ClusterState, request: Question, options: Options) -> Answer:
    match request:
        case Allocate():
            return allocate_somewhere(state, request, options)
        case Relocate():
            return relocate(state, request, options)
        case AllocateSecondary():
            return allocate_secondary(state, request, options)
        case MultiAllocate():
            return multi_allocate(state, request, options)
        case NodeEvacuate():
            return node_evacuate(state, request, options)
        case MultiEvacuate():
            return multi_evacuate(state, request, options)
        case EmptyNodes():
            return empty_nodes(state, request, options)
        case BalanceStep():
            return balance_step(state, request, options)
        case ChangeGroup():
            return change_group(state, request, options)
        case Capacity():
            raise RequestError("Capacity is counted over a cluster that was read for it: ask hail")
    assert_never(request)
