# SPDX-License-Identifier: BSD-2-Clause
"""Each kind of request to the module that answers it (spec: htools, 10)."""

from typing import assert_never

from ganeti.placement.capacity_terms import Capacity
from ganeti.placement.change_group import change_group
from ganeti.placement.choose_group import allocate_somewhere
from ganeti.placement.cluster import Cluster
from ganeti.placement.evacuate import multi_evacuate, node_evacuate
from ganeti.placement.many import multi_allocate
from ganeti.placement.relocate import allocate_secondary, relocate
from ganeti.placement.request import (
    Allocate,
    AllocateSecondary,
    Answer,
    ChangeGroup,
    MultiAllocate,
    MultiEvacuate,
    NodeEvacuate,
    Options,
    Relocate,
    Request,
    RequestError,
)
from ganeti.placement.state import ClusterState


def answer_request(cluster: Cluster, request: Request, options: Options) -> Answer:
    """Answer *request* over *cluster*; raises `RequestError` for what cannot be asked."""
    if isinstance(request, Capacity):
        from ganeti.placement.capacity_request import answer  # few ask this

        return answer(cluster, request, options)
    return answer_over(ClusterState(cluster), request, options)


def answer_over(state: ClusterState, request: Request, options: Options) -> Answer:
    """The same over a state that is there already, and is the same again afterwards."""
    mark = state.mark()
    try:
        return _answer(state, request, options)
    finally:
        state.rollback(mark)


def _answer(state: ClusterState, request: Request, options: Options) -> Answer:
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
        case ChangeGroup():
            return change_group(state, request, options)
        case Capacity():
            raise RequestError("Capacity is counted over a cluster that was read for it: ask hail")
    assert_never(request)
